"""Terms: which hole of a fact is asked, each with a weight. Training minimises Σ weight · term + regularizer + smoothness."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from dura import world
from dura.data.questions import Questions, segments
from dura.models import Model
from dura.models.comparators import Dot
from dura.objectives.candidates import All, Batch, Candidates
from dura.objectives.deal import Deal
from dura.objectives.known import known_of
from dura.objectives.losses import Loss, Softmax
from dura.tables import Collector, Fixed, Gathered, Sharded, Table
from dura.types import BadInput

Hole = Literal["tails", "relations", "times"]

REPLICA_STEP = 2**20
"""How far apart the numbers of the groups of two replicas are, so that they draw other negatives."""
LOW_BLOCK = 256
"""How many facts are asked for their relation or time at once if products have a lower precision. A kernel is compiled for each new
shape, so there should be few of them."""
OUTER_NUMBERS = 2**24
"""How many numbers the queries for relations or times may have at a time: those of full matrices are large."""


@dataclass(frozen=True)
class Term:
    """One part of the objective: what is asked, how much it counts, and the loss over which candidates."""

    weight: float
    ask: Hole
    loss: Loss
    candidates: Candidates
    share: float = 1.0
    """The share of the facts that a step asks, if the hole is a relation or a time. The others are asked in other epochs."""


class Objective:
    """The weighted sum of the terms, over one batch of questions at a time."""

    def __init__(self, terms: list[Term]) -> None:
        self.terms = terms

    def prepare(self, questions: Questions, model: Model, facts: Questions | None = None) -> None:
        """Learn about the training set before the first step: the questions, and all facts if questions are drawn from them."""
        known = known_of(facts or questions, model.sizes)
        frequency = torch.from_numpy(questions.frequency(model.sizes.entities))
        for term in self.terms:
            term.loss.prepare(known, frequency.to(model.device, model.dtype))
            term.candidates.prepare(known, frequency.to(model.device, model.dtype))

    def begin(self, epoch: int, epochs: int) -> None:
        """An epoch begins or continues (counted from 0) of this many."""
        for term in self.terms:
            term.candidates.begin(epoch, epochs)

    def __call__(self, model: Model, query: Tensor, batch: Questions | Deal, seed: int) -> tuple[Tensor, Tensor]:
        """The loss of a batch, and a scalar that carries its gradient: call backward on it.

        The gradients of tables are added to them at once; what flows through `query` flows when backward runs. If several
        processes work on a batch, `query` has the queries of `batch.mine`, and the loss is this process's part of the sum.
        """
        deal = batch if isinstance(batch, Deal) else Deal.of(batch)
        loss, carrier = query.new_zeros(()), query.new_zeros(())
        for term in self.terms:
            ask = _tails if term.ask == "tails" else _between
            value, live = ask(term, model, query, deal, seed)
            loss, carrier = loss + value, carrier + live
        return loss, carrier


def _tails(term: Term, model: Model, query: Tensor, deal: Deal, seed: int) -> tuple[Tensor, Tensor]:
    """(head, relation, ?): one call for all questions, or one for each group that shares its targets."""
    batch = deal.group
    answers = torch.as_tensor(batch.answers).to(query.device, torch.long)
    share, each = _shares(term, query, batch, answers), term.weight / deal.questions
    fixed, replica = query.detach(), REPLICA_STEP * world.grid().replica
    table = model.target_table if not model.grouped_by else None
    if isinstance(table, Sharded):
        return _spread(term, model, table, query, deal, Batch(batch, fixed, _Targets(model), share, each, seed))
    if not model.grouped_by or term.candidates.kind == "negatives":
        rows = _targets(model, batch, query)
        one = Batch(batch, fixed, rows, share, each, seed, replica)
        loss, gradient = term.candidates(model.comparator, term.loss, one)
        return loss, query.flatten() @ gradient.flatten() + rows.settle()
    loss, gradient = query.new_zeros(()), torch.zeros_like(query)
    for number, (index, facts) in enumerate(_groups(model, batch)):
        at = torch.as_tensor(index).to(query.device)
        part = batch.take(index)
        rows = _targets(model, part.take(np.zeros(1, dtype=np.int64)), query)
        mine = share[torch.as_tensor(facts).to(query.device)]
        group = Batch(part, fixed[at], rows, mine, each, seed, number + replica)
        value, by_query = term.candidates(model.comparator, term.loss, group)
        loss = loss + value
        gradient[at] = by_query
        rows.flush()  # at once: the targets of all groups would not fit in memory
    return loss, query.flatten() @ gradient.flatten()


def _spread(term: Term, model: Model, table: Sharded, query: Tensor, deal: Deal, batch: Batch) -> tuple[Tensor, Tensor]:
    """Every process scores its own rows for all questions of the group. Queries travel to all; their gradients come back summed."""
    assert isinstance(batch.targets, _Targets)
    first, last = table.span
    here = (batch.questions.answers >= first) & (batch.questions.answers < last)
    mine = replace(
        batch,
        questions=batch.questions.only(here, first),
        query=world.gather(batch.query, deal.sizes),
        share=batch.share[torch.as_tensor(here).to(batch.share.device)],
        span=table.span,
        entities=table.spans.rows,
        widest=max(table.spans.sizes),
    )
    loss, gradient = term.candidates(model.comparator, term.loss, mine)
    gradient = world.scatter_total(gradient, deal.sizes)
    return loss, query.flatten() @ gradient.flatten() + batch.targets.settle()


def _shares(term: Term, query: Tensor, batch: Questions, answers: Tensor) -> Tensor:
    """What each fact counts for in the mean, the term's weight included."""
    weights = term.loss.weights(batch, answers)
    weights = query.new_ones(len(answers)) if weights is None else weights.to(query.dtype)
    total = world.total(weights.sum(), "replicas")
    if (factor := term.candidates.weights(batch)) is not None:
        weights = weights * factor.to(weights)
    share: Tensor = weights / total
    return share if term.weight == 1 else share * term.weight


def _targets(model: Model, batch: Questions, like: Tensor) -> _Targets:
    """The targets of questions. They depend on the relation or the time of each question only if the model says so."""
    ids = (batch.relation, batch.time) if model.grouped_by else ()
    return _Targets(model, *(None if one is None else torch.as_tensor(one).to(like.device, torch.long) for one in ids))


def _groups(model: Model, batch: Questions) -> list[tuple[np.ndarray, np.ndarray]]:
    """Positions of the questions, and of their facts, of each group that shares what its targets depend on."""
    if not len(batch):
        return []
    key = np.zeros(len(batch), dtype=np.int64)
    for name in model.grouped_by:
        ids = getattr(batch, name)
        key = key * (int(ids.max(initial=0)) + 1) + ids
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(key[order]) != 0))
    groups = np.split(order, starts[1:])
    return [(index, segments(batch.offsets[index], batch.counts[index])) for index in groups]


class _Targets:
    """The targets of some questions, and where their gradient goes. Relations and times are those of each question, or shared."""

    def __init__(self, model: Model, relation: Tensor | None = None, time: Tensor | None = None) -> None:
        self.model, self.relation, self.time = model, relation, time
        own = model.grouped_by or type(model).targets is not Model.targets
        table = None if own else model.target_table
        if table is not None and not isinstance(table, Table):
            raise BadInput("the tables of this model are packed, so it can be asked but not trained")
        self.table = table
        self._live: list[tuple[Tensor, Gathered]] = []
        self._picked: list[tuple[Tensor, Gathered]] = []

    def every(self) -> Collector:
        if self.table is None:
            return self._computed(None)
        return self.table if self.table.requires_grad else Fixed(self.table.rows)

    def some(self, entities: Tensor, questions: Tensor | None = None) -> Collector:
        if self.table is None:
            return self._computed(entities, questions)
        rows = Gathered(self.table.rows.index_select(0, entities))
        if self.table.requires_grad:
            self._picked.append((entities, rows))
        return rows

    def learned(self) -> Table | None:
        return self.table if self.table is not None and self.table.requires_grad else None

    def flush(self) -> None:
        if (live := self.settle()).requires_grad:
            live.backward()

    def _computed(self, entities: Tensor | None, questions: Tensor | None = None) -> Collector:
        def of_each(ids: Tensor | None) -> Tensor | None:
            if ids is None or entities is None:
                return ids
            return ids.expand(len(entities)) if questions is None or len(ids) == 1 else ids[questions]

        relation, time = of_each(self.relation), of_each(self.time)
        live = self.model.targets(entities, relation, time)
        assert isinstance(live, Tensor)
        if not live.requires_grad:
            return Fixed(live)
        rows = Gathered(live.detach())
        self._live.append((live, rows))
        return rows

    def settle(self) -> Tensor:
        """Add the gradients of picked rows to the table; return a scalar that carries those of computed rows."""
        carrier = torch.zeros((), device=self.model.device, dtype=self.model.dtype)
        for entities, rows in self._picked:
            assert self.table is not None
            self.table.add_rows(entities, rows.gradient())
        for live, rows in self._live:
            carrier = carrier + live.flatten() @ rows.gradient().flatten()
        self._picked, self._live = [], []
        return carrier


class _Whole:
    """A table as the targets of a question for a relation or a time."""

    def __init__(self, table: Table) -> None:
        self.rows = Gathered(table.rows.flatten(1))

    def every(self) -> Collector:
        return self.rows

    def some(self, entities: Tensor, questions: Tensor | None = None) -> Collector:
        raise NotImplementedError("relations and times are compared with all others")

    def learned(self) -> Table | None:
        return None  # the gradient is added by the caller

    def flush(self) -> None:
        """The caller reads the gradient."""


def _between(term: Term, model: Model, query: Tensor, deal: Deal, seed: int) -> tuple[Tensor, Tensor]:
    """(head, ?, tail) or (head, relation, tail, ?): every fact is one question, over all relations or all times."""
    each = _drawn(deal.mine.one_by_one(), term.share, seed)
    # Those that were drawn stand for the others, so the mean stays the same.
    facts = deal.facts * each.facts / max(1, deal.mine.facts)
    ask: Literal["relations", "times"] = "relations" if term.ask == "relations" else "times"
    hole = each.relation if ask == "relations" else each.time
    if hole is None:
        raise BadInput("terms.times is set, but the facts of this graph have no times")
    share, loss = query.new_full((each.facts,), term.weight / facts), query.new_zeros(())
    size = max(1, OUTER_NUMBERS // max(1, query.shape[1] ** (1 if model.diagonal else 2)))
    for a in range(0, each.facts, size):
        part = np.arange(a, min(a + size, each.facts))
        asked = each.take(part)
        asked = Questions(asked.head, asked.relation, asked.offsets, hole[part], asked.time)
        head, relation, tail = (
            torch.as_tensor(ids).to(query.device, torch.long)
            for ids in (each.head[part], each.relation[part], each.answers[part])
        )
        time = None if each.time is None else torch.as_tensor(each.time[part]).to(query.device, torch.long)
        mine, table = model.between(ask, head, relation, tail, time)
        targets = _Whole(table)
        block = Batch(asked, mine.detach(), targets, share[a : a + len(part)], term.weight / facts, seed)
        value, gradient = term.candidates(Dot(), term.loss, block)
        loss = loss + value
        table.add_all(targets.rows.gradient().view_as(table))
        (mine.flatten() @ gradient.flatten()).backward()
    return loss, query.new_zeros(())


def _drawn(each: Questions, share: float, seed: int) -> Questions:
    """Some of the facts, drawn without replacement. Every fact has all relations as rivals, so its products are all the cost."""
    if share == 1 or not each.facts:
        return each
    rng = np.random.default_rng([seed, world.grid().rank])
    return each.take(np.sort(rng.choice(each.facts, math.ceil(share * each.facts), replace=False)))


def objective_of(weights: dict[Hole, float], loss: Loss, candidates: Candidates, share: float = 1.0) -> Objective:
    """The objective of the settings: tails with this loss and these candidates, relations and times by softmax over all.

    A step asks a `share` of its facts for relations and times.
    """
    if reason := loss.refusal(candidates.kind):
        raise BadInput(f"the loss cannot be used with these candidates: {reason}")
    for hole, weight in weights.items():
        if not weight >= 0:
            raise BadInput(f"terms.{hole} is {weight}, but a weight is zero or more")
    if not any(weights.values()):
        raise BadInput("all weights of terms are zero, so there is nothing to train")
    others = All() if candidates.product_type is None else All(LOW_BLOCK)
    others.product_type = candidates.product_type
    terms = [
        Term(weight, hole, loss, candidates) if hole == "tails" else Term(weight, hole, Softmax(), others, share)
        for hole, weight in weights.items()
        if weight
    ]
    return Objective(terms)
