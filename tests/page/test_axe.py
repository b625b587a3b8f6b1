"""axe finds nothing to complain about, in each view, light and dark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from browsers import PHONE, Service, visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow
FACT = {"head": "virus", "relation": "causes", "tail": "congenital_abnormality"}
VIEWS: list[tuple[str, dict[str, str]]] = [
    ("", {}),
    ("entity", {"name": "virus"}),
    ("fact", FACT),
    ("neighbourhood", {"name": "virus"}),
    ("map", {"name": "virus"}),
    ("decisions", {}),
    ("model", {}),
]


def complaints(page: Page) -> list[str]:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found = axe.Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]} {one['nodes'][0]['failureSummary']}" for one in found]


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_views(browser: Browser, umls_page: Service, colours: str) -> None:
    with visit(browser, umls_page, color_scheme=colours) as seen:
        for view, given in VIEWS:
            assert complaints(seen.open(view, **given)) == [], view
        page = seen.open()
        page.get_by_role("combobox").fill("vir")
        page.get_by_role("option").first.wait_for()
        assert complaints(page) == []


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_views_with_times(browser: Browser, dated_page: Service, colours: str) -> None:
    fact = {"head": "person_1", "relation": "visits", "tail": "place_2"}
    with visit(browser, dated_page, color_scheme=colours, viewport=PHONE) as seen:
        for view, given in (("entity", {"name": "person_1"}), ("fact", fact)):
            assert complaints(seen.open(view, **given)) == [], view
