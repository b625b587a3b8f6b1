"""About: what a trained model is, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dura.tables.packed import Csr, Packed
from dura.types import __version__

if TYPE_CHECKING:
    from dura.runs.trained import Trained


def describe(trained: Trained) -> dict[str, Any]:
    """The model, its graph, and how its tables are stored in memory."""
    model, graph = trained.model, trained.graph
    packed = [table for table in model.entity_tables.values() if isinstance(table, Packed)]
    size = sum(table.bytes for table in packed) + sum(p.numel() * p.element_size() for p in model.parameters())
    return {
        "dura": __version__,
        "run": trained.path.resolve().name if trained.path else None,
        "model": trained.experiment.model.name,
        "rank": model.rank,
        "regularizer": trained.experiment.regularizer.name,
        "graph": {
            "name": graph.name,
            "entities": graph.sizes.entities,
            "relations": graph.sizes.relations,
            "times": list(graph.times.span) if graph.times else None,
            "labels": {"entities": len(graph.labels), "relations": len(graph.relation_labels)},
        },
        "tables": {
            "sparse": any(isinstance(table, Csr) for table in packed),
            "dtype": packed[0].number_type if packed else "float32",
            "bytes": size,
        },
    }
