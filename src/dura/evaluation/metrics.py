"""Metrics of a set of ranks: over all of them, or by side, relation or relation category."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dura.data.categories import CATEGORIES
from dura.types import SIDES, BadInput, Metrics, Ranks, Ties

HITS = (1, 3, 10)
Group = Literal["side", "relation", "category", "category-side"]
GROUPS: tuple[Group, ...] = get_args(Group)


def metrics(ranks: Ranks, ties: Ties = "realistic") -> Metrics:
    """MRR, Hits@1/3/10, mean rank and adjusted mean rank index of a set of ranks.

    For ranks of both sides of every fact these are the means of the two sides. Hits count ranks ≤ k, also if equal rivals make a
    rank end in a half. The adjusted mean rank index is 1 for a perfect model and 0 for guessing (also if no truth has a rival). It
    does not depend on the number of candidates.
    """
    if not len(ranks):
        raise BadInput("there are no ranks to compute metrics of; rank at least one fact")
    values = ranks.ranks(ties)
    # Guessing gives the middle of the candidates. The result of fsum does not depend on the order of the facts.
    above = fsum(values - 1)
    above_by_guessing = fsum((ranks.candidates - 1) / 2)
    return Metrics(
        mrr=fsum(1 / values) / len(values),
        hits={k: np.count_nonzero(values <= k) / len(values) for k in HITS},
        mean_rank=1 + above / len(values),
        amri=1 - above / above_by_guessing if above_by_guessing else 0.0,
        ranks=len(values),
    )


def by(
    ranks: Ranks,
    group: Group,
    *,
    relations: Sequence[str] | None = None,
    categories: Sequence[str] | NDArray[np.str_] | None = None,
    ties: Ties = "realistic",
) -> dict[str, Metrics]:
    """The metrics of each group of ranks. Groups without ranks are left out.

    `side` separates tails and heads. `relation` uses the names in `relations`, or ids. `category` and `category-side` need the
    category of each relation in `categories`, as `relation_categories` gives it.

    >>> one = np.array([0, 0])
    >>> ranks = Ranks(one, one, one, np.array([0, 1]), np.array([0, 3]), one, np.array([9, 9]))
    >>> {name: m.mrr for name, m in by(ranks, "side").items()}
    {'tail': 1.0, 'head': 0.25}
    """
    if group not in GROUPS:
        raise BadInput(f"metrics by {group!r} are not known; known are {', '.join(GROUPS)}")
    labels, names = _labels(ranks, group, relations, categories)
    order = np.argsort(labels, kind="stable")
    present, starts = np.unique(labels[order], return_index=True)
    parts = np.split(order, starts)[1:]
    return {names[label]: metrics(ranks.select(part), ties) for label, part in zip(present, parts, strict=True)}


def _labels(
    ranks: Ranks,
    group: Group,
    relations: Sequence[str] | None,
    categories: Sequence[str] | NDArray[np.str_] | None,
) -> tuple[NDArray[np.int64], list[str]]:
    """A group number for each rank, and the name of each number, in the order in which groups are shown."""
    side, relation = ranks.side.astype(np.int64), ranks.relation.astype(np.int64)
    if group == "side":
        return side, list(SIDES)
    if group == "relation":
        return relation, list(relations or map(str, range(int(relation.max(initial=0)) + 1)))
    if categories is None:
        raise BadInput(f"metrics by {group} need the category of each relation")
    given = np.asarray(categories)
    kinds = [*CATEGORIES, *sorted(set(given.tolist()) - set(CATEGORIES))]
    category = np.array([kinds.index(name) for name in given.tolist()])[relation]
    if group == "category":
        return category, kinds
    return 2 * category + side, [f"{kind} {side}" for kind in kinds for side in SIDES]
