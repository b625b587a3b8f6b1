"""Tally: the results of a table so far, as plain rows with the paper's numbers next to ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from dura.reproduction.cells import ALL, TABLES, Cell, cells
from dura.reproduction.tasks import Task, task_of
from dura.types import DuraError


@dataclass(frozen=True)
class Tally:
    """A cell with the results of its seeds; `state` says in words what is missing or wrong, "" if nothing is."""

    cell: Cell
    results: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    state: str = ""

    def mean(self, number: Callable[[Mapping[str, Any]], float]) -> float | None:
        """A number of each result, averaged over the seeds; None if there are no results."""
        return fmean(map(number, self.results.values())) if self.results else None

    @property
    def mrr(self) -> float | None:
        """The test MRR with realistic ties."""
        return self.mean(lambda found: found["result"]["mrr"])

    @property
    def pessimistic(self) -> float | None:
        """The test MRR with ties counted against us, as the published program counts them."""
        return self.mean(lambda found: found["result"]["ties"]["pessimistic"]["mrr"])

    @property
    def spread(self) -> float | None:
        """The standard deviation of the MRR over the seeds."""
        return stdev(r["result"]["mrr"] for r in self.results.values()) if len(self.results) > 1 else None

    @property
    def status(self) -> str:
        """What has been done for the cell, in words."""
        band, mrr = self.cell.band, self.mrr
        if mrr is None or self.state or band is None or band[0] <= mrr <= band[1]:
            return self.state or "done"
        return f"done, {'below' if mrr < band[0] else 'above'} the band {band[0]:g} to {band[1]:g}"

    def row(self) -> dict[str, str | int | float | None]:
        """The row of the table: the paper's MRR, the one that was measured with this preset before, and our numbers."""
        paper, mrr = self.cell.paper.get("mrr"), self.mrr
        return {
            "system": self.cell.system,
            "graph": self.cell.graph,
            "paper": paper,
            "expected": self.cell.expected,
            "ours": mrr,
            "difference": None if paper is None or mrr is None else mrr - paper,
            "spread": self.spread,
            "hits@1": self.mean(lambda found: found["result"]["hits"]["1"]),
            "hits@10": self.mean(lambda found: found["result"]["hits"]["10"]),
            "seeds": len(self.results),
            "minutes": self.mean(lambda found: found["training"]["seconds"] / 60),
            "status": self.status,
        }

    def details(self) -> dict[str, Any]:
        """Everything that is known about the cell, ready for JSON."""
        results = [
            {
                "seed": seed,
                "training": found["training"],
                **{key: found["result"][key] for key in ("mrr", "hits", "ties")},
            }
            for seed, found in self.results.items()
        ]
        band = list(self.cell.band) if self.cell.band else None
        about = {
            "preset": self.cell.preset,
            "paper": dict(self.cell.paper),
            "expected": self.cell.expected,
            "band": band,
        }
        return {**about, "source": self.cell.experiment.expected.get("source", ""), "results": results}


def tally(cell: Cell, out: Path, seeds: int, failures: Mapping[str, str]) -> Tally:
    """What the folder holds of a cell, with all seeds that are there; `failures` are those of the start that has just ended."""
    wanted = {seed: task_of(cell, seed, out) for seed in range(seeds)}
    found = [
        path.stem.rpartition("-seed")[2] for path in (out / "results").glob(f"{task_of(cell, 0, out).name[:-1]}*.json")
    ]
    there = {int(seed) for seed in found if seed.isdecimal()}  # other files were put there by hand
    tasks = wanted | {seed: task_of(cell, seed, out) for seed in sorted(there)}
    results, states = {}, []
    for seed, task in sorted(tasks.items()):
        try:
            result = task.result()
            if result is not None:
                results[seed] = result
            elif seed in wanted:
                states.append(_state(task, failures))
        except DuraError as error:
            states.append(str(error))
    # The most serious one: a failure, then a run under way, then nothing.
    state = max(states, key=lambda text: (text.startswith("failed"), text != "not run"), default="")
    count = f"{len(wanted.keys() & results.keys())} of {seeds} seeds, "
    return Tally(cell, results, count + state if state and results else state)


def _state(task: Task, failures: Mapping[str, str]) -> str:
    """Why there is no result yet, in words."""
    if task.name in failures:
        return f"failed: {failures[task.name]}"
    records = task.records()
    if records and records[-1].get("kind") == "failure":
        return f"failed: {records[-1]['text']}"
    if records:
        return "trained, not evaluated" if task.ended() else f"unfinished, {task.progress()}"
    return "not run" if task.cell.at_hand else f"not run, needs: dura data get {task.cell.graph}"


def tallies(table: str, laptop: bool, out: Path, seeds: int, failures: Mapping[str, str]) -> dict[str, list[Tally]]:
    """The tallies of a table, or of all tables that have such cells, by the names of the tables; always of all their cells."""
    rows = [tally(cell, out, seeds, failures) for cell in cells(table, laptop=laptop)]
    found = {name: [row for row in rows if name in row.cell.tables] for name in TABLES if table in (name, ALL)}
    return {name: rows for name, rows in found.items() if rows}


def summary(tallies: Sequence[Tally], laptop: bool) -> list[str]:
    """What a reader of the table must know, one sentence each."""
    columns = (
        "MRR, hits@1 and hits@10 on test: filtered ranking of both sides, realistic ties, mean over the seeds. paper: its MRR; "
        "expected: the MRR that these settings reached here before; difference: ours - paper; spread: standard deviation "
        "over the seeds; minutes: time in training steps, per seed."
    )
    notes = [columns]
    if laptop:
        notes.append("Laptop settings: a much smaller rank and fewer epochs than the paper's.")
    if any(t.cell.headline for t in tallies):
        notes.append("Headline settings: the paper's models at their rank, with sampled candidates and fewer epochs.")
    lost = [t.mrr - t.pessimistic for t in tallies if t.mrr is not None and t.pessimistic is not None]
    if lost:
        notes.append(
            f"With ties counted against us, as the published program counts them, MRR is lower by at most {max(lost):.4f}."
        )
    return notes
