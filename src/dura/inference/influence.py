"""Influence: on which training facts an answer depends.

The method is influence by gradients, restricted to the rows of the two entities of the fact. Everything else stays as it is. For
each of the two rows v, and each training fact z that contains its entity, the effect is aᵀ·(ΦᵀΦ + λ)⁻¹·g(z):

- a is the gradient by v of the log-probability of the answer among its best rivals,
- g(z) is the gradient by v of the log-probability of z, asked from both sides as in training, among a sample of the entities,
- Φ holds g(z) of all training facts of the entity (an empirical Fisher matrix), and λ is a share of its mean eigenvalue.

A positive effect means that the answer's log-probability falls without the fact. The effects of both rows are added. A model with
rows of entities is all that is needed: queries, targets and gradients come from the model and its comparator.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dura.data.graph import Graph
from dura.data.questions import reciprocal
from dura.inference.rows import Asked, EntityRows
from dura.models import Model
from dura.tables import Sharded
from dura.types import BadInput, FloatArray, IntArray, Side

MOST_FACTS = 1000
"""At most this many training facts of each of the two entities are looked at. If there are more, they are drawn at random."""
RIVALS = 500
"""How many of the best other answers stand for all of them in the log-probability of the answer."""
SAMPLE = 500
"""How many entities stand for all of them in the log-probability of a training fact."""
BLOCK = 256
"""How many training facts are looked at in one go."""
RIDGE = 1.0
"""λ as a share of the mean of ‖g(z)‖²."""
TINY = 1e-30
"""Keeps the matrix regular if all gradients are zero."""


def refusal(model: Model) -> str:
    """Why the influence of facts cannot be computed for this model, in one sentence; empty if it can."""
    if not model.entity_tables:
        return f"{type(model).__name__} has no table with one row per entity, so no numbers belong to one entity alone"
    if any(isinstance(table, Sharded) for table in model.entity_tables.values()):
        return "the rows of the entities are spread over processes; use one process"
    return ""


@dataclass(frozen=True)
class Around:
    """The training facts of one entity of an answer [n, 3 or 4], and gradients by the row of the entity."""

    facts: IntArray
    by_answer: Tensor
    """The gradient of the log-probability of the answer [w]."""
    by_fact: Tensor
    """The gradient of the log-probability of each training fact [n, w]."""
    left_out: int
    """How many facts of the entity were not looked at, see `MOST_FACTS`."""


def influence(
    model: Model, graph: Graph, fact: IntArray, side: Side = "tail", *, seed: int = 0
) -> tuple[IntArray, FloatArray, int]:
    """The training facts around a fact of ids [3 or 4], with the effect of each on the fact as an answer on this side.

    The largest effect comes first. The last value is how many facts of the two entities were left out.
    """
    both = around(model, graph, fact, side, seed=seed)
    facts, places = np.unique(np.concatenate([part.facts for part in both]), axis=0, return_inverse=True)
    own = np.concatenate([effects(part.by_answer, part.by_fact).cpu().double().numpy() for part in both])
    total = np.zeros(len(facts))
    np.add.at(total, places.reshape(-1), own)
    order = np.argsort(-total, kind="stable")
    return facts[order], total[order], sum(part.left_out for part in both)


def around(model: Model, graph: Graph, fact: IntArray, side: Side = "tail", *, seed: int = 0) -> list[Around]:
    """The facts and gradients of the two entities of a fact: first those of the question, then those of the answer."""
    if reason := refusal(model):
        raise BadInput(reason)
    relations, rng = len(graph.relations), np.random.default_rng(seed)
    question = fact[None] if side == "tail" else reciprocal(fact[None], relations)
    drawn = rng.choice(model.sizes.entities, min(SAMPLE, model.sizes.entities), replace=False)
    found = []
    with model.answering():
        sample, x = torch.from_numpy(np.sort(drawn)).to(model.device), Asked.of(question, model.device)
        rivals, rows = _rivals(model, graph, question), EntityRows(model)
        for entity, by_answer in ((0, rows.by_head(x, rivals)), (2, rows.by_tail(x, rivals))):
            facts, left_out = facts_of(graph, int(question[0, entity]), fact, rng)
            by_fact = _gradients(rows, facts, relations, sample)
            found.append(Around(_canonical(facts, relations), by_answer[0], by_fact, left_out))
    return found


def effects(by_answer: Tensor, by_fact: Tensor) -> Tensor:
    """aᵀ·(ΦᵀΦ + λ)⁻¹·g(z) for each fact z [n]. The matrix has the size of the facts: the same as (ΦΦᵀ + λ)⁻¹·Φ·a."""
    if not len(by_fact):
        return by_fact.new_zeros(0)
    kernel = by_fact @ by_fact.mT
    kernel.diagonal().add_(RIDGE * float(kernel.diagonal().mean()) + TINY)
    solved: Tensor = torch.linalg.solve(kernel, by_fact @ by_answer)
    return solved


def _rivals(model: Model, graph: Graph, question: IntArray) -> Tensor:
    """The best answers that are not known and not the answer itself."""
    x = Asked.of(question, model.device)
    scores = model.score_all(x.head, x.relation, x.time)[0]
    time = None if x.time is None else question[:, 3]
    known = graph.known.known(question[:, 0], question[:, 1], time).answers
    scores[torch.from_numpy(known.astype(np.int64)).to(model.device)] = -torch.inf
    scores[x.tail] = -torch.inf
    best, ids = scores.topk(min(RIVALS, len(scores)))
    return ids[best > -torch.inf]


def facts_of(graph: Graph, entity: int, but: IntArray, rng: np.random.Generator) -> tuple[IntArray, int]:
    """The training facts of an entity, each with the entity as its head (some by reciprocal relations), and how many are left out.

    The fact `but` is not among them, in neither direction.
    """
    questions = graph.questions
    first, last = np.searchsorted(questions.head, [entity, entity + 1])
    some = questions.take(np.arange(first, last))
    columns = [np.repeat(column, some.counts) for column in (some.head, some.relation)] + [some.answers]
    if some.time is not None:
        columns.append(np.repeat(some.time, some.counts))
    facts = np.column_stack(columns).astype(np.int64)
    same = (_canonical(facts, len(graph.relations)) == but).all(1)
    loops = (facts[:, 0] == facts[:, 2]) & (facts[:, 1] >= len(graph.relations))
    facts = facts[~same & ~loops]
    if len(facts) <= MOST_FACTS:
        return facts, 0
    return facts[np.sort(rng.choice(len(facts), MOST_FACTS, replace=False))], len(facts) - MOST_FACTS


def _canonical(facts: IntArray, relations: int) -> IntArray:
    """The same facts without reciprocal relations."""
    turned = facts.copy()
    back = facts[:, 1] >= relations
    turned[back, 0], turned[back, 2] = facts[back, 2], facts[back, 0]
    turned[back, 1] -= relations
    return turned


def _gradients(rows: EntityRows, facts: IntArray, relations: int, sample: Tensor) -> Tensor:
    """The gradient of each fact's log-probability, asked from both sides, by the row of its head [n, w]."""
    turned = reciprocal(facts, relations)
    turned[:, 1] %= 2 * relations  # the reciprocal of a reciprocal is the relation itself
    weight = rows.entities / len(sample)
    found = []
    for at in range(0, len(facts), BLOCK):
        asked, back = (Asked.of(part[at : at + BLOCK], sample.device) for part in (facts, turned))
        found.append(rows.by_head(asked, sample, weight) + rows.by_tail(back, sample, weight))
    return torch.cat(found) if found else sample.new_zeros(0, rows.width, dtype=torch.float32)
