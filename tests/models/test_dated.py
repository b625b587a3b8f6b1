"""The temporal models apart from their laws: options, tokens of dates, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import dura
from doubles import built
from dura import Experiment
from dura.models import MODELS
from dura.models.dated import LENGTH, TOKENS, TATransE, tokens_of
from dura.runs.run import train
from dura.types import BadInput, Sizes
from graphs import dated_graph

SIZES = Sizes(entities=7, relations=3, times=4)
DATED = [name for name in MODELS.names() if MODELS.get(name).temporal]


@pytest.mark.parametrize("name", DATED)
def test_a_temporal_model_without_times_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="a temporal model needs a graph whose facts have times"):
        MODELS.build(name, {"rank": 4}, Sizes(7, 3))


@pytest.mark.parametrize("candidates", ["all", "negatives", "sample"])
def test_hyte_with_l1_trains_on_tails_that_fall_onto_the_plane_of_their_time(candidates: str, tmp_path: Path) -> None:
    graph = dated_graph()
    tables = {
        "model": {"name": "hyte", "rank": 4, "norm": "l1"},
        "regularizer": {"name": "none"},
        "candidates": {"name": candidates},
        "training": {"epochs": 2, "batch": 50, "threads": 1},
    }
    train(Experiment.from_dict(tables), graph, tmp_path / "run")
    model = dura.open(tmp_path / "run").model.double()
    h, r, t, time = torch.tensor([0, 4, 5]), torch.tensor([1, 4, 0]), torch.tensor([3, 3, 6]), torch.tensor([2, 2, 7])
    entity, shifts, times = (model.state()[key] for key in ("entity", "shifts", "times"))
    literal = []
    for i in range(3):
        w = times[time[i]] / times[time[i]].norm()
        shift = shifts[r[i]] if r[i] < 3 else -shifts[r[i] - 3]
        head, move, tail = (x - (w @ x) * w for x in (entity[h[i]], shift, entity[t[i]]))
        literal.append(-(head + move - tail).abs().sum())
    with model.answering():
        torch.testing.assert_close(model.score(h, r, t, time), torch.stack(literal))
        torch.testing.assert_close(model.score_all(h, r, time)[torch.arange(3), t], torch.stack(literal))


@pytest.mark.parametrize(
    "times",
    [
        ["2014-01-01", "2014-01-02", "2014-11-12", ""],
        ["5", "33", "1963", "2014"],
        ["-44", "3.5", "100000", "7"],
        ["May", "noon", "2014", ""],
        ["-0044-03-15", "0044-03-15", "1999-04", "2000"],
        ["2014-99-01", "2014-98-01", "a", "b"],
    ],
)
def test_distinct_times_have_distinct_tokens(times: list[str]) -> None:
    tokens = tokens_of(times)
    assert all(len(row) == LENGTH and all(0 <= token < TOKENS for token in row) for row in tokens)
    assert len({tuple(row) for row in tokens}) == len(times)


def test_an_opened_run_knows_its_dates(tmp_path: Path) -> None:
    """Facts and names are not at hand there, so the tokens come from the checkpoint."""
    graph = dated_graph(untimed=True)
    tables = {"model": {"name": "tatranse", "rank": 4}, "regularizer": {"name": "none"}, "training": {"epochs": 1}}
    train(Experiment.from_dict(tables), graph, tmp_path / "run")
    model = dura.open(tmp_path / "run").model
    assert isinstance(model, TATransE)
    assert model.tokens.tolist() == tokens_of(list(graph.times or ()))


def test_dates_that_begin_alike_are_read_together_with_the_same_result() -> None:
    """The query of a question does not depend on which others are asked with it."""
    model = built("tatranse", SIZES)
    model.observe(np.zeros((0, 4), dtype=np.int32), ["2014-01-01", "2014-01-02", "2014-02-01", ""])
    h, r, time = torch.arange(7), torch.tensor([0, 1, 2, 3, 4, 5, 0]), torch.tensor([0, 1, 2, 3, 1, 0, 2])
    together = model.query(h, r, time)
    alone = torch.cat([model.query(h[i : i + 1], r[i : i + 1], time[i : i + 1]) for i in range(7)])
    torch.testing.assert_close(together, alone)
    one, other = (model.query(h[:1], r[:1], torch.tensor([i])) for i in (0, 1))
    assert not torch.allclose(one, other)


def test_cores_that_do_not_fit_are_refused() -> None:
    with pytest.raises(BadInput, match=r"model.rank is 100, but each of 4,017 times has rank³ numbers.*at most 29"):
        MODELS.build("cont", {"rank": 100}, Sizes(10, 3, 4017))


def test_a_time_of_boxte_has_a_row_at_least() -> None:
    with pytest.raises(BadInput, match="model.bumps is 0, but a time has at least one row"):
        MODELS.build("boxte", {"rank": 4, "bumps": 0}, SIZES)
    assert MODELS.build("boxte", {"rank": 4, "bumps": 3}, SIZES).state()["times"].shape == (4, 12)


def test_a_question_of_a_reciprocal_relation_puts_the_candidate_in_the_place_of_the_head() -> None:
    for name in ("ttranse", "tatranse", "hyte", "boxte"):
        model = built(name, SIZES)
        h, r, t, time = torch.tensor([0, 4]), torch.tensor([1, 2]), torch.tensor([3, 6]), torch.tensor([2, 0])
        torch.testing.assert_close(model.score(h, r, t, time), model.score(t, r + 3, h, time))
