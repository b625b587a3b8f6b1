"""Projection: are answers to the same question near each other? Coordinates for a figure (t-SNE), and numbers.

The rows are those of the answers as tails. An entity that answers several of the questions belongs to none of them alone: it is in
the figure, but not in the numbers.
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

Floats = NDArray[np.floating[Any]]
SEVERAL = -1
"""The question of an entity that answers several questions."""
PERPLEXITY = 30.0
TRIES = 20
"""How often to draw. In a small graph large questions share most answers, so the first one drawn may exclude the others."""

PAPER = (
    ("political drama", "/media_common/netflix_genre/titles"),
    ("Academy Award for Best Original Song", "/award/award_category/winners./award/award_honor/ceremony"),
    ("Germany", "/location/location/contains"),
    # The paper writes "doctoral degree"; this is the only such head of the relation with more than 50 answers.
    ("Doctorate", "/education/educational_degree/people_with_this_degree./education/education/major_field_of_study"),
    ("broccoli", "/food/food/nutrients./food/nutrition_fact/nutrient"),
    ("shooting sport", "/olympics/olympic_sport/athletes./olympics/olympic_athlete_affiliation/country"),
    ("synthpop", "/music/genre/artists"),
    ("Italian American", "/people/ethnicity/people"),
    ("organ", "/music/performance_role/track_performances./music/track_contribution/role"),
    ("funk", "/music/genre/artists"),
)
"""The ten questions of the paper's figure: label of the head (in any case), relation of FB15k-237."""


def paper_questions(graph: Graph) -> Questions | None:
    """The paper's ten questions with their known answers. None if the graph lacks these labels, relations or facts."""
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
    """Draw questions of either side that have more than `more_than` known answers (at any time, if facts have times).

    In each drawn question at least half of the answers must answer none of the other drawn questions: a question that would break
    this rule is skipped. If too few are left, the draw is repeated, and the largest draw is returned.
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
            "but in each pair of them one shares more than half of its answers with the other"
            if len(large) > 1
            else "too few for a figure"
        )
        raise BadInput(
            f"the graph {graph.name!r} has {len(large)} questions with more than {more_than} answers, {which}; "
            "lower --more-than, or name the questions with --questions FILE"
        )
    return known.take(np.array(best))


def own_shares(questions: Questions) -> FloatArray:
    """For each question, the share of its answers that answer none of the others.

    >>> one, two = np.array([0, 0]), np.array([0, 2, 3])
    >>> own_shares(Questions(one, one, two, np.array([5, 6, 6]))).tolist()
    [0.5, 0.0]
    """
    alone = np.bincount(questions.answers)[questions.answers] == 1
    shares: FloatArray = np.add.reduceat(alone, questions.offsets[:-1], dtype=np.float64) / questions.counts
    return shares


@dataclass(frozen=True)
class Shown:
    """The entities of a figure, each once and ascending, and the position of the question that each answers (or SEVERAL)."""

    entity: IntArray
    question: IntArray


def shown_answers(questions: Questions, most: int = 200, seed: int = 0) -> Shown:
    """The answers to all questions. If a question has more than `most` answers, `most` of them are drawn."""
    rng = np.random.default_rng(seed)
    parts = np.split(questions.answers, questions.offsets[1:-1])
    taken = [part if len(part) <= most else np.sort(rng.choice(part, most, replace=False)) for part in parts]
    entity, first = np.unique(np.concatenate(taken), return_index=True)
    asked = np.repeat(np.arange(len(taken)), [len(part) for part in taken])[first]
    several = np.bincount(questions.answers)[entity] > 1
    shown = Shown(entity, np.where(several, SEVERAL, asked))
    sizes = np.bincount(shown.question[~several], minlength=len(taken))
    if sizes.min() < 2:
        raise BadInput(
            f"question {int(sizes.argmin()) + 1} has {int(sizes.min())} answers that answer none of the other questions, "
            "but at least 2 are needed to say how near they are; leave it out or choose other questions"
        )
    return shown


@dataclass(frozen=True)
class Nearness:
    """How near the answers of one question are to each other, compared with the answers of other questions.

    Silhouettes are between −1 and 1; above 0, answers of the same question are nearer than those of the nearest other question.
    `within` is the mean cosine of two answers to the same question, one number per question. `between` is the mean cosine of
    answers to two questions; each pair of questions counts the same.
    """

    silhouette_cosine: float
    silhouette_euclidean: float
    silhouette_picture: float
    within: tuple[float, ...]
    between: float


def nearness(rows: Floats, question: IntArray, drawn: Floats) -> Nearness:
    """The nearness of rows [n, w] that answer these questions, and of their coordinates `drawn` [n, 2], without SEVERAL.

    The silhouette of the coordinates is Euclidean: t-SNE keeps neighbours, not angles.
    """
    one = question != SEVERAL
    rows, drawn, question = rows[one].astype(np.float64), drawn[one], question[one]
    within, between = cosines(rows, question)
    with _one_thread():
        from sklearn.metrics import silhouette_score  # type: ignore[import-untyped]

        return Nearness(
            silhouette_cosine=float(silhouette_score(rows, question, metric="cosine")),
            silhouette_euclidean=float(silhouette_score(rows, question)),
            silhouette_picture=float(silhouette_score(drawn, question)),
            within=tuple(within.tolist()),
            between=between,
        )


def cosines(rows: Floats, question: IntArray) -> tuple[FloatArray, float]:
    """The mean cosine of two rows of the same question, per question, and that of rows of two questions, over pairs of questions.

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


def coordinates(rows: Floats, seed: int = 0) -> FloatArray:
    """The rows in two dimensions by t-SNE, which starts from a PCA. The same seed gives the same coordinates."""
    if np.ptp(rows, axis=0).max() == 0:
        raise DuraError("all answers have the same embedding, so there is nothing to show: the model has collapsed")
    with _one_thread():
        from sklearn.manifold import TSNE  # type: ignore[import-untyped]

        perplexity = min(PERPLEXITY, (len(rows) - 1) / 3)
        found: FloatArray = TSNE(perplexity=perplexity, random_state=seed, n_jobs=1).fit_transform(rows)
    return found.astype(np.float64)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread: those of scikit-learn and torch would wait for each other, and the same seed must give the same numbers."""
    try:
        import sklearn  # type: ignore[import-untyped] # noqa: F401
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
    except ImportError:
        raise DuraError("projections need scikit-learn; install it with: pip install 'dura-kge[studies]'") from None
    with threadpool_limits(1):
        yield
