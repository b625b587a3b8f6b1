"""Explain: the training facts, the similar entities and the rules behind an answer.

Three kinds of evidence, each from its own module: `influence` (by gradients), rows that are near (here) and `rules` (counted in the
training facts; they ignore times). The text and the values are in `explanation`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from torch.nn.functional import cosine_similarity

from dura.data.graph import Graph
from dura.data.questions import reciprocal
from dura.inference.answers import Answers, Wanted
from dura.inference.explanation import Explanation, FiringRule, InfluentialFact, SimilarEntity, StatedFact
from dura.inference.influence import influence, refusal
from dura.inference.predict import check_finite, time_id
from dura.inference.rules import Miner, Rule
from dura.models import Model
from dura.tables import Sharded
from dura.text import shown
from dura.types import SIDES, BadInput, IntArray, Side

WAYS = 3
"""In how many ways the body of a rule is shown to hold."""
MOST_ALIKE = 20_000
"""With how many entities that have the same answer an entity is compared at most."""


class Explainer:
    """Explains the answers of a model. It keeps what it learns about relations, so the next explanation is faster."""

    def __init__(self, model: Model, graph: Graph) -> None:
        self._model, self._graph = model, graph

    @cached_property
    def miner(self) -> Miner:
        """The rules of the graph."""
        return Miner(self._graph)

    def explain(
        self, head: str, relation: str, tail: str, time: str | None = None, *, side: Side = "tail", k: int = 5
    ) -> Explanation:
        """Why the model gives `tail` as an answer to (head, relation, ?), or with side="head" `head` to (?, relation, tail).

        At most `k` facts, entities and rules of each kind are named.
        """
        Wanted(k)  # refuses what is not a number of things
        if side not in SIDES:
            raise BadInput(f"side is {shown(side)}, but an answer is a 'tail' or a 'head'")
        if isinstance(self._model.target_table, Sharded):
            raise BadInput("answers are explained in one process; start one process")
        graph = self._graph
        ids = [graph.entity(head), graph.relation(relation), graph.entity(tail), time_id(graph, time)]
        fact = np.array(ids[: 3 if graph.times is None else 4], dtype=np.int64)
        question = fact[None] if side == "tail" else reciprocal(fact[None], len(graph.relations))
        score, rank, known = self._place(question)
        reason = refusal(self._model)
        none = np.zeros((0, len(fact)), dtype=np.int64), np.zeros(0), 0
        facts, effects, left_out = none if reason else influence(self._model, graph, fact, side)
        named = [
            InfluentialFact(self._stated(row), float(effect)) for row, effect in zip(facts[:k], effects, strict=False)
        ]
        last = list(zip(facts[::-1][:k], effects[::-1], strict=False))
        against = [InfluentialFact(self._stated(row), float(effect)) for row, effect in last]
        asked = (int(question[0, 0]), int(question[0, 1]), int(question[0, 2]))
        return Explanation(
            fact=self._stated(fact),
            side=side,
            score=score,
            rank=rank,
            known=known,
            facts=tuple(one for one in named if one.effect > 0),
            against=tuple(one for one in against if one.effect < 0),
            looked_at=len(facts),
            left_out=left_out,
            similar=self._similar(*asked, k),
            rules=self._rules(*asked, k),
            no_facts=reason,
        )

    def explained(self, answers: Answers, k: int = 3) -> Answers:
        """The same answers, each with its explanation."""
        question, found = answers.question, []
        side: Side = "head" if question.head is None else "tail"
        for answer in answers:
            head, tail = (answer.entity if part is None else part for part in (question.head, question.tail))
            reasons = self.explain(head, question.relation, tail, question.time, side=side, k=k)
            found.append(replace(answer, explanation=reasons))
        return Answers(question, tuple(found), answers.labels)

    def _place(self, question: IntArray) -> tuple[float, int, bool]:
        """The score of an answer, its rank among the answers that are not known, and whether it is known."""
        times = None if question.shape[1] == 3 else question[:, 3]
        columns = torch.from_numpy(question).to(self._model.device).unbind(1)
        with self._model.answering():
            scores = self._model.score_all(*columns[:2], *columns[3:])[0]
        check_finite(scores)
        own = float(scores[columns[2]])
        answers = self._graph.known.known(question[:, 0], question[:, 1], times).answers
        scores[torch.from_numpy(answers.astype(np.int64)).to(scores.device)] = -torch.inf
        return own, 1 + int((scores > own).sum()), bool((answers == question[0, 2]).any())

    def _similar(self, entity: int, relation: int, answer: int, k: int) -> tuple[SimilarEntity, ...]:
        """The nearest of the entities that have the same answer in the training facts."""
        others = self.miner.paths.answers(answer, self.miner.paths.back(relation))
        others = others[others != entity]
        if len(others) > MOST_ALIKE:
            others = np.sort(np.random.default_rng(0).choice(others, MOST_ALIKE, replace=False))
        with self._model.answering():
            ids = torch.from_numpy(np.append(others, entity)).to(self._model.device)
            rows = self._model.heads(ids)
            near, at = cosine_similarity(rows[:-1], rows[-1:]).topk(min(k, len(others)))
        names = self._graph.entities.names(others[at.cpu().numpy()].tolist())
        both = zip(names, near.tolist(), strict=True)
        return tuple(SimilarEntity(name, self._graph.label(name), similarity) for name, similarity in both)

    def _rules(self, entity: int, relation: int, answer: int, k: int) -> tuple[FiringRule, ...]:
        """The best rules that lead to the answer."""
        return tuple(
            FiringRule(
                self._text(rule),
                rule.support,
                rule.times,
                rule.confidence,
                rule.sampled,
                tuple(
                    tuple(self._stated(np.array(fact)) for fact in way)
                    for way in self.miner.instances(rule, entity, answer, WAYS)
                ),
            )
            for rule in self.miner.firing(relation, entity, answer)[:k]
        )

    def _text(self, rule: Rule) -> str:
        """A rule as text, such as "lives_in(x, y) if works_at(x, z) and located_in(z, y)"."""
        first, last = "x", "y" if rule.ends is None else self._label(rule.ends[1])
        ends = ["z", "y"][-len(rule.body) :] if rule.ends is None else [self._label(rule.ends[0])]
        atoms, begin = [], first
        for relation, end in zip(rule.body, ends, strict=True):
            atoms.append(self._atom(relation, begin, end))
            begin = end
        return f"{self._atom(rule.relation, first, last)} if {' and '.join(atoms)}"

    def _atom(self, relation: int, head: str, tail: str) -> str:
        """Reciprocal relations are written as the relation itself, with head and tail exchanged."""
        back = relation >= len(self._graph.relations)
        name = self._graph.relation_label(self._graph.relations.name(relation % len(self._graph.relations)))
        return f"{name}({tail}, {head})" if back else f"{name}({head}, {tail})"

    def _label(self, entity: int) -> str:
        return self._graph.label(self._graph.entities.name(entity))

    def _stated(self, fact: IntArray) -> StatedFact:
        """A fact of ids [3 or 4] by names."""
        graph = self._graph
        head, tail = (graph.entities.name(int(fact[i])) for i in (0, 2))
        relation = graph.relations.name(int(fact[1]))
        time = graph.times.names([int(fact[3])])[0] if graph.times is not None and len(fact) > 3 else None
        labels = {"head": graph.label(head), "relation": graph.relation_label(relation), "tail": graph.label(tail)}
        own = {"head": head, "relation": relation, "tail": tail}
        return StatedFact(head, relation, tail, time or None, {p: text for p, text in labels.items() if text != own[p]})
