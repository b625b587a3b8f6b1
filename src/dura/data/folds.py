"""Folds: deal facts into parts of about the same size, so that each is judged by a model that has seen only the others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dura.types import BadInput, IntArray

MOST = 20
"""As many folds as this are never refused."""
KEPT = -1
"""The fold of facts that are in the training set of every fold."""
ROUNDS = 50
"""How often facts are moved before those that still stand alone are kept."""


def deal(facts: IntArray, folds: int, seed: int, *, pairs: bool = False) -> IntArray:
    """The fold of each fact [n], from 0; `KEPT` for facts that belong to no fold.

    The facts outside of a fold name every entity and every relation of the facts, so that a model trained on them knows all names.
    The only fact of an entity is therefore kept: without it, nothing is known about the entity. With `pairs`, facts between the
    same two entities, in either direction, are in the same fold.

    >>> deal(np.array([[0, 0, 1], [1, 0, 0], [0, 0, 2]]), folds=2, seed=0)[2]
    np.int64(-1)
    """
    if folds < 2:
        raise BadInput(f"folds is {folds}, but facts are dealt into at least 2 folds")
    if folds > max(MOST, len(facts)):
        raise BadInput(f"folds is {folds:,}, but there are only {len(facts):,} facts to deal; 5 or 10 folds are usual")
    rng = np.random.default_rng(seed)
    group = _pairs(facts) if pairs else np.arange(len(facts))
    count = int(group.max(initial=-1)) + 1
    name, user = _uses(facts, group)
    fold = rng.permutation(np.arange(count) % folds)
    fold[user[np.bincount(name)[name] == 1]] = KEPT
    for _ in range(ROUNDS):
        lonely = _lonely(name, user, fold, folds)
        if not lonely.any():
            break
        moved = _one_of_each(name, user, lonely & (fold[user] != KEPT), rng)
        fold[moved] = (fold[moved] + rng.integers(1, folds, len(moved))) % folds
    fold[_one_of_each(name, user, _lonely(name, user, fold, folds), rng)] = KEPT
    return np.asarray(fold[group])


def _pairs(facts: IntArray) -> IntArray:
    """The number of each fact's pair of entities."""
    low, high = (side(facts[:, 0], facts[:, 2]).astype(np.int64) for side in (np.minimum, np.maximum))
    return np.asarray(np.unique(low * (int(high.max(initial=0)) + 1) + high, return_inverse=True)[1])


def _uses(facts: IntArray, group: IntArray) -> tuple[IntArray, IntArray]:
    """Which group uses which name (entities, then relations): each pair once, sorted by name."""
    groups, entities = int(group.max(initial=0)) + 1, int(facts[:, [0, 2]].max(initial=0)) + 1
    columns = (facts[:, 0].astype(np.int64), facts[:, 2].astype(np.int64), facts[:, 1].astype(np.int64) + entities)
    uses = np.unique(np.concatenate([column * groups + group for column in columns]))
    return np.unique(uses // groups, return_inverse=True)[1], uses % groups


def _lonely(name: IntArray, user: IntArray, fold: IntArray, folds: int) -> NDArray[np.bool_]:
    """True for the uses of names all of whose facts are in one fold."""
    names = int(name.max(initial=-1)) + 1
    first, last = np.full(names, folds), np.full(names, KEPT - 1)
    np.minimum.at(first, name, fold[user])
    np.maximum.at(last, name, fold[user])
    return np.asarray(((first == last) & (first != KEPT))[name])


def _one_of_each(name: IntArray, user: IntArray, which: NDArray[np.bool_], rng: np.random.Generator) -> IntArray:
    """A random group of each of these names."""
    at = rng.permutation(np.flatnonzero(which))
    return np.unique(user[at[np.unique(name[at], return_index=True)[1]]])
