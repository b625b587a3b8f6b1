"""Golden curves: ten steps of every model, objective and regularizer give the numbers that they gave before.

`curves.json` holds for each combination the loss and the penalty of ten steps on a small graph, and afterwards of each table
its sum of squares and three entries. A change of the program that should not change numbers must leave all of them as they
are, but for rounding: processors and builds of torch round differently, and `RELATIVE`, `ABSOLUTE` and `ENTRY` say how much
of that is allowed. The last digits are only demanded where the environment variable DURA_GOLDEN is "exact". Use that on the
machine that wrote the file.

    python tests/golden/test_golden.py --write      adds combinations that are missing and removes those that are no more
    python tests/golden/test_golden.py --write-all  writes everything anew

Add a combination when a model, an objective or a regularizer is new. Write everything anew only when a formula, a draw or an
order of steps changes on purpose, and say so in the commit and among the changes: whoever repeats an old run gets other numbers.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dura
from dura import BadInput, Experiment, Graph
from dura.models import MODELS, SemanticMatching
from dura.objectives import CANDIDATES, LOSSES
from dura.regularizers import REGULARIZERS
from dura.runs.run import train
from texts import options_of

CURVES = Path(__file__).with_name("curves.json")
REFUSED = "refused"
"""Stands for the numbers of a combination that settings cannot ask for, such as N3 for RESCAL."""
RELATIVE, ABSOLUTE, ENTRY = 2e-6, 1e-9, 3e-6
"""Of sums, and the absolute one of a table's single entries: processors and torch's plainest kernels differ by 1.1e-6 and 8e-7."""
ROUGH, FIRST, SOON, LATE = ("mure", "murp", "hake", "rtfe", "boxte", "conve", "interacte"), 4, 2e-5, 2e-2
"""Models that make large steps of rounding. Some of their parameters have a true gradient of zero: biases in front of a batch norm,
and biases of queries under a softmax. Others cancel large numbers, or have kinks. Loss and penalty of the first steps are compared
up to `SOON`, and those of the others up to `LATE`: processors differ by 6e-6 and 4e-4, torch's plainest kernels by 5e-3. Their
tables are compared only where exact numbers are demanded."""
STEPS, EPOCHS = 10, 2
BATCH, FEW = 48, 40
"""Five steps an epoch of 240 facts, with and without times; static facts share more of their questions, which are fewer."""
HOW = "python tests/golden/test_golden.py --write"

Settings = Mapping[str, Any]
Curve = dict[str, Any] | str
"""{"loss", "penalty", "tables"}, or REFUSED."""

OBJECTIVE: dict[str, Settings] = {
    "cross-entropy": {"name": "cross-entropy"},
    "cross-entropy-w0": {"name": "cross-entropy", "w0": 0.3},
    "sampled-uniform": {"name": "sampled-cross-entropy", "samples": 10, "draw": "uniform"},
    "sampled-frequency": {"name": "sampled-cross-entropy", "samples": 10, "draw": "frequency"},
}
"""What is written out here does not change with the defaults of the program."""
REGULARIZER: dict[str, Settings] = {
    "none": {},
    "fro": {"weight": 0.1},
    "n3": {"weight": 0.1},
    "dura": {"weight": 0.1, "lambda1": 0.5, "lambda2": 1.5},
    "dura-i": {"weight": 0.1},
    "dura-ii": {"weight": 0.1},
    "dura1": {"weight": 0.1, "lambda3": 0.4, "lambda4": 1.2},
    "dura2": {"weight": 0.1, "lambda1": 0.7, "lambda2": 0.9},
    "dura12": {"weight": 0.1, "lambda1": 0.7, "lambda2": 0.9, "lambda3": 0.4, "lambda4": 1.2},
    "reg-p1": {"weight": 0.01},
    "er": {"weight": 0.1, "lambda1": 0.8, "lambda2": 1.1, "threshold": 0.95, "strength": 0.9},
    "ivr": {"weight": 0.1, "lambda1": 0.4, "lambda2": 1.2, "power": 2.25, "relation": 0.7, "ends": 0.6},
}
SMOOTH = {"weight": 0.5, "p": "auto"}


@dataclass(frozen=True)
class Combination:
    """One row of the file: tables of settings, of version 1 if they have an objective, and the facts they are trained on."""

    settings: Settings
    facts: str = "static"
    training: Settings = field(default_factory=dict)

    def experiment(self) -> Experiment:
        few = self.facts == "static" and self.training.get("batching") != "facts"
        fixed = {"epochs": EPOCHS, "batch": FEW if few else BATCH, "patience": 0, "seed": 7, "threads": 1}
        training = {**fixed, **self.training}
        version = 1 if "objective" in self.settings else 2
        return Experiment.from_dict({"version": version, **self.settings, "training": training})


def combinations() -> dict[str, Combination]:
    """Every model with every regularizer and every objective, possible or not, then some that vary the rest.

    Temporal models also with smooth times, once for each regularizer and each objective.
    """
    rows: dict[str, Combination] = {}
    for model, kind in MODELS.items():
        if not issubclass(kind, SemanticMatching):
            rows |= _of_another_kind(model)
            continue
        for regularizer in REGULARIZERS:
            for objective, options in OBJECTIVE.items():
                tables = _tables(model, regularizer, objective=options)
                rows[f"{model}/{regularizer}/{objective}"] = Combination(tables, _facts(model))
                if kind.temporal and (objective == "cross-entropy" or regularizer == "dura1"):
                    smooth = {**tables, "smoothness": SMOOTH}
                    rows[f"{model}/{regularizer}/{objective}/smooth"] = Combination(smooth, _facts(model))
    return rows | _others() | _losses_and_terms()


def _of_another_kind(model: str) -> dict[str, Combination]:
    """A model that most regularizers are not defined for: over all entities, over a sample, and with its own defaults."""
    rows, plain = dict[str, Combination](), _tables(model, "fro")
    del plain["objective"]
    plain["model"] |= options_of(model, graph(_facts(model)))
    few: dict[str, Any] = {"candidates": {"name": "negatives", "count": 7}}
    variants: dict[str, dict[str, Any]] = {
        "all": {},
        "sample": {"candidates": {"name": "sample", "samples": 10}},
        "self-adversarial": {**few, "loss": {"name": "self-adversarial"}},
    }
    for name, changed in variants.items():
        rows[f"{model}/fro/{name}"] = Combination({**plain, **changed}, _facts(model))
    return rows


def _losses_and_terms() -> dict[str, Combination]:
    """Every loss over every kind of candidates, and every term, in the settings of version 2."""
    rows: dict[str, Combination] = {}
    for model, regularizer in (("complex", "dura"), ("rescal", "none"), ("tcomplex", "dura1")):
        tables = _tables(model, regularizer)
        del tables["objective"]
        for loss in LOSSES:
            for candidates in CANDIDATES:
                options = {"count": 7} if candidates == "negatives" else {}
                chosen = {"loss": {"name": loss}, "candidates": {"name": candidates, **options}}
                rows[f"{model}/{loss}/{candidates}"] = Combination({**tables, **chosen}, _facts(model))
        for hole in ("relations", "times"):
            rows[f"{model}/terms/{hole}"] = Combination({**tables, "terms": {hole: 0.5}}, _facts(model))
    smoothed = {**_tables("complex", "dura"), "loss": {"name": "softmax", "smoothing": 0.1, "w0": 0.3}}
    bernoulli = {"name": "negatives", "count": 5, "side": "bernoulli", "filtered": False}
    for name, changed in {
        "smoothing": smoothed,
        "binary-smoothing": {**smoothed, "loss": {"name": "binary", "smoothing": 0.1}},
        "bernoulli": {**smoothed, "loss": {"name": "margin"}, "candidates": bernoulli},
    }.items():
        del changed["objective"]
        rows[f"complex/dura/{name}"] = Combination(changed)
    return rows


def _others() -> dict[str, Combination]:
    """The other settings that decide numbers, one at a time."""
    rows: dict[str, Combination] = {}
    for model, kind in MODELS.items():
        if not issubclass(kind, SemanticMatching):
            continue
        regularizer = "dura1" if kind.temporal else "dura"
        tables, facts = _tables(model, regularizer), _facts(model)
        rows[f"{model}/{regularizer}/facts"] = Combination(tables, facts, {"batching": "facts"})
        rows[f"{model}/{regularizer}/anneal"] = Combination(tables, facts, {"anneal": 1})
        rows |= _duals(model, regularizer)
        if kind.temporal:
            rows[f"{model}/{regularizer}/intervals"] = Combination(tables, "intervals")
    for model in ("cp", "complex", "rescal"):
        w0 = {"name": "sampled-cross-entropy", "samples": 10, "w0": 0.3}
        rows[f"{model}/dura/sampled-w0"] = Combination(_tables(model, "dura", objective=w0))
        facts_w0 = _tables(model, "dura", objective=OBJECTIVE["cross-entropy-w0"])
        rows[f"{model}/dura/facts-w0"] = Combination(facts_w0, training={"batching": "facts"})
        sampled = _tables(model, "dura", objective=OBJECTIVE["sampled-frequency"])
        rows[f"{model}/dura/facts-sampled"] = Combination(sampled, training={"batching": "facts"})
    for model, regularizer in (("rescal", "dura"), ("trescal", "dura1")):
        start = {**_tables(model, regularizer), "model": {"name": model, "rank": 6}}
        rows[f"{model}/{regularizer}/default-start"] = Combination(start, _facts(model))
    complex_dura, block = _tables("complex", "dura"), {"name": "cross-entropy", "block": 7}
    rows["complex/dura/block"] = Combination(_tables("complex", "dura", objective=block))
    for name, options in {"adam": {"lr": 0.05}, "sgd": {"lr": 0.5}, "adagrad": {"lr": 0.1, "lr_decay": 0.2}}.items():
        rows[f"complex/dura/{name}"] = Combination({**complex_dura, "optimizer": {"name": name, **options}})
    for p in (2, 3, 4, 5):
        smooth = {**_tables("tcomplex", "dura1"), "smoothness": {"weight": 0.5, "p": p}}
        rows[f"tcomplex/dura1/smooth-p{p}"] = Combination(smooth, "dated")
    return rows


def _duals(model: str, regularizer: str) -> dict[str, Combination]:
    """A semantic matching model that scores by distance: plain, with DURA, with a sample and with negatives."""
    rows: dict[str, Combination] = {}
    for name, used, changed in (
        ("all", "none", {}),
        ("all", regularizer, {}),
        ("sample", "none", {"candidates": {"name": "sample", "samples": 10}}),
        ("negatives", "none", {"loss": {"name": "margin"}, "candidates": {"name": "negatives", "count": 7}}),
    ):
        tables = {**_tables(model, used), **changed}
        del tables["objective"]
        tables["model"] = {**tables["model"], "comparator": "distance"}
        rows[f"{model}/{used}/distance/{name}"] = Combination(tables, _facts(model))
    return rows


def _facts(model: str) -> str:
    return "dated" if MODELS.get(model).temporal else "static"


def _tables(model: str, regularizer: str, objective: Settings = OBJECTIVE["cross-entropy"]) -> dict[str, Any]:
    """A start far from zero, so that all terms matter from the first step; a new model or regularizer has its defaults."""
    scale = {"init_scale": 0.3} if "init_scale" in MODELS.options(model) else {}
    return {
        "model": {"name": model, "rank": 6, **scale},
        "regularizer": {"name": regularizer, **REGULARIZER.get(regularizer, {})},
        "objective": dict(objective),
        "optimizer": {"name": "adagrad", "lr": 0.1},
    }


@cache
def graph(kind: str) -> Graph:
    """25 entities, 5 relations and 120 facts from a seed, all to train on; dated ones at 8 days, each sixth at none."""
    rng = np.random.default_rng(2023)
    drawn = np.stack([rng.integers(n, size=400) for n in (25, 5, 25, 8, 4)], axis=1)
    drawn[:25, 0], drawn[:25, 2] = np.arange(25), np.roll(np.arange(25), 1)
    distinct = list({tuple(row[:3]): row for row in drawn.tolist()}.values())[:120]
    facts = []
    for at, (head, relation, tail, begin, length) in enumerate(distinct):
        days = [] if kind == "static" else [begin] if kind == "dated" else [begin, min(7, begin + length)]
        times = [None if at % 6 == 0 else f"2014-01-{day + 1:02d}" for day in days]
        facts.append((f"e{head:02d}", f"r{relation}", f"e{tail:02d}", *times))
    return dura.from_facts(facts, valid_share=0, test_share=0, name=kind)


class Capture:
    """Hears the loss and the penalty of each step; training tells their sums since the epoch began."""

    def __init__(self) -> None:
        self.loss: list[float] = []
        self.penalty: list[float] = []
        self._before = (0.0, 0.0)

    def step(self, progress: Any, steps_in_epoch: int) -> None:
        before = (0.0, 0.0) if progress.step == 1 else self._before
        self.loss.append(progress.loss - before[0])
        self.penalty.append(progress.penalty - before[1])
        self._before = (progress.loss, progress.penalty)

    def epoch(self, record: dict[str, Any]) -> None:
        assert "valid" not in record

    def notice(self, sentence: str) -> None:
        pass


def measured(combination: Combination) -> Curve:
    """What the program as it is makes of a combination."""
    capture = Capture()
    try:
        trained = train(combination.experiment(), graph(combination.facts), None, listeners=(capture,))
    except BadInput:
        return REFUSED
    assert len(capture.loss) == STEPS
    tables = {name: _table(table.detach()) for name, table in trained.model.named_parameters()}
    return {"loss": capture.loss, "penalty": capture.penalty, "tables": tables}


def _table(table: torch.Tensor) -> list[float]:
    """The sum of squares, then the first, the middle and the last entry."""
    flat = table.double().flatten()
    return [float(flat.square().sum()), *(float(flat[at]) for at in (0, len(flat) // 2, len(flat) - 1))]


@cache
def stored() -> dict[str, Curve]:
    return dict(json.loads(CURVES.read_text())["curves"]) if CURVES.exists() else {}


def _numbers(curve: Curve) -> dict[str, list[float]]:
    assert isinstance(curve, dict)
    tables = {f"table {name}": numbers for name, numbers in curve["tables"].items()}
    return {"loss": curve["loss"], "penalty": curve["penalty"], **tables}


ROWS = combinations()


@pytest.mark.parametrize("name", ROWS)
def test_ten_steps_give_the_numbers_they_gave_before(name: str) -> None:
    ours = measured(ROWS[name])
    if name not in stored():
        pytest.fail(f"{name} has no golden curve yet; if it is new, add it with: {HOW}", pytrace=False)
    golden = stored()[name]
    if REFUSED in (ours, golden):
        assert ours == golden, f"{name}: settings that were refused are taken now, or the other way"
        return
    old, new = _numbers(golden), _numbers(ours)
    assert list(new) == list(old), f"{name} has other tables than before"
    exact = os.environ.get("DURA_GOLDEN") == "exact"
    for what, numbers in old.items():
        for at, (before, now) in enumerate(zip(numbers, new[what], strict=True)):
            same = now == before if exact else _close(name, what, at, before, now)
            assert same, f"{name}: number {at} of {what} is {now!r} and was {before!r}"


def _close(name: str, what: str, at: int, before: float, now: float) -> bool:
    """Whether two numbers differ by rounding only."""
    table = what.startswith("table")
    if name.split("/")[0] in ROUGH:
        return table or math.isclose(now, before, rel_tol=SOON if at < FIRST else LATE)
    return math.isclose(now, before, rel_tol=RELATIVE, abs_tol=ENTRY if table and at else ABSOLUTE)


def test_no_curve_is_left_over() -> None:
    gone = sorted(stored().keys() - ROWS.keys())
    assert not gone, f"golden curves of combinations that are no more: {', '.join(gone)}; remove them with: {HOW}"


def test_every_possible_model_and_regularizer_is_trained() -> None:
    for table, names in (("model", MODELS.names()), ("regularizer", REGULARIZERS.names())):
        at = ("model", "regularizer").index(table)
        missing = [n for n in names if not any(k.split("/")[at] == n for k, c in stored().items() if c != REFUSED)]
        assert not missing, f"no golden curve has the {table} {', '.join(missing)}; add it with: {HOW}"


def write(anew: bool) -> None:
    """Write the file; without `anew` the numbers that stand in it stay."""
    kept = {} if anew else stored()
    curves = {name: kept[name] if name in kept else measured(row) for name, row in ROWS.items()}
    cpu = torch.backends.cpu.get_cpu_capability()
    made = {"dura": dura.__version__, "torch": torch.__version__, "cpu": cpu, "numpy": np.__version__}
    about = made if anew or not CURVES.exists() else json.loads(CURVES.read_text())["made with"]
    lines = [f"{json.dumps(name)}: {json.dumps(curve, separators=(',', ':'))}" for name, curve in curves.items()]
    CURVES.write_text(f'{{"made with": {json.dumps(about)},\n"curves": {{\n' + ",\n".join(lines) + "\n}}\n")


if __name__ == "__main__":
    if sys.argv[1:] not in (["--write"], ["--write-all"]):
        sys.exit(f"usage: {HOW}[-all]")
    write(anew=sys.argv[1] == "--write-all")
