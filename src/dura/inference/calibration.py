"""Calibration: turn scores into probabilities and answer sets, with plain numbers that `calibrating` fitted on valid facts.

docs/explanation/probability.md defines the three probabilities. Applying them needs numpy only. A calibration belongs to the tables
that it was fitted for: `checkpoint` names them, and a calibration for other tables must not be used.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from dura.inference.answers import check_coverage
from dura.records import Damage, read_json, remedy, write_atomic
from dura.records.schema import check
from dura.types import BadInput, FloatArray, IntArray

if TYPE_CHECKING:
    from torch import Tensor

FILE = "calibration.json"
FORMAT = 1
"""The newest format of calibration.json that this program reads, and the one it writes."""
FUNCTIONAL = 0.05
"""A relation is functional in a direction if a second answer is as rare as this, compared with a first one.

Of the train questions that have an answer, at most this share has a second one (one added). If facts have times, most questions
have no answer at all, also those of the entities that have one at other times. Then a second answer must be rarer still.
"""
CLOSEST = -1e-7
"""The largest log of a share. A share of 1 would have infinite odds."""
LEVELS = (*(round(0.01 * i, 2) for i in range(1, 100)), 0.995, 0.999)
"""The coverages whose thresholds are stored. Those between are interpolated."""

LOWEST = -1e9
"""The level of sets that hold every answer."""

_REAL = Annotated[float, -1e100, 1e100]
_INDEX = Annotated[int, 0, 2**31]


@dataclass(frozen=True)
class Scale:
    """A logistic map: logit p = a + b·z with b > 0, for each group of relations. `of` is the group of each relation id."""

    of: list[int]
    names: list[str]
    a: list[float]
    b: list[float]

    def logits(self, relation: IntArray, z: FloatArray) -> FloatArray:
        """The logits of values [m, k] or [m] for these relations [m]."""
        group = np.asarray(self.of)[relation]
        a, b = np.asarray(self.a)[group], np.asarray(self.b)[group]
        moved: FloatArray = a[:, None] + b[:, None] * z if z.ndim == 2 else a + b * z
        return moved


@dataclass(frozen=True)
class Sets:
    """For each group of relations the levels (see `Calibration.levels`) that a missing answer reaches with each of `LEVELS`.

    Levels and not logits: only three numbers of them are fitted, so valid and test answers have them in the same way.
    """

    of: list[int]
    names: list[str]
    thresholds: list[list[float]]

    def threshold(self, relation: IntArray, coverage: float) -> FloatArray:
        """The level [m] from which on a new answer belongs to the set. A coverage above all that were fitted has all answers."""
        check_coverage(coverage)
        group = np.asarray(self.of)[relation]
        if coverage > LEVELS[-1]:
            return np.full(len(group), LOWEST)
        found: FloatArray = np.array([np.interp(coverage, LEVELS, row) for row in self.thresholds])[group]
        return found


@dataclass(frozen=True)
class Calibration:
    """What `dura calibrate` fits and `RUN/calibration.json` holds. A relation id r + |R| asks for the head, as everywhere.

    >>> calibration = Calibration.read(Path("runs/mine"))  # doctest: +SKIP
    >>> total = calibration.total(scores)  # [m]; scores [m, |E|] with -inf for known answers  # doctest: +SKIP
    >>> calibration.probabilities(relation, known, total, best)  # [m, k]  # doctest: +SKIP
    """

    temperature: float
    """Scores are divided by it before they become shares."""
    answer_weights: list[float]
    """Intercept, logit of the share, log(1 + known answers)."""
    answers: Scale
    sets: Sets
    second: list[float]
    """For each relation and direction: the share of train questions that have a second answer, with one added."""
    fact_weights: list[float]
    """Intercept and score."""
    facts: Scale
    question_weights: list[float]
    """Intercept, total, log(1 + known answers), whether an answer is known, log(1 + train questions of the relation)."""
    asked: list[int]
    """For each relation and direction: the number of its train questions."""
    first: list[float] = field(default_factory=list)
    """For each relation and direction: the share of questions that have an answer, over the times of its entities; empty: 1."""
    checkpoint: str = ""
    """The SHA-256 of the tables that it was fitted for; empty if they are only in memory."""
    counts: dict[str, int] = field(default_factory=dict)
    """How many facts, questions and groups it was fitted on."""

    # -- answers --------------------------------------------------------------------------------------------------

    def total(self, scores: Tensor) -> FloatArray:
        """The log of the sum of exp(score / temperature) [m] over the new answers. Known answers have the score -inf."""
        total: FloatArray = totals(scores, self.temperature).cpu().numpy()
        return total

    def levels(self, known: IntArray, total: FloatArray, scores: FloatArray) -> FloatArray:
        """The logits [m, k] that new answers would have if all relations were alike."""
        intercept, share, counted = self.answer_weights
        level = intercept + counted * np.log1p(np.asarray(known, dtype=np.float64))
        found: FloatArray = level[:, None] + share * share_logits(
            np.asarray(scores) / self.temperature, np.asarray(total)
        )
        return found

    def logits(self, relation: IntArray, known: IntArray, total: FloatArray, scores: FloatArray) -> FloatArray:
        """The logits [m, k] of new answers with these scores [m, k], before the rule for functional relations.

        `known` [m] is the number of known answers of each question, and `total` [m] comes from `total` over all new answers. Inside
        one question a higher score never has a lower logit.
        """
        return self.answers.logits(np.asarray(relation), self.levels(known, total, scores))

    def probabilities(self, relation: IntArray, known: IntArray, total: FloatArray, scores: FloatArray) -> FloatArray:
        """The probability [m, k] of each new answer, if the question has a missing answer. See `logits` for the arguments.

        An answer that contradicts the known answer of a functional relation has this probability times the relation's share of
        second answers.
        """
        lowered: FloatArray = sigmoid(self.logits(relation, known, total, scores)) * self.most(relation, known)[:, None]
        return lowered

    def told(
        self, relation: IntArray, known: IntArray, total: FloatArray, scores: FloatArray, others: IntArray
    ) -> tuple[FloatArray, NDArray[np.bool_]]:
        """The probability [m, k] of each new answer as users see it, and whether it contradicts a known answer.

        `others` [m, k] is how many answers are known to the other question of each fact: that for which the answer is given. A
        fact may contradict one of these too. Then its probability is at most the share of second answers of that question.
        """
        return self._lowered(relation, known, sigmoid(self.logits(relation, known, total, scores)), others)

    def _lowered(
        self, relation: IntArray, known: IntArray, p: FloatArray, others: IntArray
    ) -> tuple[FloatArray, NDArray[np.bool_]]:
        """The rule for contradictions: probabilities [m, k] after it, and which facts are marked. See `told`."""
        relation, known = np.asarray(relation)[:, None], np.asarray(known)[:, None]
        lowered = np.minimum(p * self.most(relation, known), self.most(self._other(relation), others))
        return lowered, self.either_contradicts(relation, known, others)

    def either_contradicts(self, relation: IntArray, known: IntArray, others: IntArray) -> NDArray[np.bool_]:
        """Whether new facts contradict a known answer to one of their two questions. See `told`; the arrays are broadcast."""
        return self.contradicts(relation, known) | self.contradicts(self._other(relation), others)

    def _other(self, relation: IntArray) -> IntArray:
        """The relation of the other question of a fact."""
        return (relation + len(self.second) // 2) % len(self.second)

    def contradicts(self, relation: IntArray, known: IntArray) -> NDArray[np.bool_]:
        """Whether a new answer contradicts a known one: the relation is functional, and the question has a known answer."""
        marked: NDArray[np.bool_] = self._functional[relation] & (np.asarray(known) > 0)
        return marked

    def most(self, relation: IntArray, known: IntArray) -> FloatArray:
        """The largest probability that a new answer can have: the share of second answers if it contradicts a known one."""
        found: FloatArray = np.where(self.contradicts(relation, known), np.asarray(self.second)[relation], 1.0)
        return found

    @cached_property
    def _functional(self) -> NDArray[np.bool_]:
        return functional(np.asarray(self.second), np.asarray(self.first or [1.0] * len(self.second)))

    def least_score(self, relation: IntArray, known: IntArray, total: FloatArray, coverage: float) -> FloatArray:
        """The score [m] from which on a new answer belongs to the set that covers a missing answer with this probability."""
        intercept, share, counted = self.answer_weights
        level = intercept + counted * np.log1p(np.asarray(known, dtype=np.float64))
        logit = (self.sets.threshold(np.asarray(relation), coverage) - level) / share
        least: FloatArray = self.temperature * (np.asarray(total) - np.logaddexp(0.0, -logit))
        return least

    # -- questions and facts --------------------------------------------------------------------------------------

    def question_probabilities(self, relation: IntArray, known: IntArray, total: FloatArray) -> FloatArray:
        """The probability [m] that a question has a missing answer at all."""
        counted = np.asarray(known, dtype=np.float64)
        columns = [total, np.log1p(counted), counted > 0, np.log1p(np.asarray(self.asked)[relation])]
        return sigmoid(self.question_weights[0] + np.stack(columns, axis=1) @ np.asarray(self.question_weights[1:]))

    def fact_probabilities(self, relation: IntArray, scores: FloatArray) -> FloatArray:
        """The probability [m] that a fact is true rather than a random alternative, with even odds before its score is seen."""
        z = self.fact_weights[0] + self.fact_weights[1] * np.asarray(scores, dtype=np.float64)
        return sigmoid(self.facts.logits(np.asarray(relation), z))

    def facts_told(
        self, relation: IntArray, scores: FloatArray, known: IntArray, others: IntArray
    ) -> tuple[FloatArray, NDArray[np.bool_]]:
        """The probability [m] of each given fact as users see it, and whether it contradicts a known answer.

        The rule is that of answers. `known` and `others` [m] are how many answers are known to the two questions of each fact. Only
        new facts may be marked.
        """
        p = self.fact_probabilities(relation, scores)
        lowered, marks = self._lowered(relation, known, p[:, None], others[:, None])
        return lowered[:, 0], marks[:, 0]

    # -- the file -------------------------------------------------------------------------------------------------

    def write(self, run: Path) -> Path:
        """Write calibration.json into a run folder."""
        path = run / FILE
        write_atomic(path, json.dumps({"format": FORMAT, **asdict(self)}, allow_nan=False).encode())
        return path

    @classmethod
    def read(cls, run: Path) -> Calibration:
        """The calibration in a run folder. The error is `Missing` if there is none, and `Damage` if it cannot be used."""
        path = run / FILE
        with remedy(f"make it again with: dura calibrate {run}"):
            found = read_json(run, FILE)
            try:
                if isinstance(found, dict):
                    found.setdefault("first", [])  # older files have no times to look at
                check(found, _SCHEMA)
                if found["format"] > FORMAT:
                    raise BadInput(f"its format is {found['format']}, but this program reads up to {FORMAT}")
                _check_sizes(found)
            except BadInput as error:
                raise Damage(f"{path} is damaged: {error}") from None
        kinds: dict[str, type[Scale | Sets]] = {"answers": Scale, "facts": Scale, "sets": Sets}
        found |= {name: kind(**{f.name: found[name][f.name] for f in fields(kind)}) for name, kind in kinds.items()}
        return cls(**{f.name: found[f.name] for f in fields(cls)})


def functional(second: FloatArray, first: FloatArray) -> NDArray[np.bool_]:
    """Which relations are functional, by direction.

    >>> functional(np.array([0.01, 0.01, 0.5]), np.array([1.0, 0.1, 1.0])).tolist()
    [True, False, False]
    """
    found: NDArray[np.bool_] = second <= FUNCTIONAL * first
    return found


def against_others(functional: NDArray[np.bool_], relation: IntArray, others: IntArray) -> NDArray[np.bool_]:
    """Which answers [m, k] contradict what is known about themselves: the known answers [m, k] of their other questions.

    >>> against_others(np.array([False, True]), np.array([0, 1]), np.array([[0, 1], [0, 1]])).tolist()
    [[False, True], [False, False]]
    """
    half = len(functional) // 2
    marked: NDArray[np.bool_] = functional[(relation + half) % (2 * half)][:, None] & (others > 0)
    return marked


def totals(scores: Tensor, temperature: float) -> Tensor:
    """The log of the sum of exp(score / temperature) over each row [m]; 0 if every score of a row is -inf."""
    total = (scores.double() / temperature).logsumexp(dim=1)
    return total.masked_fill(total == -math.inf, 0.0)


def sigmoid(logits: FloatArray) -> FloatArray:
    """1 / (1 + exp(-x)), without overflow.

    >>> sigmoid(np.array([-1000.0, 0.0])).tolist()
    [0.0, 0.5]
    """
    p: FloatArray = np.exp(-np.logaddexp(0.0, -np.asarray(logits, dtype=np.float64)))
    return p


def share_logits(scaled: FloatArray, total: FloatArray) -> FloatArray:
    """The logit of the share exp(scaled - total) [m, k] of each answer in its question.

    >>> share_logits(np.array([[np.log(3.0), 0.0]]), np.array([np.log(4.0)])).round(4).tolist()
    [[1.0986, -1.0986]]
    """
    share = np.minimum(scaled.astype(np.float64) - total[:, None], CLOSEST)
    logits: FloatArray = share - np.log(-np.expm1(share))
    return logits


_SCALE = {"of": [_INDEX], "names": [str], "a": [_REAL], "b": [Annotated[float, 1e-6, 1e100]]}
_SCHEMA = {
    "format": Annotated[int, 1, 2**31],
    "temperature": Annotated[float, 1e-100, 1e100],
    "answer_weights": [_REAL],
    "answers": _SCALE,
    "sets": {"of": [_INDEX], "names": [str], "thresholds": [[_REAL]]},
    "second": [Annotated[float, 0, 1]],
    "first": [Annotated[float, 0, 1]],
    "fact_weights": [_REAL],
    "facts": _SCALE,
    "question_weights": [_REAL],
    "asked": [_INDEX],
    "checkpoint": str,
    "counts": {"*": _INDEX},
}


def _check_sizes(found: dict[str, Any]) -> None:
    """Compare the lengths of lists that belong together."""
    relations = len(found["second"])
    expected = {"answer_weights": 3, "fact_weights": 2, "question_weights": 5, "asked": relations}
    expected |= {"first": relations} if found["first"] else {}
    for name, length in expected.items():
        if len(found[name]) != length:
            raise BadInput(f"{name} must have {length} numbers, not {len(found[name])}")
    for name in ("answers", "facts", "sets"):
        own = found[name]
        groups = len(own["names"])
        if len(own["of"]) != relations or any(len(own[key]) != groups for key in own.keys() & {"a", "b", "thresholds"}):
            raise BadInput(f"the lists of {name} do not have the same length")
        if any(group >= groups for group in own["of"]):
            raise BadInput(f"{name}.of names a group that does not exist")
    if any(len(row) != len(LEVELS) for row in found["sets"]["thresholds"]):
        raise BadInput(f"the rows of sets.thresholds must have {len(LEVELS)} numbers")
