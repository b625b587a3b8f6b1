"""Runs: a run folder as plain values: what it is, its curve, its evaluations and what happened in it.

Only settings.toml, run.json and records.jsonl are read, so a copy without facts and checkpoints is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from dura.config import Experiment
from dura.records import RunFolder, best_epoch, curve, exported_as
from dura.registry import Value
from dura.reports.exported import Export
from dura.words import short_names

Numbers = Mapping[str, Any]
"""The metrics of one set of ranks: mrr, hits (by k as text), mean_rank, amri, ranks."""


@dataclass(frozen=True)
class Evaluation:
    """What `dura evaluate` left in the records: one split under one filter, of the tables of one epoch."""

    split: str
    epoch: int | None
    """The epoch whose tables were ranked; None if the run does not say."""
    ties: Mapping[str, Numbers]
    protocol: Mapping[str, Any]
    groups: Mapping[str, Mapping[str, Numbers]]
    """By kind (side, relation, category, category-side) and name."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """The labels of relations in `groups`."""

    @property
    def headline(self) -> Numbers:
        """The metrics under the protocol's tie policy."""
        return self.ties[self.protocol["ties"]]

    @property
    def filter(self) -> str:
        """The known answers that were left out, in words."""
        return str(self.protocol["filter"])

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Evaluation:
        """The evaluation that a record holds."""
        groups, labels = record.get("by", {}), record.get("labels", {})
        return cls(record["split"], record.get("epoch"), record["ties"], record["protocol"], groups, labels)


@dataclass(frozen=True)
class Run:
    """A run folder's plain values; `name` is different for each run of a report."""

    name: str
    path: Path
    about: Mapping[str, Any]
    settings: str
    """The text of settings.toml."""
    records: Sequence[Mapping[str, Any]]

    @cached_property
    def experiment(self) -> Experiment:
        """The settings, parsed."""
        return Experiment.from_toml(self.settings, where=str(self.path / "settings.toml"))

    @cached_property
    def curve(self) -> list[dict[str, Any]]:
        """One record per epoch."""
        return curve(self.records)

    @cached_property
    def best(self) -> dict[str, Any] | None:
        """The record of the epoch with the best valid MRR, the first of several."""
        return best_epoch(self.records)

    @cached_property
    def evaluations(self) -> list[Evaluation]:
        """The newest evaluation of each split and filter, test first, with all breakdowns of the same tables."""
        newest: dict[tuple[str, str], Evaluation] = {}
        for record in self.records:
            if record.get("kind") == "evaluation":
                found = Evaluation.of(record)
                before = newest.get((found.split, found.filter))
                if before is not None and before.epoch == found.epoch:
                    groups, labels = {**before.groups, **found.groups}, {**before.labels, **found.labels}
                    found = replace(found, groups=groups, labels=labels)
                newest[found.split, found.filter] = found
        order = ("test", "valid", "train")
        return sorted(newest.values(), key=lambda found: (order.index(found.split), "static" in found.filter))

    def evaluation(self, split: str = "test") -> Evaluation | None:
        """The first evaluation of a split: if facts have times, with the time-aware filter if there is one."""
        return next((found for found in self.evaluations if found.split == split), None)

    @cached_property
    def exported(self) -> Export | None:
        """What was exported and how; None for a run that was trained."""
        return Export.of(self.records)

    @property
    def state(self) -> str:
        """The state of the run, in words."""
        last = [
            record for record in self.records if record.get("kind") in ("start", "resume", "epoch", "failure", "end")
        ]
        done = f"{len(self.curve):,} of at most {self.experiment.training.epochs:,} epochs"
        if not last and self.exported is not None and self.exported.packed:
            return "an exported model, without records of its training"
        if not last:
            return "a saved model, without records of its training"
        words = {"end": "finished", "failure": "failed"}
        return f"{words.get(last[-1]['kind'], 'not finished (it is training, or was stopped)')}, {done}"

    @property
    def events(self) -> list[str]:
        """Resumes, notices and failures in order, as sentences."""
        return [sentence for record in self.records if (sentence := _event(record))]


def _event(record: Mapping[str, Any]) -> str:
    kind = record.get("kind")
    if kind == "resume":
        return f"resumed after epoch {record.get('epoch')}, step {record.get('step')}"
    if kind in ("notice", "failure"):
        return f"{kind}: {record.get('text')}"
    return str(record.get("auto", "")) if kind == "start" else ""


def read_run(path: Path, name: str = "") -> Run:
    """Read a run folder; a missing or damaged one is an error in one sentence."""
    folder = RunFolder.open(path)
    return Run(name or path.resolve().name, path, folder.about(), folder.settings(), folder.records())


def read_runs(paths: Sequence[Path]) -> list[Run]:
    """Read several run folders, each with a different name: the end of its path, and the form of exported tables."""
    return [_labelled(read_run(path, name)) for path, name in zip(paths, short_names(paths), strict=True)]


def _labelled(run: Run) -> Run:
    label = exported_as(run.records)
    return replace(run, name=f"{run.name} ({label})") if label else run


def differing(runs: Iterable[Run]) -> dict[str, list[Value | None]]:
    """The settings in which runs differ, by path, with each run's value (None if it has no such setting)."""
    settings = [run.experiment.by_path() for run in runs]
    paths = dict.fromkeys(path for values in settings for path in values)
    found = {path: [values.get(path) for values in settings] for path in paths}
    return {path: values for path, values in found.items() if len(set(values)) > 1}
