"""Found: what a timed sweep has found, as plain rows, and its best settings as a preset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dura.records import RunFolder, best_epoch, curve, write_atomic
from dura.runs.store import read_settings
from dura.sweeps.journal import Entry, Journal
from dura.sweeps.trials import TrialRow
from dura.types import DuraError
from dura.words import duration

if TYPE_CHECKING:
    from dura.runs.trained import Trained


STAGES = 3
"""How many rounds the search has."""


@dataclass(frozen=True)
class Found:
    """What the search found. `rows` are the long trainings, best first, and then the trials of the search."""

    path: Path
    rows: list[TrialRow]
    choices: list[str]
    """What was chosen and why, in sentences."""
    title: str
    importance: dict[str, float] = field(default_factory=dict)

    @property
    def best(self) -> TrialRow:
        """The best training."""
        return self.rows[0]

    def open(self) -> Trained:
        """The best model, trained."""
        from dura.runs.trained import open_run

        return open_run(Path(self.best["run"]))


def outcome(path: Path) -> Found:
    """What a timed sweep has found so far; writes the best settings as a preset, DIR/best.toml."""
    journal = Journal.open(path)
    paths = varied(journal)
    order = ["complete", "pruned", "running", "failed"]
    rows = [row_of(journal, entry, paths) for entry in (*journal.trials, *journal.finals)]
    rows.sort(key=lambda row: (order.index(row["state"]), -(row["valid_mrr"] or 0.0), row["trial"]))
    if not rows or rows[0]["valid_mrr"] is None:
        why = next((f": {row['failure']}" for row in rows if row["failure"]), "")
        more = (
            "" if why else "; give it more minutes: dura sweep --resume " + f"{path} --minutes {2 * journal.minutes:g}"
        )
        raise DuraError(f"no training of the sweep {path} got as far as its first validation{why}{more}")
    found = Found(path, rows, _choices(journal, rows), f"Sweep {path.name} in {journal.minutes:g} minutes")
    _write_best(found, journal)
    return found


def varied(journal: Journal) -> list[str]:
    """The settings that differ between trials."""
    paths = ["model.name"] if len(journal.models) > 1 else []
    paths += ["model.rank"] if any(shape.final_rank for shape in journal.shapes) else []
    varied = dict.fromkeys(path for entry in journal.trials for path in entry.values)
    return [*paths, *varied, "training.anneal"]


def row_of(journal: Journal, entry: Entry, paths: Sequence[str]) -> TrialRow:
    """A trial or a final training as plain values."""
    run = journal.path / "runs" / entry.name
    records = RunFolder(run).records() if (run / "run.json").exists() else []
    top, epochs = best_epoch(records), curve(records)
    settings = read_settings(RunFolder(run)).by_path() if records else {}
    return {
        "trial": entry.number,
        "state": entry.state,
        "valid_mrr": top["valid"]["mrr"] if top else entry.mrr[-1] if entry.mrr else None,
        "best_epoch": top["epoch"] if top else None,
        "epochs": len(epochs),
        "seconds": epochs[-1]["seconds"] if epochs else 0.0,
        "values": {path: settings.get(path, entry.values.get(path)) for path in paths},
        "run": str(run),
        "failure": entry.failure or None,
    }


def _choices(journal: Journal, rows: Sequence[TrialRow]) -> list[str]:
    """What was chosen and why."""
    rounds = [sum(len(entry.mrr) > number for entry in journal.trials) for number in range(STAGES)]
    chosen = [sentence for shape in journal.shapes for sentence in shape.why]
    if journal.trials:
        chosen.append(
            f"{rounds[0]} settings were tried for a short time, {rounds[1]} of them three times as long and {rounds[2]} nine times"
        )
    best = rows[0]
    why = next((entry.why for entry in journal.finals if entry.number == best["trial"]), "a trial of the search")
    chosen.append(
        f"trial {best['trial']} is the best ({why}): {best['epochs']} epochs in {duration(best['seconds'])}; long trainings in "
        f"all: {len(journal.finals)}"
    )
    return chosen


def _write_best(found: Found, journal: Journal) -> None:
    """Write the best settings as a preset."""
    top = found.best
    how = "the best by valid MRR; the test split was not used"
    source = f"sweep {found.path.name} of {journal.minutes:g} minutes: trial {top['trial']}, {how}"
    expected = {"valid_mrr": round(top["valid_mrr"], 4), "best_epoch": top["best_epoch"], "source": source}
    settings = replace(read_settings(RunFolder.open(Path(top["run"]))), expected=expected)
    write_atomic(found.path / "best.toml", settings.to_toml().encode())
