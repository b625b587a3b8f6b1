"""Reliability: how far probabilities can be trusted, measured on the test facts, before and after calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dura.data.graph import Graph
from dura.inference.calibration import Calibration, share_logits, sigmoid
from dura.inference.observing import MOST, Observed, Progress, observe, pairs, questions_of_test
from dura.models import Model
from dura.types import FloatArray, IntArray

BINS = 15
"""ECE divides probabilities into this many bins of equal width."""
COVERAGES = (0.5, 0.8, 0.9, 0.95)


@dataclass(frozen=True)
class Reliability:
    """Brier score, expected calibration error (ECE) and reliability diagram of some probabilities."""

    count: int
    share: float
    """The share of them that came true."""
    brier: float
    ece: float
    bins: tuple[tuple[float, float, int], ...]
    """For each bin with entries: the mean probability, the share that came true, and the number of entries."""

    @classmethod
    def of(cls, p: FloatArray, true: NDArray[np.bool_]) -> Reliability:
        """Compare probabilities with what is true.

        >>> Reliability.of(np.array([0.9, 0.9, 0.1, 0.1]), np.array([True, True, False, True])).ece
        0.25
        """
        place = np.minimum((p * BINS).astype(np.int64), BINS - 1)
        counts = np.bincount(place, minlength=BINS)
        means = np.bincount(place, p, minlength=BINS)
        shares = np.bincount(place, true, minlength=BINS)
        rows = tuple(
            (float(mean / n), float(hits / n), int(n)) for mean, hits, n in zip(means, shares, counts, strict=True) if n
        )
        ece = float(np.abs(means - shares).sum() / max(1, len(p)))
        brier = float(np.mean((p - true) ** 2)) if len(p) else 0.0
        return cls(len(p), float(np.mean(true)) if len(p) else 0.0, brier, ece, rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        bins = [{"probability": p, "share": share, "count": count} for p, share, count in self.bins]
        return {"count": self.count, "share": self.share, "brier": self.brier, "ece": self.ece, "bins": bins}


@dataclass(frozen=True)
class Compared:
    """The same answers or facts before and after calibration."""

    before: Reliability
    after: Reliability

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"before": self.before.to_dict(), "after": self.after.to_dict()}


@dataclass(frozen=True)
class Covered:
    """The answer sets of one coverage on the test facts: the share of missing answers in them, and their sizes."""

    asked: float
    measured: float
    mean_size: float
    median_size: float


@dataclass(frozen=True)
class Measured:
    """What probabilities are worth on the test facts.

    An answer that is not in test counts as wrong. In an open world it may be true, so the shares that came true are lower bounds.
    """

    top10: Compared
    top1: Compared
    facts: Compared
    sets: tuple[Covered, ...]
    marked: Reliability
    """The best ten answers that contradict a known answer of a functional relation."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "answers": {"top10": self.top10.to_dict(), "top1": self.top1.to_dict()},
            "facts": self.facts.to_dict(),
            "sets": [dict(vars(one)) for one in self.sets],
            "contradicting": self.marked.to_dict(),
        }


def measure(
    model: Model,
    graph: Graph,
    calibration: Calibration,
    coverages: Sequence[float] = COVERAGES,
    *,
    most: int = MOST,
    progress: Progress | None = None,
) -> Measured:
    """Measure a calibration on the test facts. Answers known from train and valid are left out."""

    def thresholds(relation: IntArray, known: IntArray, total: FloatArray) -> FloatArray:
        return np.stack([calibration.least_score(relation, known, total, c) for c in coverages], axis=1)

    asked = questions_of_test(graph, most)
    seen = observe(model, asked, calibration.temperature, thresholds=thresholds, progress=progress)
    raw, p, marks = _best_ten(calibration, seen)
    there = np.isfinite(seen.scores[:, :10])
    true = seen.true[:, :10]
    facts = pairs(model, graph, "test", most=most, seed=1)
    after, _ = calibration.facts_told(facts.relation, facts.scores, facts.known, facts.others)
    marked = there & marks
    return Measured(
        top10=Compared(Reliability.of(raw[there], true[there]), Reliability.of(p[there], true[there])),
        top1=Compared(
            Reliability.of(raw[:, :1][there[:, :1]], true[:, :1][there[:, :1]]),
            Reliability.of(p[:, :1][there[:, :1]], true[:, :1][there[:, :1]]),
        ),
        facts=Compared(Reliability.of(sigmoid(facts.scores), facts.true), Reliability.of(after, facts.true)),
        sets=tuple(_covered(calibration, seen, at, coverage) for at, coverage in enumerate(coverages)),
        marked=Reliability.of(p[marked], true[marked]),
    )


def _best_ten(calibration: Calibration, seen: Observed) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """The plain and the calibrated probabilities of the best ten answers of each question, and which answers are marked."""
    scores = seen.scores[:, :10]
    raw = sigmoid(share_logits(scores, seen.plain))
    p, marks = calibration.told(seen.relation, seen.known, seen.total, scores, seen.across[:, :10])
    return raw, p, marks


def _covered(calibration: Calibration, seen: Observed, at: int, coverage: float) -> Covered:
    least = calibration.least_score(seen.relation, seen.known, seen.total, coverage)
    inside = seen.truth >= least[seen.question]
    sizes = seen.sizes[:, at]
    return Covered(coverage, float(inside.mean()), float(sizes.mean()), float(np.median(sizes)))
