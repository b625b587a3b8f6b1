"""RTFE: which parameters answer, when a span of time is filled, and how a run continues in the middle of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from doubles import built, collected
from dura import Experiment
from dura.models import MODELS, Model
from dura.models.rtfe import RTFE
from dura.runs.run import resume, train
from dura.training.checkpoint import Checkpoints
from dura.training.progress import Interrupted
from dura.types import BadInput, Sizes
from graphs import dated_graph
from oracles import SCORES

SIZES = Sizes(entities=7, relations=3, times=4)
TIMES = np.repeat(np.arange(4), 3)


def model_of(sizes: Sizes = SIZES, **options: Any) -> RTFE:
    torch.manual_seed(0)
    model = MODELS.build("rtfe", {"rank": 4, **options}, sizes)
    assert isinstance(model, RTFE)
    return model


def rows(model: Model, table: str) -> torch.Tensor:
    """A table by slot."""
    assert isinstance(model, RTFE)
    by_slot: torch.Tensor = model.state()[table].unflatten(0, (model.slots + 1, -1))
    return by_slot


@pytest.mark.parametrize("filled", [0, 2, 4])
def test_a_time_answers_with_its_own_parameters_or_the_last_ones_that_were_filled(filled: int) -> None:
    model = built("rtfe", SIZES)
    model.state()["filled"].fill_(filled)
    facts = [(h, r, (h + r + 1) % 7, time) for h in range(7) for r in range(6) for time in range(4)]
    h, r, t, time = torch.tensor(facts).unbind(1)
    literal = torch.stack([SCORES["rtfe"](model.state(), *fact) for fact in facts])
    with model.answering():
        torch.testing.assert_close(model.score(h, r, t, time), literal, rtol=1e-12, atol=1e-12)
        place = torch.arange(len(h)), t
        torch.testing.assert_close(model.score_all(h, r, time)[place], literal, rtol=1e-12, atol=1e-12)
    model.score(h, r, t, time).sum().backward()
    used = collected(model.get_parameter("entity")).unflatten(0, (5, 7)).abs().sum((1, 2)) > 0
    assert used.tolist() == [filled == 0, *(slot <= filled for slot in range(1, 5))]


def test_all_questions_train_the_static_model_then_each_span_its_own() -> None:
    model = model_of(static_epochs=2, sweeps=2)
    assert model.lesson(0, TIMES) is None and model.lesson(1, TIMES) is None
    for epoch, time in ((2, 0), (3, 0), (4, 1), (8, 3), (9, 3), (10, 0), (12, 1)):
        asked = model.lesson(epoch, TIMES)
        assert asked is not None and set(TIMES[asked].tolist()) == {time} and len(asked) == 3


def test_a_span_starts_as_the_one_before_it_and_is_copied_once() -> None:
    model = model_of(static_epochs=1, sweeps=1, pace=1.0)
    before = rows(model, "entity")[0].clone()
    model.lesson(1, TIMES)
    with torch.no_grad():
        model.entity[7:14].add_(1.0)
    model.lesson(1, TIMES)  # as when a run continues in the middle of this epoch
    model.lesson(2, TIMES)
    for table in ("entity", "relations", "weights"):
        assert torch.equal(rows(model, table)[1], rows(model, table)[2])
        assert not rows(model, table)[3:].any()
    assert torch.equal(rows(model, "entity")[0], before) and torch.equal(rows(model, "entity")[1], before + 1)
    model.lesson(5, TIMES)  # the second round changes nothing
    assert torch.equal(rows(model, "entity")[1], before + 1)
    assert int(model.state()["filled"]) == 2


def test_with_a_smaller_pace_scores_are_the_same_and_steps_are_smaller() -> None:
    h, r, t = torch.tensor([0, 1]), torch.tensor([0, 4]), torch.tensor([2, 3])
    found = []
    for pace in (1.0, 0.25):
        model = model_of(static_epochs=0, pace=pace)
        model.lesson(0, TIMES)
        model.score(h, r, t, torch.zeros_like(h)).sum().backward()
        slope = model.entity.gradient().clone()
        found.append((model.score(h, r, t, torch.zeros_like(h)).detach(), slope))
    torch.testing.assert_close(found[0][0], found[1][0])
    torch.testing.assert_close(found[0][1] * 0.25, found[1][1])


def test_times_share_spans_in_their_order() -> None:
    model = model_of(Sizes(7, 3, 10), slots=3, static_epochs=0, sweeps=1)
    spans = [model.lesson(epoch, np.arange(10)) for epoch in range(3)]
    assert [span.tolist() for span in spans if span is not None] == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert model_of(Sizes(7, 3, 10), slots=0).slots == 10


@pytest.mark.parametrize("stop", [1, 4, 5, 6, 9, 12])
def test_a_run_that_was_stopped_anywhere_in_the_stages_continues_bit_by_bit(stop: int, tmp_path: Path) -> None:
    graph, asked = dated_graph(untimed=True), list[int]()
    settings = Experiment.from_dict(
        {
            "model": {"name": "rtfe", "rank": 4, "static_epochs": 1, "sweeps": 2, "slots": 3, "pace": 0.5},
            "regularizer": {"name": "none"},
            "candidates": {"name": "negatives", "count": 5},
            "training": {"epochs": 6, "batch": 50, "threads": 1, "patience": 0, "validate_every": 2},
        }
    )

    def stopped() -> bool:
        asked.append(1)
        return len(asked) == stop

    train(settings, graph, tmp_path / "whole")
    with pytest.raises(Interrupted):
        train(settings, graph, tmp_path / "parts", stopped=stopped)
    resume(tmp_path / "parts")
    whole, parts = (Checkpoints(tmp_path / run / "checkpoints").newest() for run in ("whole", "parts"))
    assert whole is not None and parts is not None and int(whole[0]["model.filled"]) == 3
    assert all(torch.equal(tensor, parts[0][key]) for key, tensor in whole[0].items())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"slots": -1}, "model.slots is -1, but it is a number of at least 0"),
        ({"sweeps": 0}, "model.sweeps is 0, but it is a number of at least 1"),
        ({"static_epochs": -1}, "model.static_epochs is -1"),
        ({"pace": 0.0}, "model.pace is 0.0, but it is above 0 and at most 1"),
        ({"pace": 2.0}, "model.pace is 2.0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        model_of(**options)


def test_tables_that_do_not_fit_are_refused_with_their_size_and_a_number_of_spans_that_fits() -> None:
    sizes = Sizes(10_488, 251, 4017)
    with pytest.raises(
        BadInput, match=r"4,017 spans of time with rank 100 need tables of 32\.5 GB: set model.slots = 493"
    ):
        model_of(sizes, rank=100, slots=0)
    with torch.device("meta"):
        assert model_of(sizes, rank=100, slots=493).slots == 493
        with pytest.raises(BadInput):
            model_of(sizes, rank=100, slots=494)
    with pytest.raises(BadInput, match="use a smaller rank"):
        model_of(Sizes(10_000_000, 3, 5), rank=200)


def test_a_graph_without_times_is_refused() -> None:
    with pytest.raises(BadInput, match="needs a graph whose facts have times"):
        model_of(Sizes(3, 2))
