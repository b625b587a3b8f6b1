"""Projection: are answers to the same question near each other? Pictures (t-SNE) and the numbers that go with them.

The points are the answers' rows as tails. An entity that answers several of the questions belongs to none of them alone: it takes
part in the picture, and is left out of the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dura.data.graph import Graph
from dura.data.questions import Questions
from dura.types import BadInput, DuraError, FloatArray, IntArray

Rows = NDArray[np.floating[Any]]
SEVERAL = -1
"""The question of an entity that answers several."""
PERPLEXITY = 30.0
TRIES = 20
"""Large questions of a small graph share most of their answers: the first one drawn may leave no room for others."""

PAPER = (
    ("political drama", "/media_common/netflix_genre/titles"),
    ("Academy Award for Best Original Song", "/award/award_category/winners./award/award_honor/ceremony"),
    ("Germany", "/location/location/contains"),
    # The paper writes "doctoral degree"; of the heads of this relation the only such one with over 50 answers is this.
    ("Doctorate", "/education/educational_degree/people_with_this_degree./education/education/major_field_of_study"),
    ("broccoli", "/food/food/nutrients./food/nutrition_fact/nutrient"),
    ("shooting sport", "/olympics/olympic_sport/athletes./olympics/olympic_athlete_affiliation/country"),
    ("synthpop", "/music/genre/artists"),
    ("Italian American", "/people/ethnicity/people"),
    ("organ", "/music/performance_role/track_performances./music/track_contribution/role"),
    ("funk", "/music/genre/artists"),
)
"""The ten questions of the paper's figure: label of the head (small and capital letters are the same), relation of FB15k-237."""


def paper_questions(graph: Graph) -> Questions | None:
    """The paper's ten with their known answers; None where the graph has no such labels, relations or facts."""
    named: dict[str, list[int]] = {label.lower(): [] for label, _ in PAPER}
    for entity, label in graph.labels.items():
        if label.lower() in named and entity in graph.entities:
            named[label.lower()].append(graph.entities.id(entity))
    found = []
    for label, relation in PAPER:
        entities = named[label.lower()]
        if not entities or relation not in graph.relations:
            return None
        at = graph.known_ever.find(np.array(entities), np.full(len(entities), graph.relations.id(relation)))
        if not (at >= 0).any():
            return None
        found.append(int(at.max()))
    return graph.known_ever.take(np.array(found))


def drawn_questions(graph: Graph, seed: int = 0, *, number: int = 10, more_than: int = 50) -> Questions:
    """Questions of either side drawn among those with more than so many known answers (at any time, where facts have times).

    One is passed over where it would leave a drawn question with less than half of its answers for itself alone. Where that leaves
    too few, others are drawn; what came nearest to the number counts.
    """
    known, rng = graph.known_ever, np.random.default_rng(seed)
    large = np.flatnonzero(known.counts > more_than)
    best: list[int] = []
    for _ in range(TRIES):
        drawn: list[int] = []
        for at in rng.permutation(large).tolist():
            if len(drawn) < number and own_shares(known.take(np.array([*drawn, at]))).min() >= 0.5:
                drawn.append(at)
        best = max(best, drawn, key=len)
        if len(best) == number:
            break
    if len(best) < 2:
        which = (
            "of which no two keep half of their answers to themselves" if len(large) > 1 else "too few for a picture"
        )
        raise BadInput(
            f"the graph {graph.name!r} has {len(large)} questions with more than {more_than} answers, {which}; "
            "ask for fewer answers with --more-than, or name questions with --questions FILE"
        )
    return known.take(np.array(best))


def own_shares(questions: Questions) -> FloatArray:
    """For each question the share of its answers that answer no other of them.

    >>> one, two = np.array([0, 0]), np.array([0, 2, 3])
    >>> own_shares(Questions(one, one, two, np.array([5, 6, 6]))).tolist()
    [0.5, 0.0]
    """
    alone = np.bincount(questions.answers)[questions.answers] == 1
    shares: FloatArray = np.add.reduceat(alone, questions.offsets[:-1], dtype=np.float64) / questions.counts
    return shares


@dataclass(frozen=True)
class Points:
    """The entities of a picture, each once and ascending, and the position of the question that each answers (or SEVERAL)."""

    entity: IntArray
    question: IntArray


def answer_points(questions: Questions, most: int = 200, seed: int = 0) -> Points:
    """The answers of all questions, of each at most so many, drawn where it has more."""
    rng = np.random.default_rng(seed)
    parts = np.split(questions.answers, questions.offsets[1:-1])
    taken = [part if len(part) <= most else np.sort(rng.choice(part, most, replace=False)) for part in parts]
    entity, first = np.unique(np.concatenate(taken), return_index=True)
    asked = np.repeat(np.arange(len(taken)), [len(part) for part in taken])[first]
    several = np.bincount(questions.answers)[entity] > 1
    points = Points(entity, np.where(several, SEVERAL, asked))
    sizes = np.bincount(points.question[~several], minlength=len(taken))
    if sizes.min() < 2:
        raise BadInput(
            f"question {int(sizes.argmin()) + 1} has {int(sizes.min())} answers that answer no other of the questions, "
            "but 2 at least are needed to say how near they are; leave it out or take others"
        )
    return points


@dataclass(frozen=True)
class Nearness:
    """How near the answers of one question are to each other, beside those of the others.

    Silhouettes are between −1 and 1; above 0 the answers of the same question are nearer than those of the next one. `within` is
    the mean cosine of two answers of a question, one number a question; `between` that of answers of two questions, each pair of
    questions counting the same.
    """

    silhouette_cosine: float
    silhouette_euclidean: float
    silhouette_picture: float
    within: tuple[float, ...]
    between: float


def nearness(rows: Rows, question: IntArray, picture: Rows) -> Nearness:
    """The numbers of rows [n, w] that answer these questions, and of their picture [n, 2]; those that answer SEVERAL are left out.

    The picture's silhouette is Euclidean: t-SNE keeps neighbours, not angles.
    """
    one = question != SEVERAL
    rows, picture, question = rows[one].astype(np.float64), picture[one], question[one]
    within, between = cosines(rows, question)
    with _one_thread():
        from sklearn.metrics import silhouette_score  # type: ignore[import-untyped]

        return Nearness(
            silhouette_cosine=float(silhouette_score(rows, question, metric="cosine")),
            silhouette_euclidean=float(silhouette_score(rows, question)),
            silhouette_picture=float(silhouette_score(picture, question)),
            within=tuple(within.tolist()),
            between=between,
        )


def cosines(rows: Rows, question: IntArray) -> tuple[FloatArray, float]:
    """The mean cosine of two rows of the same question, for each question, and of rows of two questions, over pairs of questions.

    >>> within, between = cosines(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([0, 0, 1, 1]))
    >>> within.round(3).tolist(), round(between, 3)
    ([1.0, 0.707], 0.354)
    """
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    units = rows / np.maximum(lengths, np.finfo(np.float64).tiny)
    kinds, sizes = np.unique(question, return_counts=True)
    sums = np.stack([units[question == kind].sum(0) for kind in kinds])
    selves = np.array([np.square(units[question == kind]).sum() for kind in kinds])
    products = sums @ sums.T
    within = (np.diag(products) - selves) / (sizes * (sizes - 1))
    means = products / np.outer(sizes, sizes)
    return within, float(means[~np.eye(len(kinds), dtype=bool)].mean())


def picture(rows: Rows, seed: int = 0) -> FloatArray:
    """The rows in two dimensions by t-SNE, with a PCA to start from; the same seed gives the same picture."""
    if np.ptp(rows, axis=0).max() == 0:
        raise DuraError("all answers have the same row, so there is nothing to see: this model has collapsed")
    with _one_thread():
        from sklearn.manifold import TSNE  # type: ignore[import-untyped]

        perplexity = min(PERPLEXITY, (len(rows) - 1) / 3)
        found: FloatArray = TSNE(perplexity=perplexity, random_state=seed, n_jobs=1).fit_transform(rows)
    return found.astype(np.float64)


@contextmanager
def _one_thread() -> Iterator[None]:
    """scikit-learn's threads and torch's would wait for each other; and the same seed must give the same numbers."""
    try:
        import sklearn  # type: ignore[import-untyped] # noqa: F401
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
    except ImportError:
        raise DuraError("projections need scikit-learn; install it with: pip install 'dura-kge[studies]'") from None
    with threadpool_limits(1):
        yield
