"""What is special about single distance models; the laws of all models are in test_laws.py."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from doubles import built
from dura.models import MODELS, Model
from dura.types import BadInput, Sizes

SIZES = Sizes(entities=7, relations=3)
CLOSED = ["transe", "transh", "transd", "se", "rotate", "hake"]


def facts() -> tuple[Tensor, Tensor, Tensor]:
    h, r, t = torch.meshgrid(torch.arange(7), torch.arange(3), torch.arange(7), indexing="ij")
    return h.flatten(), r.flatten(), t.flatten()


def drawn(name: str, **options: float | str) -> Model:
    torch.manual_seed(1)
    model = MODELS.build(name, {"rank": 4, **options}, SIZES).double()
    for table in model.parameters():
        torch.nn.init.normal_(table)
    return model


@pytest.mark.parametrize("name", CLOSED)
def test_a_fact_has_one_score_from_both_sides(name: str) -> None:
    model, (h, r, t) = built(name, SIZES), facts()
    with model.answering():
        torch.testing.assert_close(model.score(h, r, t), model.score(t, r + 3, h))


@pytest.mark.parametrize("name", ["transh", "transd"])
def test_the_distance_is_the_root_of_its_square(name: str) -> None:
    (h, r, t), squared, plain = facts(), drawn(name), drawn(name, norm="l2")
    with squared.answering(), plain.answering():
        torch.testing.assert_close(-plain.score(h, r, t).square(), squared.score(h, r, t))
        torch.testing.assert_close(-plain.score_all(h, r).square(), squared.score_all(h, r))


def test_the_norms_of_se_are_those_of_its_distance() -> None:
    (h, r, t), models = facts(), {norm: drawn("se", norm=norm) for norm in ("l1", "l2", "squared")}
    for norm, model in models.items():
        state = model.state()
        gap = torch.einsum("nij,nj->ni", state["relations"][r], state["entity"][h])
        gap -= torch.einsum("nij,nj->ni", state["relations"][r + 3], state["entity"][t])
        wanted = -gap.abs().sum(1) if norm == "l1" else -(gap.square().sum(1) ** (0.5 if norm == "l2" else 1))
        with model.answering():
            torch.testing.assert_close(model.score(h, r, t), wanted)


def test_the_penalty_of_transh_is_that_of_its_paper() -> None:
    model = drawn("transh", constraint=0.5)
    h, r, t = torch.tensor([0, 3, 3]), torch.tensor([1, 5, 2]), torch.tensor([6, 2, 1])
    literal = torch.zeros(()).double()
    for head, relation, tail in zip(h.tolist(), r.tolist(), t.tolist(), strict=True):
        d, w = model.state()["relations"][relation % 3].chunk(2)
        literal += sum((model.state()["entity"][e].square().sum() - 1).clamp(min=0) for e in (head, tail))
        literal += ((w @ d / (w.norm() * d.norm())) ** 2 - 1e-10).clamp(min=0)
    penalty = model.penalty(h, r, t, None)
    assert penalty is not None
    torch.testing.assert_close(penalty.detach(), 0.5 * literal / 3)
    assert drawn("transh", constraint=0.0).penalty(h, r, t, None) is None
    with pytest.raises(BadInput, match=r"model.constraint is -1.0, but a weight is zero or more"):
        drawn("transh", constraint=-1.0)


def test_transh_starts_with_rows_that_need_no_penalty_for_their_length() -> None:
    model = MODELS.build("transh", {"rank": 30}, SIZES)
    assert bool((model.state()["entity"].norm(dim=1) <= 1).all())


def test_transd_shortens_entities_and_shifts_but_not_what_pushes() -> None:
    model = drawn("transd")
    before = {key: table.clone() for key, table in model.state().items()}
    with torch.no_grad():
        model.constrain()
    for key in ("entity", "relations"):
        rows, pushes = model.state()[key].chunk(2, 1)
        old, same = before[key].chunk(2, 1)
        torch.testing.assert_close(rows, old / old.norm(dim=1, keepdim=True).clamp(min=1))
        assert torch.equal(pushes, same)


def test_hake_starts_as_the_identity_of_moduli() -> None:
    model = MODELS.build("hake", {"rank": 5, "modulus_weight": 3.5, "phase_weight": 1.0}, SIZES)
    modulus, bias, _ = model.state()["relations"].chunk(3, 1)
    assert bool((modulus == 1).all()) and not bias.any()
    assert model.state()["weights"].tolist() == pytest.approx([3.5, 8 / 5])


def test_hake_without_phases_is_the_weighted_distance_of_moduli() -> None:
    """The bias stays within its limits: −|modulus| to 1."""
    model, (h, r, t) = drawn("hake"), facts()
    with torch.no_grad():
        model.get_parameter("weights").copy_(torch.tensor([1.0, 0.0]))
        model.get_parameter("relations")[:, 4:8] = torch.tensor([-9.0, 0.0, 0.25, 9.0])
    modulus = model.state()["relations"][:, :4].abs()
    bias = torch.stack(
        [-modulus[:, 0], torch.zeros(3).double(), torch.full((3,), 0.25).double(), torch.ones(3).double()], 1
    )
    entity = model.state()["entity"][:, :4]
    wanted = -(entity[h] * (modulus + bias)[r] - entity[t] * (1 - bias)[r]).norm(dim=1)
    with model.answering():
        torch.testing.assert_close(model.score(h, r, t), wanted)
