"""What the tests of the page share: graphs with times and with hostile names, runs of them, live services, and a browser."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import dura
from browsers import Service, chromium, program

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SCRIPT = "<script>window.harmed=1</script>"
IMAGE = '"><img src=x onerror="window.harmed=2">'
TURNED = "\u202eevil\u202c\u200f \u05d0\u05d1\u05d2"
QUOTES = 'it\'s "quoted" & `ticked` {{braces}} ${money} javascript:window.harmed=3'
HOSTILE = (SCRIPT, IMAGE, TURNED, QUOTES)
MEGABYTE = "endless " + "w" * 1_000_000


def visits(days: int = 60, people: int = 24, seed: int = 0) -> list[tuple[str, str, str, str]]:
    """Facts with times: person i visits places in turn, and meets the next person on every seventh day."""
    rng, facts = np.random.default_rng(seed), []
    for day in range(days):
        time = (date(2024, 1, 1) + timedelta(days=day)).isoformat()
        for one in range(people):
            if rng.random() < 0.5:
                facts.append((f"person_{one}", "visits", f"place_{(one + day // 10) % 8}", time))
            if day % 7 == one % 7:
                facts.append((f"person_{one}", "meets", f"person_{(one + 1) % people}", time))
    return facts


def hostile(others: int = 20, seed: int = 0) -> list[tuple[str, str, str]]:
    """Facts whose names are code, quotes and marks of direction; the entity `plain` knows all of them."""
    rng = np.random.default_rng(seed)
    names = [*HOSTILE, "long", *(f"other {i}" for i in range(others))]
    relations = ["knows", SCRIPT, TURNED, "a/" + "very_long_relation_name_" * 12]
    facts = [("plain", relations[i % 4], name) for i, name in enumerate(names)]
    for head in names:
        tails = rng.choice(len(names), size=3, replace=False)
        facts += [(head, relations[int(rng.integers(4))], names[int(tail)]) for tail in tails]
    return sorted(set(facts))


# -- one browser, and one service for each graph ---------------------------------------------------------------------


@pytest.fixture(scope="module")  # as long as it is open, playwright runs an event loop, which other tests may not want
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="session")
def page_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder for runs. Nothing is trained where there is no browser."""
    program()
    return tmp_path_factory.mktemp("page")


def _trained(graph: Any, out: Path, **settings: Any) -> Path:
    dura.fit(graph, out=out, progress=False, **settings).calibrate()
    return out


@pytest.fixture(scope="session")
def umls_page(page_runs: Path) -> Iterator[Service]:
    service = Service(_trained(dura.load("umls"), page_runs / "umls", model="complex", rank=20, epochs=12))
    yield service
    service.end()


@pytest.fixture(scope="session")
def dated_page(page_runs: Path) -> Iterator[Service]:
    graph = dura.from_facts(visits(), name="visits")
    service = Service(_trained(graph, page_runs / "visits", model="tcomplex", rank=20, epochs=12))
    yield service
    service.end()


@pytest.fixture(scope="session")
def strange_page(page_runs: Path) -> Iterator[Service]:
    labels = {"long": MEGABYTE, "other 1": HOSTILE[0], "other 2": HOSTILE[2]}
    types = {"plain": [HOSTILE[1]], "other 1": [HOSTILE[2]]}
    graph = dura.from_facts(
        hostile(), name=HOSTILE[0], labels=labels, entity_types=types, valid_share=0.1, test_share=0
    )
    path = page_runs / "strange"
    dura.fit(graph, out=path, progress=False, model="distmult", rank=8, epochs=4)  # without probabilities
    service = Service(path)
    yield service
    service.end()
