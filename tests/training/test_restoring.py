"""What a checkpoint holds goes into live objects only if it is exactly what they declare."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dura.models import Model
from dura.models import restore as fill
from dura.training.optimizers import optimizer
from dura.training.restoring import check_progress, fill_optimizer
from dura.training.trainer import Progress
from dura.types import DuraError, Sizes

OPTIMIZERS = ["adagrad", "adam", "adamw", "nadam", "rmsprop", "adadelta", "adafactor", "asgd", "rprop"]


class Net(Model):
    """A table, a matrix per relation and buffers of two types."""

    def __init__(self) -> None:
        super().__init__(Sizes(6, 1), 4)
        self.entity, self.relations = nn.Parameter(torch.randn(6, 4)), nn.Parameter(torch.randn(3, 4, 4))
        self.norm = nn.BatchNorm1d(4)

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        return self.norm(self.entity[head])  # type: ignore[no-any-return]


def trained(name: str, seed: int = 0) -> tuple[Net, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    net = Net()
    rule = optimizer(name, {"lr": 0.1}, net.parameters())
    for _ in range(2):
        rule.zero_grad()
        (net.norm(net.entity) ** 2).sum().add(net.relations.square().sum()).backward()
        rule.step()
    return net, rule


def slots(net: Net, rule: torch.optim.Optimizer) -> dict[str, Tensor]:
    names = [name for name, _ in net.named_parameters()]
    state = rule.state_dict()["state"]
    return {f"optimizer.{names[i]}.{slot}": value.clone() for i, kept in state.items() for slot, value in kept.items()}


def test_tables_and_buffers_come_back() -> None:
    net, _ = trained("adam")
    other = Net()
    fill(other, net.state_dict())
    assert all(torch.equal(value, other.state_dict()[name]) for name, value in net.state_dict().items())
    assert other.norm.num_batches_tracked == 2 and isinstance(other.entity, nn.Parameter)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"entity": None}, "the table 'entity' is missing"),
        ({"norm.running_mean": None}, "the table 'norm.running_mean' is missing"),
        ({"entity": torch.zeros(4, 6)}, r"'entity' is float32 \[4, 6\], and must be float32 \[6, 4\]"),
        ({"entity": torch.zeros(6, 4).double()}, r"'entity' is float64 \[6, 4\], and must be float32 \[6, 4\]"),
        ({"norm.num_batches_tracked": torch.zeros(())}, r"is float32 \[\], and must be int64 \[\]"),
        ({"moon\x1b": torch.zeros(1)}, r"the model has no table 'moon\\x1b'"),
    ],
)
def test_other_tables_are_refused_and_nothing_is_changed(change: dict[str, Tensor | None], sentence: str) -> None:
    net = Net()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    given = {name: value + 1 for name, value in net.state_dict().items()} | change
    with pytest.raises(DuraError, match=f"the checkpoint does not fit the settings: .*{sentence}"):
        fill(net, {name: value for name, value in given.items() if value is not None})
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_optimizer_continues_as_if_it_had_not_stopped(name: str) -> None:
    net, rule = trained(name)
    again = Net()
    fill(again, net.state_dict())
    fresh = optimizer(name, {"lr": 0.1}, again.parameters())
    fill_optimizer(fresh, [name for name, _ in again.named_parameters()], slots(net, rule))
    for one, its in ((net, rule), (again, fresh)):
        its.zero_grad()
        one.entity.square().sum().backward()
        its.step()
    assert torch.equal(net.entity, again.entity)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_other_state_of_the_optimizer_is_refused(name: str) -> None:
    net, rule = trained(name)
    names, whole = [known for known, _ in net.named_parameters()], slots(net, rule)
    for key in [key for key in whole if key.startswith("optimizer.relations.")]:
        fresh = optimizer(name, {"lr": 0.1}, Net().parameters())
        for wrong in (whole[key][..., None], whole[key].half(), None):
            given = {**whole, key: wrong}
            with pytest.raises(DuraError, match=rf"does not fit the settings: the table '{key}' is "):
                fill_optimizer(fresh, names, {k: v for k, v in given.items() if v is not None})
        with pytest.raises(DuraError, match=f"the model has no table '{key}x'"):
            fill_optimizer(fresh, names, {**whole, f"{key}x": whole[key]})
    with pytest.raises(DuraError, match="the model has no table 'moon' to optimize"):
        fill_optimizer(rule, names, {**whole, "optimizer.moon.step": torch.zeros(())})


def test_state_that_exists_from_the_start_must_not_be_missing() -> None:
    net, rule = trained("adagrad")
    with pytest.raises(DuraError, match="the table 'optimizer.entity.step' is missing"):
        fill_optimizer(rule, [name for name, _ in net.named_parameters()], {})


# -- progress --------------------------------------------------------------------------------------------


def test_progress_comes_back() -> None:
    known = list(Progress.__dataclass_fields__)
    for progress in (Progress(), Progress(epoch=3, steps=70, best=0.5, done=True)):
        assert Progress(**check_progress({"progress": asdict(progress), "threads": 1}, known)) == progress


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"epoch": "3"}, "progress.epoch must be a whole number"),
        ({"step": -1}, "progress.step must be at least 0"),
        ({"steps": True}, "progress.steps must be a whole number, not true"),
        ({"seconds": -1.0}, "progress.seconds must be at least 0"),
        ({"loss": float("nan")}, "progress.loss must be a number"),
        ({"best": float("nan")}, "progress.best must be a number"),
        ({"best": None}, "progress.best must be a number"),
        ({"done": 1}, "progress.done must be true or false"),
        ({"moon": 1}, "progress.moon is not a known field"),
    ],
)
def test_other_progress_is_refused(change: dict[str, Any], sentence: str) -> None:
    state = {"progress": {**asdict(Progress()), **change}, "threads": 1}
    with pytest.raises(DuraError, match=f"the state of the newest checkpoint is damaged: {sentence}"):
        check_progress(state, list(Progress.__dataclass_fields__))


def test_a_state_without_progress_is_refused() -> None:
    states: list[dict[str, Any]] = [{}, {"progress": []}, {"progress": asdict(Progress())}]
    for state in states:
        with pytest.raises(DuraError, match="the state of the newest checkpoint is damaged"):
            check_progress(state, list(Progress.__dataclass_fields__))
