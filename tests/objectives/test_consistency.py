"""What is trained is what is ranked: also if a subclass changes the query or the targets, with frozen tables and with intervals."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import dura
from dura.config import Experiment
from dura.data.questions import Questions
from dura.models import L1, MODELS, ComplEx, Model
from dura.objectives import All, MarginRanking, Negatives, Softmax, objective_of
from dura.regularizers import REGULARIZERS
from dura.runs.build import build
from dura.runs.run import train
from dura.tables import Gathered, Table
from dura.training.optimizers import optimizer
from dura.training.trainer import Plan, Trainer
from dura.types import BadInput, Sizes
from graphs import random_graph
from plain import Plain, asked

GRAPH = random_graph()


class Tripled(ComplEx):
    """Another query than its family's."""

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        return 3 * super().query(head, relation, time)


class Normalised(ComplEx):
    """Targets that are computed, though there is a table."""

    def targets(
        self, entities: Tensor | None = None, relation: Tensor | None = None, time: Tensor | None = None
    ) -> Tensor:
        rows = self.entity if entities is None else self.entity.read(entities)
        assert isinstance(rows, Tensor)
        normalised: Tensor = rows / (1 + torch.linalg.vector_norm(rows, dim=1, keepdim=True))
        return normalised


@pytest.mark.parametrize("kind", [Tripled, Normalised])
def test_a_subclass_is_trained_with_the_scores_it_is_ranked_by(kind: type[ComplEx]) -> None:
    torch.manual_seed(0)
    model = kind(GRAPH.sizes, rank=4, init_scale=1.0)
    assert model.random and not model.state_is_all  # what another package's class does is not known
    rule = optimizer("sgd", {"lr": 0.0}, model.parameters())
    objective = objective_of({"tails": 1.0}, Softmax(), All())
    trainer = Trainer(model, objective, REGULARIZERS.build("none", {}), rule, GRAPH.questions, Plan(batch=10_000))
    loss, _ = trainer.step(GRAPH.questions)
    each = GRAPH.questions.one_by_one()
    with model.answering():
        scores = model.score_all(*(torch.as_tensor(ids).long() for ids in (each.head, each.relation)))
    answers = torch.as_tensor(each.answers).long()
    assert loss == pytest.approx(float(torch.nn.functional.cross_entropy(scores, answers)), rel=1e-5)


@pytest.mark.parametrize("name", ["compare", "score", "score_all"])
def test_a_mixin_that_overrides_a_score_is_refused(name: str) -> None:
    mixin = type("Mixin", (), {name: lambda *_: None})
    with pytest.raises(TypeError, match=f"Mixed overrides {name}, which training does not call"):
        type("Mixed", (mixin, ComplEx), {})


def test_negatives_of_intervals_are_filtered_at_every_time() -> None:
    facts = [(f"e{i}", "r", f"e{(i + step) % 12}", 2000 + i, 2020 + i) for i in range(12) for step in (1, 2, 3)]
    graph = dura.from_facts(facts, valid_share=0, test_share=0)
    candidates = Negatives(200)
    model = MODELS.build("tcomplex", {"rank": 2}, graph.sizes)
    objective = objective_of({"tails": 1.0}, MarginRanking(), candidates)
    objective.prepare(graph.questions, model, graph.training_facts)
    drawn = Questions.of(graph.at_times(graph.train, np.random.default_rng(5)), relations=1)
    ids, out = candidates.drawn(drawn, 0)
    known = graph.training_facts.known(drawn.head, drawn.relation, drawn.time)
    for fact, question in enumerate(drawn.question.tolist()):
        answers = set(known.answers[known.offsets[question] : known.offsets[question + 1]].tolist())
        assert int(drawn.answers[fact]) in answers
        assert set(ids[fact][~out[fact]].tolist()).isdisjoint(answers)


def test_the_rows_of_negatives_are_freed_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    alive: weakref.WeakSet[Gathered] = weakref.WeakSet()
    most: list[int] = []
    made = Gathered.__init__

    def counted(self: Gathered, rows: Tensor) -> None:
        made(self, rows)
        alive.add(self)
        most.append(len(alive))

    monkeypatch.setattr(Gathered, "__init__", counted)
    monkeypatch.setattr("dura.objectives.candidates.NEGATIVE_NUMBERS", 3 * 4)
    batch, model = asked(list(range(41)), np.arange(40)), Plain(Table(torch.randn(40, 4)))
    objective = objective_of({"tails": 1.0}, MarginRanking(), Negatives(3))
    objective.prepare(batch, model)
    objective(model, torch.randn(40, 4).requires_grad_(), batch, 0)
    assert len(most) == 80  # 40 blocks of one fact, each with its truth and its negatives
    assert max(most) <= 4


def test_groups_of_a_step_draw_other_negatives() -> None:
    candidates, batch = Negatives(50, filtered=False), asked([0, 1], np.array([0]))
    objective_of({"tails": 1.0}, MarginRanking(), candidates).prepare(batch, Plain(Table(torch.zeros(1000, 2))))
    first, second, again = (candidates.drawn(batch, 7, group)[0] for group in (0, 1, 1))
    assert not torch.equal(first, second)
    assert torch.equal(second, again)


@pytest.mark.parametrize("candidates", [All(), Negatives(3)])
def test_a_frozen_table_is_not_trained(candidates: Any) -> None:
    table = Table(torch.randn(8, 4), requires_grad=False)
    before, model = table.detach().clone(), Plain(table)
    batch = asked(list(range(9)), np.arange(8))
    objective = objective_of({"tails": 1.0}, Softmax(), candidates)
    objective.prepare(batch, model)
    query = torch.randn(8, 4).requires_grad_()
    objective(model, query, batch, 0)[1].backward()
    assert query.grad is not None and query.grad.any()
    assert table.grad is None
    optimizer("adagrad", {"lr": 0.1}, model.parameters()).step()
    assert torch.equal(table, before)


def quick(**settings: Any) -> Experiment:
    fixed = {"model.rank": 3, "training.epochs": 1, "training.batch": 50}
    return Experiment().with_values({**fixed, **{path.replace("__", "."): value for path, value in settings.items()}})


def test_relations_alone_can_be_trained_without_a_regularizer() -> None:
    """In any order of the settings: the weights of terms are checked together."""
    for order in ({"terms__tails": "0", "terms__relations": "1"}, {"terms__relations": "1", "terms__tails": "0"}):
        trained = train(quick(regularizer__name="none", **order), GRAPH)
        assert trained.experiment.terms.relations == 1
        assert not trained.model.training  # a trained model is ready to be asked


class Far(Model):
    comparator = L1()

    def __init__(self, sizes: Sizes, rank: int = 3) -> None:
        super().__init__(sizes, rank)
        self.entity = Table(torch.randn(sizes.entities, rank))

    @property
    def target_table(self) -> Table:
        return self.entity

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        return self.entity.read(head)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"model__name": "far", "training__precision": "bf16"},
            "'far' does not score by inner products: use 'float32'",
        ),
        ({"model__name": "far", "regularizer__name": "dura"}, "'dura' needs a semantic matching model"),
        ({"loss__name": "binary", "training__batching": "facts"}, "needs all answers of a question at once"),
    ],
)
def test_what_would_go_wrong_is_refused(
    settings: dict[str, Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODELS._members, "far", Far)
    settings = {"regularizer__name": "none", **settings} if "far" in settings.values() else settings
    with pytest.raises(BadInput, match=sentence):
        build(quick(**settings), GRAPH.sizes)
