"""What a sweep searches: files, axes, the trials of each method, and errors before any work."""

from __future__ import annotations

import tomllib
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dura.config import Experiment
from dura.runs.presets import preset, presets
from dura.sweeps.space import Choice, Range, Sweep, grids, read_sweep
from dura.types import BadInput, Sizes

WEIGHTS = {"regularizer.weight": [0.001, 0.01, 0.1]}
PAPER = {
    "fb15k-237/complex-dura": 2 * 7 * 3 * 3 * 3 * 3,
    "yago3-10/cp-dura": 2 * 7 * 3 * 3 * 3 * 2,
    "wn18rr/rescal-dura": 2 * 7 * 3 * 3 * 2 * 2,
    "icews14/tcomplex-dura1": 9 * 13 * 10 * 3,
    "icews05-15/tcomplex-dura2": 9 * 7 * 7 * 3,
    "yago15k/trescal-dura1": 9 * 13 * 10 * 3,
    "umls/complex-dura": 12,
}


def plan(space: dict[str, Any], **more: Any) -> Sweep:
    return Sweep(preset("umls/complex-dura"), space, **more)


def read(text: str) -> Sweep:
    return Sweep.from_dict(tomllib.loads(text), "mine.toml")


def sentence(text: str) -> str:
    with pytest.raises(BadInput) as error:
        read(text)
    return str(error.value)


# -- files --------------------------------------------------------------------------------------------------------------


def test_a_file_names_a_preset_and_changes_it() -> None:
    mine = read(
        'preset = "umls/complex-dura"\n[training]\nepochs = 7\n[model]\nname = "cp"\n'
        '[sweep]\nmethod = "grid"\nprune = false\n[sweep.space]\n"regularizer.weight" = [0.1, 0.2]\n'
    )
    assert (mine.experiment.training.epochs, mine.experiment.training.batch) == (7, 100)
    assert (mine.experiment.model.name, mine.experiment.model.options) == ("cp", {"rank": 100})
    assert (mine.method, mine.prune, mine.combinations) == ("grid", False, 2)


def test_a_file_can_be_settings_of_its_own() -> None:
    mine = read(
        '[graph]\nsource = "nations"\n[model]\nname = "rescal"\nrank = 5\n[sweep.space]\n"optimizer.lr" = [0.1]\n'
    )
    assert (mine.experiment.graph.source, mine.experiment.model.name, mine.method) == ("nations", "rescal", "tpe")


numbers = st.floats(1e-6, 1e3) | st.integers(1, 1000)
axes = st.lists(numbers, min_size=1, max_size=4, unique=True) | st.tuples(numbers, numbers).filter(
    lambda ends: ends[0] != ends[1]
).map(lambda ends: {"low": min(ends), "high": max(ends), "log": True})


@given(st.lists(st.tuples(st.sampled_from(["regularizer.weight", "optimizer.lr", "regularizer.lambda1"]), axes),
                unique_by=lambda pair: pair[0], min_size=1))  # fmt: skip
def test_files_keep_everything_and_the_order(space: list[tuple[str, Any]]) -> None:
    mine = plan(dict(space), trials=3, seed=5, prune=False)
    again = read(mine.to_toml())
    assert again == mine
    assert list(again.space) == [path for path, _ in space]  # the order decides what TPE draws


@pytest.mark.parametrize(
    ("space", "words"),
    [
        ('"regularizer.wait" = 3', 'sweep.space."regularizer.wait" must be a list of values or a table'),
        ('"modle.rank" = [1]', "'modle.rank' is not a setting"),
        ('"rank" = [1]', "did you mean 'model.rank'?"),
        ('"training.epochs" = [1.5]', 'sweep.space."training.epochs": training.epochs must be a whole number'),
        ('"training.epochs" = { low = 1, high = 9 }', "whole numbers need a step"),
        ('"training.epochs" = [-1]', "must be at least 0"),
        ('"graph.source" = ["umls", "nations"]', "a sweep trains on one graph"),
        ('"regularizer.weight" = [0.1, 0.1]', "has a value twice"),
        ('"regularizer.weight" = []', "must be a list of values"),
        ('"regularizer.weight" = { low = 0.1 }', "needs both low and high"),
        ('"regularizer.weight" = { low = 0.1, hihg = 1 }', "did you mean 'high'?"),
        ('"regularizer.weight" = { low = 1, high = 1 }', "high must be above low"),
        ('"regularizer.weight" = { low = 0, high = 1, log = true }', "low must be above 0 on a logarithmic scale"),
        ('"regularizer.weight" = { low = 0.1, high = 1, log = 1 }', ".log must be true or false"),
        ('"model.rank" = { low = 10, high = 45, step = 10 }', "not a whole number of steps of 10"),
        ('"model.rank" = { low = 10, high = 50, step = 10, log = true }', "the step can only be 1"),
        ('"model.rank" = { low = 10, high = 50, step = 0 }', "the step must be above 0"),
    ],
)
def test_a_bad_space_is_one_sentence_with_its_path(space: str, words: str) -> None:
    said = sentence(f'preset = "umls/complex-dura"\n[sweep.space]\n{space}\n')
    assert words in said
    assert said.startswith("mine.toml: ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('preset = "umls/complex-dura"', "a sweep needs the tables [sweep] and [sweep.space]"),
        ('preset = "umls/complex-dora"\n[sweep.space]\n"model.rank" = [1]', "did you mean 'umls/complex-dura'?"),
        ("[sweep]\nmethod = 'tpe'", "sweep.space must be a table of the settings to vary"),
        ("[sweep]\nmethod = 'gird'\n[sweep.space]\n'model.rank' = [1]", "did you mean 'grid'?"),
        ("[sweep]\ntrial = 3\n[sweep.space]\n'model.rank' = [1]", "did you mean 'trials'?"),
        ("[sweep]\ntrials = -3\n[sweep.space]\n'model.rank' = [1]", "sweep.trials must be at least 0"),
        ("[modle]\nrank = 3\n[sweep.space]\n'model.rank' = [1]", "'modle' is not a part of the settings"),
        ("version = 99\n[sweep.space]\n'model.rank' = [1]", "update dura"),
    ],
)
def test_a_bad_file_is_one_sentence(text: str, words: str) -> None:
    assert words in sentence(text)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_bytes(b"[sweep\n")
    for name, words in (("bad.toml", "is not valid TOML"), ("none.toml", "cannot be read")):
        with pytest.raises(BadInput, match=words):
            read_sweep(str(tmp_path / name))


# -- what is tried ------------------------------------------------------------------------------------------------------


def test_a_grid_is_every_combination_once_in_an_order_of_the_seed() -> None:
    mine = plan({**WEIGHTS, "model.rank": {"low": 20, "high": 60, "step": 20}}, method="grid")
    points = [tuple(point.values()) for point in mine.points()]
    assert sorted(points) == sorted(product([0.001, 0.01, 0.1], [20, 40, 60]))
    assert points == [tuple(point.values()) for point in mine.points()]
    other = plan({**WEIGHTS, "model.rank": {"low": 20, "high": 60, "step": 20}}, method="grid", seed=1)
    assert points != [tuple(point.values()) for point in other.points()]
    assert (mine.combinations, mine.budget) == (9, 9)


@pytest.mark.parametrize(("trials", "budget"), [(0, 3), (2, 2), (99, 3)])
def test_a_grid_never_makes_a_trial_twice(trials: int, budget: int) -> None:
    assert plan(WEIGHTS, method="grid", trials=trials).budget == budget
    assert plan(WEIGHTS, trials=trials).budget == (trials or 3)  # tpe may, where it is asked to


def test_one_at_a_time_begins_with_the_settings_as_they_are() -> None:
    mine = plan({"regularizer.weight": [0.001, 0.01], "regularizer.lambda1": [0.5, 2.0]}, method="each")
    assert mine.points() == [
        {"regularizer.weight": 0.01, "regularizer.lambda1": 0.5},  # lambda1 by its default
        {"regularizer.weight": 0.001, "regularizer.lambda1": 0.5},
        {"regularizer.weight": 0.01, "regularizer.lambda1": 2.0},
    ]
    assert mine.combinations == mine.budget == 3


def test_ranges_without_steps_are_for_tpe_only() -> None:
    endless = {"regularizer.weight": {"low": 0.1, "high": 1}}
    assert plan(endless).combinations is None
    with pytest.raises(BadInput, match="'grid' tries every value"):
        plan(endless, method="grid")


def test_steps_are_exact() -> None:
    assert Range(0.1, 0.5, step=0.1).values == (0.1, 0.2, 0.3, 0.4, 0.5)
    assert Range(50, 200, step=50).whole
    assert not Range(0, 1).whole
    assert Choice((1, 2)).toml() == "[1, 2]"


def test_names_come_before_their_options_and_the_rank_stays() -> None:
    mine = plan({"regularizer.weight": [0.3], "regularizer.name": ["n3"], "model.name": ["cp"]}, method="grid")
    (point,) = mine.points()
    made = mine.experiment_of(point)
    assert (made.regularizer.name, made.regularizer.options) == ("n3", {"weight": 0.3})
    assert (made.model.name, made.model.options) == ("cp", {"rank": 100})
    assert made.expected == {}


def test_a_fixed_setting_is_varied_no_more() -> None:
    mine = plan({**WEIGHTS, "model.rank": [10, 20]}, method="grid").fixed({"model.rank": "7", "training.epochs": "3"})
    assert (mine.combinations, mine.experiment.model.options["rank"], mine.experiment.training.epochs) == (3, 7, 3)
    with pytest.raises(BadInput, match="there is nothing left to search"):
        plan(WEIGHTS).fixed({"regularizer.weight": "0.1"})


@pytest.mark.parametrize(
    ("space", "words"),
    [
        ({"regularizer.wieght": [0.1]}, "did you mean 'weight'?"),
        ({"model.rank": [10, 0]}, "model.rank = 0 is not possible"),
        ({"model.name": ["complex", "complx"]}, "did you mean 'complex'?"),
        ({"model.name": ["complex", "tcomplex"]}, "is a model for facts with times"),
        ({"regularizer.weight": {"low": -1.0, "high": 1.0}}, "regularizer.weight"),
    ],
)
def test_values_that_cannot_be_built_are_told_before_the_work(space: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput) as error:
        plan(space).check(Sizes(100, 10))
    assert words in str(error.value)


# -- ready grids --------------------------------------------------------------------------------------------------------


def test_ready_grids_can_be_read_and_built() -> None:
    for name in grids():
        mine = read_sweep(name)
        assert name in presets()
        assert mine.experiment.graph.source == name.partition("/")[0]
        mine.check(Sizes(10, 5, 4 if name.partition("/")[2].startswith("t") else 0))
    assert {name: read_sweep(name).combinations for name in PAPER} == PAPER


def test_the_published_weights_lie_in_the_paper_s_grid() -> None:
    """Rank and batch do not all: the paper's table of best settings has some that its text does not search."""
    for name in (name for name in PAPER if not name.startswith("umls")):
        published = preset(name).to_dict()
        for path, axis in read_sweep(name).space.items():
            table, _, key = path.partition(".")
            if table != "model" and key != "batch":
                assert published[table].get(key, axis.values[0]) in axis.values, (name, path)


def test_unknown_grids_are_told_with_what_to_do() -> None:
    with pytest.raises(BadInput, match="did you mean 'umls/complex-dura'"):
        read_sweep("umls/complex-dora")
    with pytest.raises(BadInput, match="'nations/complex-dura' is a preset: write a .toml file"):
        read_sweep("nations/complex-dura")


def test_a_sweep_needs_no_preset() -> None:
    assert Sweep(Experiment(), WEIGHTS).budget == 3
    assert Sweep(Experiment(), {"regularizer.weight": {"low": 0.1, "high": 1.0}}).budget == 50
