"""Run folders for tests: real files with records as a run leaves them, without any training."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dura.config import Experiment
from dura.records import RunFolder

PROTOCOL = {
    "graph": "tiny",
    "filter": "train+valid+test, filtered",
    "sides": "both",
    "ties": "realistic",
    "candidates": "all 30 entities",
    "unseen_entities": {"entities": 2, "ranked_facts": 1},
    "dura": "0.1.0",
}


def metrics(mrr: float, ranks: int = 40) -> dict[str, Any]:
    """The metrics of a set of ranks, all different and all following from the MRR."""
    hits = {"1": mrr - 0.1, "3": mrr + 0.05, "10": mrr + 0.1}
    return {"mrr": mrr, "hits": hits, "mean_rank": 12.3456, "amri": 0.9, "ranks": ranks}


def evaluation(
    mrr: float,
    epoch: int | None = 3,
    split: str = "test",
    groups: Mapping[str, Mapping[str, Any]] | None = None,
    **protocol: Any,
) -> dict[str, Any]:
    """A record of kind "evaluation"; the tie policies differ a little."""
    ties = {"optimistic": metrics(mrr + 0.01), "realistic": metrics(mrr), "pessimistic": metrics(mrr - 0.01)}
    return {
        "kind": "evaluation",
        "at": "2026-01-02T03:04:05+00:00",
        "epoch": epoch,
        "split": split,
        **metrics(mrr),
        "ties": ties,
        "protocol": {**PROTOCOL, **protocol},
        **({"by": groups} if groups else {}),
    }


def epoch(number: int, mrr: float | None = None, seconds: float = 90.0) -> dict[str, Any]:
    """A record of kind "epoch", with valid metrics if an MRR is given."""
    hits = {"hits@1": -0.1, "hits@3": 0.05, "hits@10": 0.1}
    valid = None if mrr is None else {"mrr": mrr, **{k: min(1.0, max(0.0, mrr + more)) for k, more in hits.items()}}
    return {
        "kind": "epoch",
        "epoch": number,
        "loss": 5.0 / number,
        "penalty": 0.1 * number,
        "facts_per_second": 1234.0,
        "seconds": seconds * number,
        **({} if valid is None else {"valid": valid, "best": True}),
    }


CURVE = [{"kind": "start"}, epoch(1, 0.2), epoch(2, 0.3), epoch(3, 0.35), epoch(4, 0.34)]
END = {"kind": "end", "epoch": 4, "best_epoch": 3, "seconds": 360.0}


def run_folder(
    path: Path,
    records: Sequence[Mapping[str, Any]] = (*CURVE, END),
    settings: Mapping[str, Any] | None = None,
    graph: str = "tiny",
) -> Path:
    """A run folder with settings, run.json and these records."""
    folder = RunFolder.create(path)
    experiment = Experiment()
    for key, value in {"graph.source": graph, "model.rank": 8, **(settings or {})}.items():
        experiment = experiment.with_value(key, value)
    folder.write_settings(experiment.to_toml())
    for record in records:
        folder.append(record)
    about = {"name": graph, "digest": f"digest of {graph}", "entities": 30, "relations": 4}
    folder.describe(graph={**about, "train": 1200, "valid": 20, "test": 20})
    return path


TOY = {"name": "toy", "digest": "d", "entities": 3, "relations": 1, "train": 2, "valid": 0, "test": 0}


def toy_run(path: Path) -> RunFolder:
    """The smallest run folder there is."""
    run = RunFolder.create(path)
    run.write_settings("version = 1\n")
    run.describe(graph=TOY)
    return run


def png_size(path: Path) -> tuple[int, int]:
    """The width and height of a PNG file."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    return width, height
