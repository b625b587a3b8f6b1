"""The table of all models has the results of the presets, and says which models cannot be made small."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from dura.analysis.sparsity import entity_tables
from dura.models import MODELS
from dura.registry import Registry
from dura.runs.presets import preset, presets
from dura.types import BadInput, Sizes
from page_tables import numbers, tables

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "results"
PAGE = ROOT / "docs" / "reference" / "models.md"
HERE = {row["model"].strip("`"): row["here"] for row in tables(PAGE) if "here" in row}
ROWS = {row["system"].split()[0].strip("`"): row for row in tables(FOLDER / "systems.md") if "trained with" in row}
MEASURED = {row["preset"]: row for row in csv.DictReader((FOLDER / "systems.csv").read_text().splitlines())}


def expected(model: str) -> list[float]:
    """The results of the presets at laptop size, with DURA if there is one."""
    graphs = ["icews14"] if MODELS.get(model).temporal else ["wn18rr", "fb15k-237"]
    names = [[f"{graph}/{model}{way}-laptop" for way in ("-dura", "-dura1", "")] for graph in graphs]
    own = [preset(name).expected for ways in names for name in ways if name in presets()]
    return [found["mrr"] for found in own if "mrr" in found]


@pytest.mark.parametrize("model", Registry.names(MODELS))
def test_the_results_of_a_model_are_those_of_its_presets(model: str) -> None:
    text = re.sub(r"\(\S+\)|\(star-like\)", "", HERE[model])  # links and remarks
    assert numbers(text) == pytest.approx(expected(model), abs=1e-9)


def test_models_that_cannot_be_made_small_are_named() -> None:
    (row,) = (row for row in tables(PAGE) if row.get("") == "export of sparse or int8 tables")
    refused = set()
    for name in Registry.names(MODELS):
        rank = 20 if name in ("conve", "interacte") else 4
        model = MODELS.build(name, {"rank": rank}, Sizes(6, 2, 3 if MODELS.get(name).temporal else 0))
        try:
            entity_tables(model)
        except BadInput:
            refused.add(name)
    named = row["distance, neural, temporal systems"].partition("refused for")[2]
    assert set(re.findall(r"`(\w+)`", named)) == refused


@pytest.mark.parametrize("name", MEASURED)
def test_the_page_of_systems_shows_what_was_measured(name: str) -> None:
    row, found = ROWS[name], MEASURED[name]
    assert numbers(row["MRR"]) == pytest.approx([float(found["mrr"])], abs=0.00051)
    for title, column in (("Hits@1", "hits@1"), ("Hits@10", "hits@10"), ("minutes", "minutes"), ("epochs", "epochs")):
        assert row[title].replace("–", "") == found[column], title
    assert set(ROWS) == set(MEASURED)
