"""Rules: short regularities of the training facts, with how often they hold.

The rules of a relation r have three forms. Each s may also be followed from its tail to its head.

    r(x, y) if s(x, y)               r(x, y) if s(x, z) and u(z, y)               r(x, c) if s(x, d)

`mine` finds them and `apply` asks them. No model is needed. Bodies of the first two forms are found at a sample of the relation's
facts. Then each one is counted: at all entities, or at a sample if it holds too often. Rules ignore times: a fact counts if it
holds at any time. Memory is bounded by the facts and by `MOST_PATHS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dura.data.graph import Graph, distinct
from dura.data.questions import Questions, segments
from dura.types import FloatArray, IntArray

MOST_PATHS = 50_000
"""A body that holds for more pairs of entities is counted at a sample of its heads with about this many pairs."""
MOST_HEADS = 2_000
"""At how many heads a body is counted at most."""
SEEN_FACTS = 300
"""At how many facts of the relation bodies are looked for."""
MOST_BODIES = 100
"""How many bodies are counted, those first that hold at most of the facts that were looked at."""
MOST_ANSWERS = 50
"""For how many answers, the most frequent ones, `mine` looks for rules with constants."""
MOST_FIRING = 30
"""How many bodies are counted for one answer."""
LEAST_SUPPORT = 2
"""Rules that were right less often are left out."""
CAUTION = 5
"""The confidence of a rule is support / (times + this), so that rules with few cases do not come first."""


@dataclass(frozen=True)
class Rule:
    """r(x, y) if the body holds. Relations r + |R| are reciprocal: followed from the tail to the head.

    With `ends` (d, c) the rule is about these entities: r(x, c) if body(x, d).
    """

    relation: int
    body: tuple[int, ...]
    ends: tuple[int, int] | None
    support: int
    """How often body and head of the rule hold together."""
    times: int
    """How often the body holds."""
    sampled: bool
    """True if the rule was counted at a sample."""

    @property
    def confidence(self) -> float:
        """The share of times at which the rule is right, a little lowered if it was seen only a few times."""
        return self.support / (self.times + CAUTION)


def mine(graph: Graph, relation: int, *, seed: int = 0) -> list[Rule]:
    """The rules of a relation (or a reciprocal one), by falling confidence."""
    return Miner(graph, seed=seed).mine(relation)


def apply(graph: Graph, rules: Sequence[Rule], head: int) -> tuple[IntArray, FloatArray]:
    """The answers of the rules to (head, relation, ?), best first, with their scores; see `Miner.apply`."""
    return Miner(graph).apply(rules, head)


class Miner:
    """The training facts of a graph, ready for rules. It keeps the rules of the relations that were asked for."""

    def __init__(self, graph: Graph, *, seed: int = 0) -> None:
        self._graph, self._seed = graph, seed
        self._rules: dict[int, list[Rule]] = {}
        self._counted: dict[tuple[int, tuple[int, ...]], Rule] = {}
        self._bodies: dict[int, list[tuple[int, ...]]] = {}

    @cached_property
    def facts(self) -> Questions:
        """The training facts in both directions, without times, as questions with answers."""
        if self._graph.times is None:
            return self._graph.questions
        return Questions.of(distinct(self._graph.train[:, :3]), relations=self.relations)

    @property
    def relations(self) -> int:
        """How many relations there are without reciprocal ones."""
        return len(self._graph.relations)

    def back(self, relation: int) -> int:
        """The reciprocal of a relation, or the relation of a reciprocal one."""
        return (relation + self.relations) % (2 * self.relations)

    # -- mining ---------------------------------------------------------------------------------------------------

    def mine(self, relation: int) -> list[Rule]:
        """All rules of a relation, by falling confidence. Rules with constants are those of its most frequent answers."""
        if relation not in self._rules:
            rules = [self.count(relation, body) for body in self.bodies(relation)]
            answers, often = np.unique(self._of(relation)[1], return_counts=True)
            for answer in answers[np.argsort(-often, kind="stable")[:MOST_ANSWERS]].tolist():
                rules += self.constants(relation, answer)
            self._rules[relation] = best_first(rules)
        return self._rules[relation]

    def bodies(self, relation: int) -> list[tuple[int, ...]]:
        """The bodies of one and two relations that hold at most of the facts that were looked at, at least at two."""
        if relation in self._bodies:
            return self._bodies[relation]
        heads, tails = self._of(relation)
        rng = np.random.default_rng([self._seed, relation])
        some = np.arange(len(heads)) if len(heads) <= SEEN_FACTS else rng.choice(len(heads), SEEN_FACTS, replace=False)
        found = [self._between(int(heads[i]), int(tails[i]), relation) for i in some]
        codes, often = np.unique(np.concatenate([np.zeros(0, np.int64), *found]), return_counts=True)
        best = np.argsort(-often, kind="stable")
        best = best[often[best] >= LEAST_SUPPORT][:MOST_BODIES]
        self._bodies[relation] = [self._body(code) for code in codes[best].tolist()]
        return self._bodies[relation]

    def _between(self, head: int, tail: int, relation: int) -> IntArray:
        """The codes of the bodies that hold between two entities, each once. The fact itself is not one of them."""
        (one, z), (two, y) = self._near(head), self._near(tail)
        direct = one[z == tail]
        direct = direct[direct != relation]
        here = (z != head) & (z != tail)
        one, z = one[here], z[here]
        order = np.argsort(y, kind="stable")
        first, last = (np.searchsorted(y, z, side, sorter=order) for side in ("left", "right"))
        other = two[order][segments(first, last - first)]
        width = 2 * self.relations
        codes = (np.repeat(one, last - first) + 1) * width + (other + self.relations) % width
        return np.unique(np.concatenate([direct, codes]))

    def _body(self, code: int) -> tuple[int, ...]:
        """The relations of a code."""
        first, last = divmod(code, 2 * self.relations)
        return (first - 1, last) if first else (last,)

    def count(self, relation: int, body: tuple[int, ...]) -> Rule:
        """The rule r(x, y) if body(x, y), counted."""
        key = relation, body
        if key not in self._counted:
            heads, tails, sampled = self._pairs(body)
            right = self._holds(heads, relation, tails)
            self._counted[key] = Rule(relation, body, None, int(right.sum()), len(heads), sampled)
        return self._counted[key]

    def _pairs(self, body: tuple[int, ...]) -> tuple[IntArray, IntArray, bool]:
        """The pairs of different entities for which a body holds, each once, and whether they are only a sample."""
        every = np.random.default_rng([self._seed, *body]).permutation(self._heads(body[0]))
        heads, sampled = every[:MOST_HEADS], len(every) > MOST_HEADS
        ends = heads
        for relation in body:
            at = self.facts.find(ends, np.full_like(ends, relation))
            start = np.where(at >= 0, self.facts.offsets[at], 0)
            length = np.where(at >= 0, self.facts.offsets[at + 1] - start, 0)
            # Whole heads are kept, at least one: each has all its pairs, or none.
            total = np.cumsum(length)
            whole = np.flatnonzero(np.append(heads[1:] != heads[:-1], True))
            last = max(0, int(np.searchsorted(total[whole], MOST_PATHS, "right")) - 1)
            kept = int(whole[last]) + 1 if len(heads) else 0
            sampled |= kept < len(heads)
            heads, start, length = heads[:kept], start[:kept], length[:kept]
            heads, ends = np.repeat(heads, length), self.facts.answers[segments(start, length)].astype(np.int64)
        different = heads != ends
        codes = np.unique(heads[different] * len(self._graph.entities) + ends[different])
        return *np.divmod(codes, len(self._graph.entities)), sampled

    def constants(self, relation: int, answer: int) -> list[Rule]:
        """The rules r(x, answer) if s(x, d), for every s and d that hold at two or more heads of the answer."""
        heads = self.answers(answer, self.back(relation))
        rng = np.random.default_rng([self._seed, relation, answer])
        share = min(1.0, MOST_HEADS / max(1, len(heads)))
        seen = rng.choice(heads, MOST_HEADS, replace=False) if share < 1 else heads
        near = [self._near(int(head)) for head in seen]
        if not near:
            return []
        width = 2 * self.relations
        codes, support = np.unique(np.concatenate([d * width + s for s, d in near]), return_counts=True)
        codes, support = codes[support >= LEAST_SUPPORT], support[support >= LEAST_SUPPORT]
        d, s = np.divmod(codes, width)
        keep = (d != answer) | (s != relation)
        d, s, support = d[keep], s[keep], np.rint(support[keep] / share).astype(np.int64)
        at = self.facts.find(d, (s + self.relations) % width)
        times = self.facts.offsets[at + 1] - self.facts.offsets[at]
        support = np.minimum(support, times)
        best = np.argsort(-support / (times + CAUTION), kind="stable")[:MOST_BODIES]
        return [
            Rule(relation, (int(s[i]),), (int(d[i]), answer), int(support[i]), int(times[i]), share < 1) for i in best
        ]

    # -- asking ---------------------------------------------------------------------------------------------------

    def apply(self, rules: Sequence[Rule], head: int) -> tuple[IntArray, FloatArray]:
        """The answers of rules of one relation to (head, relation, ?), best first, with their scores.

        The score is the confidence of the best rule that gives the answer. Of equal ones the second best rule decides: a
        thousandth of its confidence is added. Known answers are among the answers.
        """
        one: dict[int, float] = {}
        two: dict[int, float] = {}
        near = set(zip(*(column.tolist() for column in self._near(head)), strict=True))
        for rule in best_first(rules):
            for answer in self._ends(rule, head, near):
                if answer not in one:
                    one[answer] = rule.confidence
                else:
                    two.setdefault(answer, rule.confidence)
        entities = np.fromiter(one, np.int64, len(one))
        scores = np.array([score + 1e-3 * two.get(entity, 0.0) for entity, score in one.items()], np.float64)
        order = np.lexsort([entities, -scores])
        return entities[order], scores[order]

    def apply_many(self, rules: Sequence[Rule], heads: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
        """What `apply` gives for each of these heads, all rules at once: the place of the head, the answer and its score."""
        found = [self._follow(rule, heads) for rule in rules if rule.ends is None and rule.support >= LEAST_SUPPORT]
        found.append(self._matching([rule for rule in rules if rule.ends and rule.support >= LEAST_SUPPORT], heads))
        width = len(self._graph.entities)
        keys = np.concatenate([row * width + end for row, end, _ in found])
        confidence = np.concatenate([share for _, _, share in found])
        order = np.lexsort([-confidence, keys])
        keys, confidence = keys[order], confidence[order]
        first = np.append(True, keys[1:] != keys[:-1])[: len(keys)]
        second = np.append(~first[1:], False)[: len(keys)] & first  # an answer that another rule gives too
        scores = confidence + np.where(second, 1e-3 * np.append(confidence[1:], 0.0)[: len(keys)], 0.0)
        return *np.divmod(keys[first], width), scores[first]

    def _follow(self, rule: Rule, heads: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Where the body of a rule leads from each head, each end once."""
        rows, ends = np.arange(len(heads)), heads.astype(np.int64)
        for relation in rule.body:
            step = self.facts.known(ends, np.full_like(ends, relation))
            rows, ends = rows[step.question], step.answers.astype(np.int64)
            rows, ends = np.divmod(np.unique(rows * len(self._graph.entities) + ends), len(self._graph.entities))
        other = ends != heads[rows]
        return rows[other], ends[other], np.full(int(other.sum()), rule.confidence)

    def _matching(self, rules: Sequence[Rule], heads: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
        """The answers of rules with constants: those whose condition is a fact of the head."""
        ends = np.array([rule.ends for rule in rules], np.int64).reshape(-1, 2)
        code = ends[:, 0] * 2 * self.relations + np.array([rule.body[0] for rule in rules], np.int64)
        order = np.argsort(code, kind="stable")
        near = [self._near(int(head)) for head in heads]
        rows = np.repeat(np.arange(len(heads)), [len(relation) for relation, _ in near])
        facts = np.concatenate([np.zeros(0, np.int64), *(d * 2 * self.relations + s for s, d in near)])
        first, last = (np.searchsorted(code[order], facts, side) for side in ("left", "right"))
        at = order[segments(first, last - first)]
        confidence = np.array([rule.confidence for rule in rules], np.float64)
        return np.repeat(rows, last - first), ends[at, 1], confidence[at]

    def _ends(self, rule: Rule, head: int, near: set[tuple[int, int]]) -> list[int]:
        """The answers that one rule gives. `near` are the relations and tails of all facts of the head."""
        if rule.ends is not None:
            return [rule.ends[1]] if (rule.body[0], rule.ends[0]) in near else []
        ends = np.array([head])
        for relation in rule.body:
            ends = np.unique(self.facts.known(ends, np.full_like(ends, relation)).answers)
        return [end for end in ends.tolist() if end != head]

    def firing(self, relation: int, head: int, tail: int) -> list[Rule]:
        """The rules that give `tail` as an answer to (head, relation, ?), by falling confidence."""
        here = set(self._between(head, tail, relation).tolist())
        bodies = [body for body in self.bodies(relation) if self._code(body) in here][:MOST_FIRING]
        near = set(zip(*(column.tolist() for column in self._near(head)), strict=True))
        own = [rule for rule in self.constants(relation, tail) if rule.ends and (rule.body[0], rule.ends[0]) in near]
        return best_first([*(self.count(relation, body) for body in bodies), *own])

    def _code(self, body: tuple[int, ...]) -> int:
        return body[0] if len(body) == 1 else (body[0] + 1) * 2 * self.relations + body[1]

    def instances(self, rule: Rule, head: int, tail: int, most: int) -> list[list[tuple[int, int, int]]]:
        """The facts that make the body true for this answer: a list per way, at most this many ways."""
        end = tail if rule.ends is None else rule.ends[0]
        if len(rule.body) == 1:
            return [[self._fact(head, rule.body[0], end)]]
        ways = np.intersect1d(self.answers(head, rule.body[0]), self.answers(end, self.back(rule.body[1])))
        ways = ways[(ways != head) & (ways != end)][:most]
        return [[self._fact(head, rule.body[0], z), self._fact(z, rule.body[1], end)] for z in ways.tolist()]

    def _fact(self, head: int, relation: int, tail: int) -> tuple[int, int, int]:
        """The fact without a reciprocal relation."""
        back = relation >= self.relations
        return (tail, relation - self.relations, head) if back else (head, relation, tail)

    # -- looking up -----------------------------------------------------------------------------------------------

    @cached_property
    def _by_relation(self) -> tuple[IntArray, IntArray]:
        """The positions of the questions by relation, and where each relation begins."""
        order = np.argsort(self.facts.relation, kind="stable")
        return order, np.searchsorted(self.facts.relation, np.arange(2 * self.relations + 1), sorter=order)

    def _questions(self, relation: int) -> IntArray:
        order, starts = self._by_relation
        return order[starts[relation] : starts[relation + 1]]

    def _heads(self, relation: int) -> IntArray:
        """The entities that are heads of a relation."""
        return self.facts.head[self._questions(relation)].astype(np.int64)

    def _of(self, relation: int) -> tuple[IntArray, IntArray]:
        """The heads and tails of all facts of a relation."""
        some = self.facts.take(self._questions(relation))
        return np.repeat(some.head, some.counts), some.answers

    def _near(self, entity: int) -> tuple[IntArray, IntArray]:
        """The relations and tails of all facts of an entity, in both directions."""
        first, last = np.searchsorted(self.facts.head, [entity, entity + 1])
        begin, end = self.facts.offsets[first], self.facts.offsets[last]
        counts = np.diff(self.facts.offsets[first : last + 1])
        relations = np.repeat(self.facts.relation[first:last].astype(np.int64), counts)
        return relations, self.facts.answers[begin:end].astype(np.int64)

    def answers(self, head: int, relation: int) -> IntArray:
        """The tails of the training facts (head, relation, ?)."""
        return self.facts.known(np.array([head]), np.array([relation])).answers.astype(np.int64)

    def _holds(self, heads: IntArray, relation: int, tails: IntArray) -> NDArray[np.bool_]:
        """For each pair of entities whether the relation holds."""
        own = self.facts.take(self._questions(relation))
        width = len(self._graph.entities)
        codes = np.repeat(own.head.astype(np.int64), own.counts) * width + own.answers
        return np.isin(heads * width + tails, codes)


def best_first(rules: Sequence[Rule]) -> list[Rule]:
    """Rules with enough support by falling confidence."""
    return sorted((rule for rule in rules if rule.support >= LEAST_SUPPORT), key=lambda rule: -rule.confidence)
