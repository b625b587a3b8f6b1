"""Rules: short regularities of the training facts, with how often they hold.

The rules of a relation r have four forms. Each s may also be followed from its tail to its head.

    r(x, y) if s(x, y)               r(x, y) if s(x, z) and u(z, y)               r(x, c) if s(x, d)
    r(x, y) if s(x, z) and u(z, w) and v(w, y), with four different entities: for `THOROUGH` miners of sparse graphs

`mine` finds them and `apply` asks them. No model is needed. Bodies without constants are found at a sample of the relation's
facts. Then each one is counted: at all entities, or at a sample if it holds too often. Rules ignore times: a fact counts if it
holds at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dura.data.graph import Graph
from dura.inference.paths import MOST_HEADS, Paths
from dura.types import FloatArray, IntArray

MOST_FIRING = 30
"""How many bodies are counted for one answer."""
LEAST_SUPPORT = 2
"""Rules that were right less often are left out."""
CAUTION = 5
"""The confidence of a rule is support / (times + this), so that rules with few cases do not come first."""


@dataclass(frozen=True)
class Effort:
    """How thoroughly rules are looked for."""

    facts: int = 300
    """At how many facts of the relation bodies are looked for."""
    bodies: int = 100
    """How many bodies are counted, those first that hold at most of the facts that were looked at. Also how many rules with
    constants each answer has at most."""
    answers: int = 50
    """For how many answers, the most frequent ones, `mine` looks for rules with constants."""
    longer: int = 0
    """How many bodies of three relations are counted, if the graph has few facts per entity."""


QUICK, THOROUGH = Effort(), Effort(facts=1000, bodies=300, answers=150, longer=100)
"""For a single explanation, and for rules that answer all questions of a relation."""
FEW_FACTS = 10.0
"""Graphs with fewer facts per entity than this may have bodies of three relations. In others there are too many."""


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
    """The training facts of a graph, ready for rules. It keeps the bodies that it has counted."""

    def __init__(self, graph: Graph, *, seed: int = 0, effort: Effort = QUICK) -> None:
        self.paths = Paths(graph, seed)
        self._seed, self._effort = seed, effort
        self._counted: dict[tuple[int, tuple[int, ...]], Rule] = {}
        self._bodies: dict[int, list[tuple[int, ...]]] = {}

    # -- mining ---------------------------------------------------------------------------------------------------

    def mine(self, relation: int) -> list[Rule]:
        """All rules of a relation, by falling confidence. Rules with constants are those of its most frequent answers."""
        rules = [self.count(relation, body) for body in self.bodies(relation)]
        answers, often = np.unique(self.paths.of(relation)[1], return_counts=True)
        for answer in answers[np.argsort(-often, kind="stable")[: self._effort.answers]].tolist():
            rules += self.constants(relation, answer)
        return best_first(rules)

    def bodies(self, relation: int) -> list[tuple[int, ...]]:
        """The bodies that hold at most of the facts that were looked at, at least at two. Those of three relations come last."""
        if relation in self._bodies:
            return self._bodies[relation]
        heads, tails = self.paths.of(relation)
        rng, most = np.random.default_rng([self._seed, relation]), self._effort.facts
        some = np.arange(len(heads)) if len(heads) <= most else rng.choice(len(heads), most, replace=False)
        pairs = [(int(heads[i]), int(tails[i])) for i in some]
        found = self._frequent([self.paths.between(*pair, relation) for pair in pairs], self._effort.bodies)
        if self._effort.longer and self.paths.facts.facts < 2 * FEW_FACTS * self.paths.entities:
            found += self._frequent([self.paths.longer(*pair) for pair in pairs], self._effort.longer)
        self._bodies[relation] = found
        return found

    def _frequent(self, found: Sequence[IntArray], most: int) -> list[tuple[int, ...]]:
        """The most frequent bodies of these codes."""
        codes, often = np.unique(np.concatenate([np.zeros(0, np.int64), *found]), return_counts=True)
        best = np.argsort(-often, kind="stable")
        best = best[often[best] >= LEAST_SUPPORT][:most]
        return [self.paths.body(code) for code in codes[best].tolist()]

    def count(self, relation: int, body: tuple[int, ...]) -> Rule:
        """The rule r(x, y) if body(x, y), counted."""
        key = relation, body
        if key not in self._counted:
            heads, tails, sampled = self.paths.pairs(body)
            right = self.paths.hold(heads, relation, tails)
            self._counted[key] = Rule(relation, body, None, int(right.sum()), len(heads), sampled)
        return self._counted[key]

    def constants(self, relation: int, answer: int) -> list[Rule]:
        """The rules r(x, answer) if s(x, d), for every s and d that hold at two or more heads of the answer."""
        heads = self.paths.answers(answer, self.paths.back(relation))
        rng = np.random.default_rng([self._seed, relation, answer])
        share = min(1.0, MOST_HEADS / max(1, len(heads)))
        seen = rng.choice(heads, MOST_HEADS, replace=False) if share < 1 else heads
        near = [self.paths.near(int(head)) for head in seen]
        if not near:
            return []
        width = 2 * self.paths.relations
        codes, support = np.unique(np.concatenate([d * width + s for s, d in near]), return_counts=True)
        codes, support = codes[support >= LEAST_SUPPORT], support[support >= LEAST_SUPPORT]
        d, s = np.divmod(codes, width)
        keep = (d != answer) | (s != relation)
        d, s, support = d[keep], s[keep], np.rint(support[keep] / share).astype(np.int64)
        at = self.paths.facts.find(d, (s + self.paths.relations) % width)
        times = self.paths.facts.offsets[at + 1] - self.paths.facts.offsets[at]
        support = np.minimum(support, times)
        best = np.argsort(-support / (times + CAUTION), kind="stable")[: self._effort.bodies]
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
        near = set(zip(*(column.tolist() for column in self.paths.near(head)), strict=True))
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

    def _ends(self, rule: Rule, head: int, near: set[tuple[int, int]]) -> list[int]:
        """The answers that one rule gives. `near` are the relations and tails of all facts of the head."""
        if rule.ends is not None:
            return [rule.ends[1]] if (rule.body[0], rule.ends[0]) in near else []
        found: list[int] = self.paths.ends(rule.body, np.array([head]))[1].tolist()
        return found

    def firing(self, relation: int, head: int, tail: int) -> list[Rule]:
        """The rules of one or two relations that give `tail` as an answer to (head, relation, ?), by falling confidence."""
        here = set(self.paths.between(head, tail, relation).tolist())
        bodies = [body for body in self.bodies(relation) if self.paths.code(body) in here][:MOST_FIRING]
        near = set(zip(*(column.tolist() for column in self.paths.near(head)), strict=True))
        own = [rule for rule in self.constants(relation, tail) if rule.ends and (rule.body[0], rule.ends[0]) in near]
        return best_first([*(self.count(relation, body) for body in bodies), *own])

    def instances(self, rule: Rule, head: int, tail: int, most: int) -> list[list[tuple[int, int, int]]]:
        """The facts that make a body of one or two relations true for this answer: a list per way, at most this many ways."""
        end = tail if rule.ends is None else rule.ends[0]
        if len(rule.body) == 1:
            return [[self.paths.fact(head, rule.body[0], end)]]
        ways = np.intersect1d(
            self.paths.answers(head, rule.body[0]), self.paths.answers(end, self.paths.back(rule.body[1]))
        )
        ways = ways[(ways != head) & (ways != end)][:most]
        return [[self.paths.fact(head, rule.body[0], z), self.paths.fact(z, rule.body[1], end)] for z in ways.tolist()]


def best_first(rules: Sequence[Rule]) -> list[Rule]:
    """Rules with enough support by falling confidence."""
    return sorted((rule for rule in rules if rule.support >= LEAST_SUPPORT), key=lambda rule: -rule.confidence)
