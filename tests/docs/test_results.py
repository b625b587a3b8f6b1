"""The pages of results show the numbers of the records, and every figure has its command."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from dura.reproduction.cells import cells
from dura.runs.presets import preset, presets
from page_tables import numbers, tables

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "results"
ENTRY = ROOT / "docs" / "results.md"
GRAPHS = ("fb15k-237", "wn18rr", "icews14", "icews05-15", "yago15k")
SEEDS = [
    (row["preset"], float(row["mrr"]))
    for row in csv.DictReader((FOLDER / "seeds.csv").read_text().splitlines())
    if row["seed"] == "0"
]
every_graph = pytest.mark.parametrize("graph", GRAPHS)


@every_graph
def test_rows_of_presets_are_those_of_the_records(graph: str) -> None:
    rows = {row["command"].strip("`"): row for row in tables(FOLDER / f"{graph}.md") if "command" in row}
    papers = {cell.preset: cell.paper["mrr"] for cell in cells(laptop=True, only=[graph]) if cell.paper}
    ran = {name: mrr for name, mrr in SEEDS if name.startswith(f"{graph}/")}
    assert ran
    for name, mrr in ran.items():
        row = rows[f"dura train {name}"]
        assert numbers(row["MRR"]) == [mrr]
        (paper,) = (cell for title, cell in row.items() if "paper" in title)
        assert numbers(paper) == [papers[name]], name


@every_graph
def test_the_first_table_repeats_the_pages_and_the_records(graph: str) -> None:
    (row,) = (row for row in tables(ENTRY) if "full size" in row and f"(results/{graph}.md)" in row["graph"])
    page = {number for line in tables(FOLDER / f"{graph}.md") for number in numbers(" ".join(line.values()))}
    for size in ("laptop size", "full size"):
        assert set(numbers(row[size])) <= page
        model = row[size].rpartition(", ")[2].lower()
        published = (f"{graph}/{model}-{name}" for name in ("dura", "dura1"))
        (paper,) = (preset(name).expected["mrr"] for name in published if name in presets())
        assert numbers(row["the paper"]) == [paper]
    defaults = {one["graph"]: one["test_mrr"] for one in json.loads((FOLDER / "defaults.json").read_text("utf-8"))}
    assert numbers(row["no settings at all"]) == [defaults[graph]]


def test_the_first_page_has_the_numbers_of_pykeen() -> None:
    sentence = next(line for line in ENTRY.read_text("utf-8").splitlines() if line.startswith("- PyKEEN's ComplEx"))
    runs = [run for graph in ("fb15k-237", "wn18rr") for run in _runs(FOLDER / f"quality-{graph}.json")]
    ends = [round(run["points"][-1]["test_mrr"], 4) for run in runs if run["system"] == "pykeen"]
    assert numbers(sentence) == ends


def _runs(record: Path) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = json.loads(record.read_text("utf-8"))["runs"]
    return runs


def test_the_rows_at_full_size_are_those_of_the_record() -> None:
    rows = {
        row["command"].strip("`"): row
        for row in tables(FOLDER / "full-size.md")
        if {"difference", "command"} <= set(row)
    }
    ran = [row for row in csv.DictReader((FOLDER / "headline.csv").read_text().splitlines()) if row["seed"] == "0"]
    assert {f"dura train {row['preset']}" for row in ran} == set(rows)
    for row in ran:
        shown = rows[f"dura train {row['preset']}"]
        for title, key in (("MRR", "mrr"), ("Hits@1", "hits@1"), ("Hits@10", "hits@10"), ("valid MRR", "valid_mrr")):
            assert float(shown[title]) == float(row[key]), row["preset"]
        paper = preset(row["preset"].removesuffix("-headline")).expected["mrr"]
        assert numbers(shown["the paper's MRR"]) == [paper]
        assert float(shown["difference"]) == pytest.approx(float(row["mrr"]) - paper, abs=0.0006)


def test_every_page_of_results_is_listed_on_the_first() -> None:
    linked = set(re.findall(r"\]\(results/([\w-]+)\.md\)", ENTRY.read_text("utf-8")))
    assert linked == {page.stem for page in FOLDER.glob("*.md")}


@pytest.mark.parametrize("page", [ENTRY, *sorted(FOLDER.glob("*.md"))], ids=lambda page: page.stem)
def test_figures_have_their_commands(page: Path) -> None:
    for section in re.split(r"^#+ ", page.read_text("utf-8"), flags=re.M):
        if "![" in section:
            assert re.search(r"dura study \w|python benchmarks/\w+\.py|`benchmarks/\w+\.py`", section), section[:60]


def test_sources_of_presets_are_pages() -> None:
    sources = [str(preset(name).expected.get("source", "")) for name in presets()]
    named = {source.partition(":")[0] for source in sources if source.startswith("docs/")}
    assert named >= {f"docs/results/{graph}.md" for graph in GRAPHS}
    assert [name for name in named if not (ROOT / name).exists()] == []
