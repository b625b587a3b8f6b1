"""What the laws do not see of the neural models: other sizes, both stages of KB-GAT, refusals, and how pictures are made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import dura
from doubles import built
from dura import Experiment
from dura.models import MODELS
from dura.models.attention import KBGAT, Edges
from dura.models.comparators import Filters
from dura.models.neural import chequered
from dura.models.tucker import moved_by
from dura.runs.run import resume, train
from dura.training.checkpoint import Checkpoints
from dura.training.trainer import Interrupted
from dura.types import BadInput, Sizes
from graphs import random_graph

SIZES = Sizes(entities=9, relations=3)


# -- convolutions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rank", "height", "width"), [(200, 20, 10), (100, 10, 10), (4, 2, 2), (7, 7, 1), (1, 1, 1)])
def test_a_height_is_chosen_for_every_rank(rank: int, height: int, width: int) -> None:
    ids = torch.arange(4)
    for name in ("conve", "interacte"):
        model: Any = MODELS.build(name, {"rank": rank}, SIZES).eval()
        assert (model.height, model.width) == (height, width)
        assert model.score_all(ids, ids).shape == (4, 9)


def test_conve_has_the_published_sizes() -> None:
    state = MODELS.build("conve", {"rank": 200}, SIZES).state()
    assert state["convolution.weight"].shape == (32, 1, 3, 3)
    assert state["linear.weight"].shape == (200, 9728)
    assert not state["entity"][:, -1].any()


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("conve", {"rank": 10, "height": 3}, "model.height is 3, but it must divide the rank 10"),
        ("conve", {"rank": 10, "height": -5}, "model.height is -5, but"),
        ("conve", {"filters": 0}, "model.filters is 0, but it is one or more"),
        ("conve", {"hidden_dropout": 1.0}, "model.hidden_dropout is 1.0, but it is a share"),
        ("interacte", {"kernel": 4}, "model.kernel is 4, but it must be odd"),
        ("interacte", {"order_seed": -1}, "model.order_seed is -1, but a seed"),
        ("tucker", {"relation_rank": -1}, "model.relation_rank is -1, but"),
        ("convkb", {"filters": 0}, "model.filters is 0, but"),
        ("kbgat", {"rank": 5}, "model.heads is 2, but it must divide the rank 5"),
        ("kbgat", {"encoder_epochs": -1}, "model.encoder_epochs is -1, but"),
        ("kbgat", {"paths": -1}, "model.paths is -1, but it is 0 or more"),
    ],
)
def test_settings_that_make_no_sense_are_refused(name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        MODELS.build(name, options, SIZES)


def test_pictures_of_interacte_are_chequered() -> None:
    pictures = chequered(3, 4, 6, seed=1)
    assert pictures.shape == (3, 24)
    for number, picture in enumerate(pictures.reshape(3, 4, 6)):
        assert sorted(picture.flatten()) == list(range(24))
        fields = np.add.outer(np.arange(4), np.arange(6)) + number
        assert np.array_equal(picture >= 12, fields % 2 == 1)
    assert not np.array_equal(np.sort(pictures[0].reshape(4, 6)), np.sort(pictures[1].reshape(4, 6)))
    assert np.array_equal(pictures, chequered(3, 4, 6, seed=1))


def test_every_permutation_is_seen_by_the_same_filters() -> None:
    """With all orders alike, the channels of all pictures are alike."""
    model: Any = built_with("interacte", permutations=2, rank=6, kernel=3)
    model.order.copy_(model.order[:1].expand(2, -1).clone())
    x = model.picture(torch.randn(3, 6).double(), torch.randn(3, 6).double())
    seen = model.filtered(x)
    assert seen.shape == (3, 64, 3, 4)
    torch.testing.assert_close(seen[:, :32], seen[:, 32:])


def built_with(name: str, **options: Any) -> Any:
    torch.manual_seed(1)
    return MODELS.build(name, options, SIZES).double().eval()


# -- TuckER -------------------------------------------------------------------------------------------------------------


def test_rows_are_moved_by_their_own_matrices() -> None:
    x, matrices, place = torch.randn(7, 3), torch.randn(3, 3, 3), torch.tensor([2, 0, 1, 2, 0, 2, 2])
    torch.testing.assert_close(moved_by(x, matrices, place), torch.einsum("bi,bij->bj", x, matrices[place]))
    assert moved_by(x[:0], matrices[:0], place[:0]).shape == (0, 3)


def test_relations_of_tucker_have_their_own_rank() -> None:
    assert MODELS.build("tucker", {"rank": 40}, SIZES).state()["core"].shape == (30, 40, 40)
    assert MODELS.build("tucker", {"rank": 6}, SIZES).state()["core"].shape == (6, 6, 6)
    assert MODELS.build("tucker", {"rank": 6, "relation_rank": 9}, SIZES).state()["core"].shape == (9, 6, 6)


# -- filters ------------------------------------------------------------------------------------------------------------


def test_sorted_columns_give_the_scores_of_pairs() -> None:
    """Also for filters that look away (c = 0), targets exactly at a bend, and equal targets."""
    torch.manual_seed(0)
    filters, width = 5, 3
    comparator = Filters(filters, width)
    query, targets = torch.randn(6, 2 * 15 + 5).double(), torch.randn(40, width).double()
    query[:, 15], query[0, 16] = 0.0, 1.0
    targets[7], targets[8] = targets[3], -query[0, 1 * width : 2 * width]
    with torch.no_grad():
        scores = comparator.scores(query, targets)
    torch.testing.assert_close(scores, comparator.pairs(query[:, None], targets), rtol=1e-12, atol=1e-12)
    assert torch.equal(scores[:, 7], scores[:, 3])


def test_scores_carry_gradients_where_they_are_wanted() -> None:
    comparator, query = Filters(2, 3), torch.randn(6, 14).double().requires_grad_()
    targets = torch.randn(5, 3).double()
    comparator.scores(query, targets).sum().backward()
    found, query.grad = query.grad, None
    comparator.pairs(query[:, None], targets).sum().backward()
    torch.testing.assert_close(found, query.grad)


# -- KB-GAT -------------------------------------------------------------------------------------------------------------

FACTS = np.array([[0, 0, 1], [2, 1, 1], [3, 2, 0], [1, 0, 4], [5, 1, 5]])


def observed(paths: int = 0, seed: int = 5) -> KBGAT:
    torch.manual_seed(seed)
    model = MODELS.build("kbgat", {"rank": 4, "paths": paths, "encoder_epochs": 2}, SIZES).double()
    assert isinstance(model, KBGAT)
    model.observe(FACTS, [])
    return model


def literal_layer(model: KBGAT, layer: str, x: Tensor, g: Tensor, edges: list[tuple[int, int, Tensor]]) -> Tensor:
    """Edge by edge, as in the paper: (i, j, relation of the edge)."""
    state, rows = model.state(), []
    (a, b, c), w = state[f"{layer}.weight"], state[f"{layer}.attend"]
    size = w.shape[1]
    for i in range(len(x)):
        parts = []
        for k, own in enumerate(w):
            at = slice(k * size, (k + 1) * size)
            told = [(x[i] @ a + x[j] @ b + signs @ g @ c)[at] for to, j, signs in edges if to == i]
            logits = [own @ one for one in told]
            logits = [-(z if z > 0 else 0.2 * z) for z in logits]
            total = sum((z.exp() for z in logits), torch.zeros(()).double())
            parts.append(sum((z.exp() / total * one for z, one in zip(logits, told, strict=True)), torch.zeros(size)))
        row = torch.cat(parts)
        rows.append(torch.where(row > 0, row, row.exp() - 1))
    return torch.stack(rows)


@pytest.mark.parametrize("paths", [0, 3])
def test_the_encoder_is_the_literal_attention(paths: int) -> None:
    model = observed(paths)
    edges = Edges.of(FACTS, SIZES, paths)
    listed = []
    for to, j, ids, signs in zip(edges.to_entity, edges.from_entity, edges.relations, edges.signs, strict=True):
        relation = torch.zeros(3).double()
        for k, sign in zip(ids.tolist(), signs.tolist(), strict=True):
            relation[k] += sign
        listed.append((int(to), int(j), relation))
    assert len(listed) >= 10 + paths
    assert {(1, 0), (0, 1), (0, 3), (5, 5)} <= {(i, j) for i, j, _ in listed}
    state = model.state()
    h, g = state["entity"], state["relations"]
    heard = literal_layer(model, "second", literal_layer(model, "first", h, g, listed), g @ model.by_relation, listed)
    rows = h @ model.by_entity + heard
    torch.testing.assert_close(model.train().target_table.detach(), rows / rows.norm(dim=1, keepdim=True))


def test_paths_of_two_facts_follow_each_other_and_do_not_come_back() -> None:
    edges = Edges.of(FACTS, SIZES, 4)
    single = {(int(i), int(j)) for i, j in zip(edges.to_entity[:10], edges.from_entity[:10], strict=True)}
    for i, j in zip(edges.to_entity[10:].tolist(), edges.from_entity[10:].tolist(), strict=True):
        assert i != j and any((i, via) in single and (via, j) in single for via in range(9))


def test_a_gradient_flows_through_the_encoder_as_if_it_were_one_formula() -> None:
    """From queries while backward runs, and from targets that were collected before."""
    model = observed().train()
    weight, ids = torch.randn(9, 4).double(), torch.arange(9)
    table = model.target_table
    table.add_rows(ids, weight)
    (model.query(ids[:3], ids[:3])).sum().backward()
    other = observed().train()
    rows = other._rows(other._listen())
    own = rows[:3] + other.relations.read(ids[:3]) @ other.by_relation
    ((rows * weight).sum() + own.sum()).backward()
    for (name, one), two in zip(model.named_parameters(), other.parameters(), strict=True):
        if name.startswith("decoder"):
            assert one.grad is None
            continue
        found, wanted = (x.gradient() if hasattr(x, "gradient") else x.grad for x in (one, two))
        torch.testing.assert_close(found, wanted)


def test_the_second_stage_scores_fixed_rows_by_filters() -> None:
    model = observed().train()
    ids = torch.arange(6)
    for epoch in range(2):
        model.lesson(epoch, None)
        assert int(model.stage) == 0
    rows = model.target_table.detach().clone()
    model.lesson(2, None)
    assert int(model.stage) == 1 and torch.equal(model.fixed_entity, rows)
    h, r, t = torch.meshgrid(torch.arange(9), torch.arange(6), torch.arange(9), indexing="ij")
    scores, state = model.score(h.flatten(), r.flatten(), t.flatten()).view(9, 6, 9), model.state()
    torch.testing.assert_close(scores[:, :3].permute(2, 1, 0), scores[:, 3:])  # both directions of a fact
    (a, b, c), g = state["decoder.kernels"], state["relations"] @ state["by_relation"]
    seen = a * rows[4][:, None] + b * g[1][:, None] + c * rows[2][:, None] + state["decoder.bias"]
    torch.testing.assert_close(scores[4, 1, 2], (seen.relu() * state["decoder.weight"].T).sum())
    model.score(ids, ids, ids).sum().backward()
    assert model.decoder.weight.grad is not None and model.by_entity.grad is None and model.entity.used() is not None
    model.lesson(3, None)
    assert torch.equal(model.fixed_entity, rows)


def test_a_run_goes_through_both_stages_resumes_and_opens(tmp_path: Path) -> None:
    graph = random_graph()
    tables: dict[str, Any] = {
        "model": {"name": "kbgat", "rank": 4, "encoder_epochs": 1, "paths": 1},
        "candidates": {"name": "negatives", "count": 4},
        "optimizer": {"name": "adam", "lr": 0.01},
        "regularizer": {"name": "none"},
        "training": {"epochs": 3, "batch": 40, "seed": 2, "threads": 1},
    }
    settings, asked = Experiment.from_dict(tables), list[int]()

    def stopped() -> bool:
        asked.append(1)
        return len(asked) == 6

    train(settings, graph, tmp_path / "whole")
    with pytest.raises(Interrupted):
        train(settings, graph, tmp_path / "parts", stopped=stopped)
    resume(tmp_path / "parts")
    found = [Checkpoints(tmp_path / run / "checkpoints").newest() for run in ("whole", "parts")]
    assert found[0] is not None and found[1] is not None
    assert all(torch.equal(tensor, found[1][0][key]) for key, tensor in found[0][0].items())
    assert int(found[0][0]["model.stage"]) == 1
    opened = dura.open(tmp_path / "whole").model
    assert opened.state()["heard"].any()
    assert built("kbgat", graph.sizes).state().keys() == opened.state().keys()
