"""About: what a trained model is, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dura.data.reviews import ACCEPT, REJECT
from dura.records import RunFolder
from dura.tables.packed import Csr, Packed
from dura.types import SPLITS, DuraError, __version__

if TYPE_CHECKING:
    from dura.runs.exploring import Exploring


def describe(trained: Exploring) -> dict[str, Any]:
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


def about(trained: Exploring) -> dict[str, Any]:
    """`describe`, and what a page about the model shows."""
    graph, times = trained.graph, trained.graph.times
    decided = [decision.decision for decision in trained.decisions()]
    counts = {word: decided.count(word) for word in (ACCEPT, REJECT)}
    return {
        **describe(trained),
        "calibrated": trained.calibration is not None,
        "entities": graph.sizes.entities,
        "relations": graph.sizes.relations,
        "facts": {split: len(graph.facts(split)) for split in SPLITS},
        "metrics": metrics(trained),
        "settings": trained.experiment.to_dict(),
        "reviews": {"writable": trained.writable, **counts},
        "times": None if times is None else times.names(range(len(times.positions))),
        "intervals": graph.intervals,
        "no_time": bool(times is not None and times.no_time),
    }


def metrics(trained: Exploring) -> dict[str, Any] | None:
    """The newest results on valid and test facts in the records of the run; None if there are none."""
    found: dict[str, Any] = {}
    if trained.path is None:
        return None
    try:
        records = RunFolder(trained.path).records()
    except DuraError:
        return None
    for record in records:
        if record.get("kind") == "epoch" and record.get("best") and record.get("valid"):
            found["valid"] = {**record["valid"], "epoch": record["epoch"]}
        if record.get("kind") == "evaluation":
            ranks = record["ties"][record["protocol"]["ties"]]
            hits = {f"hits@{k}": value for k, value in ranks["hits"].items()}
            found[record["split"]] = {"mrr": ranks["mrr"], **hits, "epoch": record.get("epoch")}
    return found or None
