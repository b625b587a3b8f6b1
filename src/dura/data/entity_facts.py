"""Facts of an entity: those in which it is the head or the tail, by names, a page at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dura.data.graph import KEPT, Graph
from dura.types import SPLITS, IntArray


@dataclass(frozen=True)
class FactsOf:
    """Some of the facts of an entity. `total` counts all of them."""

    entity: str
    label: str
    types: tuple[str, ...]
    description: str | None
    total: int
    facts: tuple[dict[str, Any], ...]
    relation: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        own = {**vars(self), "types": list(self.types), "facts": list(self.facts)}
        return {key: value for key, value in own.items() if key != "relation" or value is not None}


def facts_of(graph: Graph, entity: str, relation: str | None = None, offset: int = 0, limit: int = 100) -> FactsOf:
    """The facts of an entity in all splits, ordered by relation, side and the other entity; only those of a relation if named."""
    own, only = graph.entity(entity), None if relation is None else graph.relation(relation)
    rows, splits = _rows(graph, own, only)
    other = np.where(rows[:, 0] == own, rows[:, 2], rows[:, 0])
    moment = rows[:, 3] if rows.shape[1] > 3 else other
    order = np.lexsort([moment, other, rows[:, 0] != own, rows[:, 1]])[offset : offset + limit]
    name = graph.entities.name(own)
    return FactsOf(
        name,
        graph.label(name),
        graph.types(name),
        graph.entity_descriptions.get(name),
        len(rows),
        tuple(_named(graph, rows[at], SPLITS[splits[at]]) for at in order.tolist()),
        None if only is None else graph.relations.name(only),
    )


def _rows(graph: Graph, entity: int, relation: int | None) -> tuple[IntArray, IntArray]:
    """The facts of an entity, and the number of the split of each."""
    found, splits = [graph.train[:0]], [np.zeros(0, dtype=np.int64)]
    for number, split in enumerate(SPLITS):
        facts = graph.facts(split)
        for at in range(0, len(facts), KEPT):
            part = facts[at : at + KEPT]
            mine = (part[:, 0] == entity) | (part[:, 2] == entity)
            mine = mine if relation is None else mine & (part[:, 1] == relation)
            found.append(part[mine])
            splits.append(np.full(int(mine.sum()), number))
    return np.concatenate(found), np.concatenate(splits)


def _named(graph: Graph, fact: IntArray, split: str) -> dict[str, Any]:
    head, tail = (graph.entities.name(int(fact[at])) for at in (0, 2))
    relation = graph.relations.name(int(fact[1]))
    times: dict[str, str | None] = {}
    if graph.times is not None:
        begin, *end = [name or None for name in graph.times.names(fact[3:].tolist())]
        times = {"time": begin} | ({"begin": begin, "end": end[0]} if end else {})
    labels = {"head_label": graph.label(head), "relation_label": graph.relation_label(relation)}
    fact_ = {"head": head, "relation": relation, "tail": tail, **times, "split": split}
    return fact_ | labels | {"tail_label": graph.label(tail)}


def fact_counts(graph: Graph) -> tuple[IntArray, IntArray]:
    """How many facts of all splits each entity has (as head, as tail or as both), and each relation."""
    entities, relations = (np.zeros(len(names), dtype=np.int64) for names in (graph.entities, graph.relations))
    for split in SPLITS:
        facts = graph.facts(split)
        for at in range(0, len(facts), KEPT):
            head, relation, tail = facts[at : at + KEPT, :3].T
            entities += np.bincount(head, minlength=len(entities))
            entities += np.bincount(tail[tail != head], minlength=len(entities))
            relations += np.bincount(relation, minlength=len(relations))
    return entities, relations
