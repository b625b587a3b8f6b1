"""The presets of the systems that the paper compares with, against its tables, whose figures stand here once more."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from dura.config import Experiment
from dura.data import catalog
from dura.models import MODELS, SemanticMatching
from dura.reproduction.cells import LAPTOP, cells
from dura.reproduction.estimates import estimate
from dura.runs.build import build_objective, complete
from dura.runs.cost import model_size
from dura.runs.presets import presets
from dura.types import Sizes

MEASURED = Path(__file__).parents[2] / "docs/results/systems.csv"
PAPER = """
wn18rr TransE .226 - .501 | TransH .186 - .424 | TransD .185 - .428 | RotatE .476 .428 .571 | MuRP .481 .440 .566
wn18rr HAKE .497 .452 .582 | ConvE .444 - .503 | ConvKB .249 - .524 | InteractE .463 .430 .528 | KB-GAT .412 - .554
wn18rr StAR .401 .243 .709
fb15k-237 TransE .294 - .465 | TransH .211 - .366 | TransD .286 - .453 | RotatE .338 .241 .533 | MuRP .335 .243 .518
fb15k-237 HAKE .346 .250 .542 | ConvE .324 - .501 | ConvKB .243 - .421 | InteractE .354 .263 .535 | KB-GAT .157 - .331
fb15k-237 StAR .296 .205 .482
yago3-10 RotatE .495 .402 .670 | HAKE .546 .462 .694 | InteractE .541 .462 .687
icews14 TTransE .26 .07 .60 | TA-TransE .28 .10 .63 | RFTE-HAKE .50 .40 .70 | BoxTE .62 .53 .77
icews05-15 TTransE .27 .08 .62 | TA-TransE .30 .10 .67 | RFTE-HAKE .47 .37 .65 | BoxTE .66 .58 .82
yago15k TTransE .32 .23 .51 | TA-TransE .32 .23 .51
"""
SYSTEMS = {
    name: experiment
    for name, experiment in ((name, Experiment.from_toml(file)) for name, file in presets().items())
    if not issubclass(MODELS.get(experiment.model.name), SemanticMatching) or experiment.model.name == "dedicom"
}
FULL = {name: e for name, e in SYSTEMS.items() if not name.endswith(LAPTOP)}
AT_LAPTOP = {name: e for name, e in SYSTEMS.items() if name.endswith(LAPTOP)}
TOGETHER = {"wn18rr/star-rotate-laptop", "fb15k-237/star-rotate-laptop"}
"""Rows of two runs that answer together."""
TEMPORAL = ("icews14", "icews05-15", "yago15k")


def paper() -> dict[tuple[str, str], dict[str, float]]:
    rows = {}
    for line in PAPER.strip().splitlines():
        graph, _, found = line.partition(" ")
        for cell in found.split(" | "):
            system, *figures = cell.split()
            named = zip(("mrr", "hits@1", "hits@10"), figures, strict=True)
            rows[graph, system] = {name: float(figure) for name, figure in named if figure != "-"}
    return rows


def test_there_is_a_preset_for_every_system_of_the_paper() -> None:
    ours = {
        (e.graph.source, e.expected["system"].removesuffix(" (k=2)")): {
            key: e.expected[key] for key in ("mrr", "hits@1", "hits@10") if key in e.expected
        }
        for e in FULL.values()
        if e.expected["tables"] != ["systems"]
    }
    assert ours == paper()


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_preset_is_what_its_name_says_and_can_be_built(name: str) -> None:
    e, (graph, row) = SYSTEMS[name], name.split("/")
    assert e.graph.source == graph and row.removesuffix(LAPTOP).split("-")[0] == e.model.name
    wanted = "temporal" if graph in TEMPORAL else "main"
    assert e.expected["tables"] in ([wanted], ["systems"])
    assert (e.expected["tables"] == [wanted]) == ((graph, e.expected["system"].removesuffix(" (k=2)")) in paper())
    assert MODELS.get(e.model.name).temporal == (graph in TEMPORAL)
    assert build_objective(complete(e)).terms
    known = catalog.entries()[graph]
    assert model_size(e.model, Sizes(known.entities, known.relations, known.timestamps)).numbers


@pytest.mark.parametrize("name", [name for name, e in SYSTEMS.items() if e.model.name == "rtfe"])
def test_presets_of_rtfe_train_every_span_and_have_an_estimate(name: str) -> None:
    e = complete(SYSTEMS[name])
    slots, static, sweeps = (int(str(e.model.options[key])) for key in ("slots", "static_epochs", "sweeps"))
    assert e.training.epochs == static + slots * sweeps
    took = estimate(e, 1e9)
    assert took.seconds and took.bytes


def test_settings_that_were_not_checked_say_so() -> None:
    sources = {name: e.expected["source"] for name, e in FULL.items() if e.model.name == "tatranse"}
    assert len(sources) == 3 and all("from memory of the TA-TransE paper, not checked" in s for s in sources.values())


@pytest.mark.parametrize("name", AT_LAPTOP)
def test_presets_for_a_laptop_have_a_measured_band(name: str) -> None:
    """One seed; the band is ± .01 around it."""
    e = AT_LAPTOP[name]
    found = {row["preset"]: float(row["mrr"]) for row in csv.DictReader(MEASURED.read_text().splitlines())}
    assert e.expected["mrr"] == pytest.approx(found[name], abs=0.00051)
    assert e.expected["band"] == pytest.approx([found[name] - 0.01, found[name] + 0.01], abs=0.00051)
    assert e.expected["source"] == "docs/results/systems.md: one seed, 2 cores"


def test_every_measured_system_is_a_preset_and_a_cell() -> None:
    found = {row["preset"] for row in csv.DictReader(MEASURED.read_text().splitlines())}
    assert found - TOGETHER == set(AT_LAPTOP) and found >= TOGETHER
    listed = {cell.preset for table in ("main", "temporal", "systems") for cell in cells(table, laptop=True)}
    assert set(AT_LAPTOP) <= listed


def test_star_and_rotate_answer_together() -> None:
    found = {row["preset"]: float(row["mrr"]) for row in csv.DictReader(MEASURED.read_text().splitlines())}
    both = {cell.preset: cell for cell in cells("main", laptop=True) if cell.members}
    assert set(both) == TOGETHER
    for name, cell in both.items():
        graph = name.partition("/")[0]
        assert [member.preset for member in cell.members] == [f"{graph}/star-laptop", f"{graph}/rotate-laptop"]
        assert cell.system == "StAR (Self-Adp)" and cell.expected == pytest.approx(found[name], abs=0.00051)
        assert cell.band == pytest.approx((found[name] - 0.01, found[name] + 0.01), abs=0.00051)
        (full,) = cells("main", laptop=False, only=[name.removesuffix(LAPTOP)])
        assert (
            full.paper
            == cell.paper
            == {
                "wn18rr": {"mrr": 0.551, "hits@1": 0.459, "hits@10": 0.732},
                "fb15k-237": {"mrr": 0.365, "hits@1": 0.266, "hits@10": 0.562},
            }[graph]
        )
        assert [member.preset for member in full.members] == [f"{graph}/star", f"{graph}/rotate"]
        parts = [member.cost(1e9).seconds for member in cell.members]
        assert cell.cost(1e9).seconds == pytest.approx(sum(part for part in parts if part))
