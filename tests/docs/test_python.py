"""The Python in the documents is run, page by page, in a folder with the files and runs that the pages speak of."""

from __future__ import annotations

import re
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import dura
from dura.__main__ import app

ROOT = Path(__file__).parents[2]
PAGES = [
    "README.md",
    "docs/reference/python.md",
    "docs/reference/run-folder.md",
    *(
        f"docs/how-to/{name}.md"
        for name in (
            *("audit", "databases", "discover", "evaluate", "explain", "export", "extend", "fold-in", "labels"),
            *("other-programs", "own-data", "predict", "probabilities", "scripts", "several-processes", "small-models"),
        )
    ),
]
"""Not here: dated-facts (it has its own test), agents and serve (they need a running service), sweep and the tutorials (they take
long), pykeen and track (other packages), splits and studies (graphs to download). Their code is compiled by another test."""


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.M | re.S)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("python")
    small: dict[str, Any] = {"rank": 8, "epochs": 2, "seed": 0, "progress": False}
    dura.fit(dura.load("umls"), **small, out=home / "runs" / "umls")
    vectors = ["export", str(home / "runs" / "umls"), str(home / "vectors"), "--format", "numpy"]
    assert CliRunner().invoke(app, vectors).exit_code == 0
    shutil.copytree(home / "runs" / "umls", home / "runs" / "mine")
    dated = [
        ("Ann", "visits", "Bob", "2014-05-06"),
        ("Bob", "visits", "Cem", "2014-05-07"),
        ("Cem", "visits", "Ann", "2014-05-08"),
    ]
    dura.fit(
        dura.from_facts(dated, valid=dated[:1], test=dated[1:2]),
        model="tcomplex",
        **small,
        out=home / "runs" / "visits",
    )
    cities = [
        ("Berlin", "located_in", "Germany"),
        ("Potsdam_old", "located_in", "Brandenburg"),
        ("Spree", "flows_through", "Berlin"),
    ]
    cities += [
        ("Berlin", "twinned_with", "Paris"),
        ("Brandenburg", "located_in", "Germany"),
        ("Paris", "located_in", "France"),
    ]
    (home / "facts.tsv").write_text("".join("\t".join(fact) + "\n" for fact in cities))
    (home / "questions.tsv").write_text("virus\tcauses\t?\n")
    (home / "candidates.csv").write_text("head,relation,tail\nvirus,causes,fungus\n")
    (home / "people.csv").write_text("person,link,friend\nann,knows,bob\nbob,knows,ann\n")
    (home / "visits.csv").write_text("from,link,to,date\nann,visits,bob,2014-05-06\nbob,visits,ann,2014-05-07\n")
    (home / "facts.csv").write_text("head,relation,tail\nQ64,P17,Q183\nQ183,P36,Q64\n")
    (home / "entities.csv").write_text("id,label,type\nQ64,Berlin,city\nQ183,Germany,country\n")
    (home / "relations.csv").write_text("id,label\nP17,country\nP36,capital\n")
    with sqlite3.connect(home / "facts.db") as database:
        database.execute("CREATE TABLE facts (head, relation, tail)")
        database.executemany("INSERT INTO facts VALUES (?, ?, ?)", cities)
    database.close()
    return home


def shortened(block: str) -> str:
    """The same with fewer epochs and smaller models."""
    block = re.sub(r"\bepochs=\d+", "epochs=1", re.sub(r"\brank=\d+(?=[,)])", "rank=8", block))
    block = re.sub(r"dura\.fit\(([^\n]*)\)$", r"dura.fit(\1, progress=False)", block, flags=re.M)
    return block.replace("progress=False, progress=False", "progress=False")


@pytest.mark.parametrize("page", PAGES)
def test_python_runs(page: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    shutil.rmtree(home / "runs" / "saved", ignore_errors=True)
    names: dict[str, object] = {"dura": dura, "__name__": "__main__"}
    if page.endswith("fold-in.md"):
        names["model"] = dura.fit(
            dura.read("facts.tsv"), rank=4, epochs=1, progress=False, out=home / "runs" / "cities"
        )
    found = blocks(page)
    assert found, page
    for block in found:
        exec(compile(shortened(block), page, "exec"), names)
