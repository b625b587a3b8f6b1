"""Tasks: one cell of a table with one seed, its files, and what is left to do for it.

```
OUT/
  runs/CELL-seedN/            the run folder
  results/CELL-seedN.json     {"format", "dura", "preset", "seed", "settings", "training", "result"}
  logs/CELL-seedN.log         what its processes said
```
What is left to do is read off these files, never remembered: a start that was interrupted, killed or lost its power leaves
nothing to mend.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dura.config import Experiment
from dura.records import Damage, RunFolder, curve, read_json, write_atomic
from dura.reproduction.cells import Cell
from dura.runs.build import complete
from dura.runs.store import read_settings
from dura.types import DuraError, __version__

FORMAT = 1
"""The newest format of result files that this program reads, and the one it writes."""
_FREE = {"training": ("device", "threads", "checkpoint_every")}
"""Settings that say where and not what: a run with others is the same cell."""


@dataclass(frozen=True)
class Task:
    """One cell with one seed, in the folder `out`."""

    cell: Cell
    seed: int
    out: Path

    @property
    def name(self) -> str:
        """The name of its files."""
        return f"{self.cell.preset.replace('/', '-')}-seed{self.seed}"

    @property
    def run(self) -> Path:
        """Its run folder."""
        return self.out / "runs" / self.name

    @property
    def log(self) -> Path:
        """What its processes said."""
        return self.out / "logs" / f"{self.name}.log"

    @property
    def _result(self) -> Path:
        return self.out / "results" / f"{self.name}.json"

    @cached_property
    def settings(self) -> Experiment:
        """The settings that its run must have."""
        return complete(self.cell.experiment.with_value("training.seed", self.seed))

    def result(self) -> dict[str, Any] | None:
        """What came out, None where it has not ended or its file is damaged; a result of other settings is an error."""
        try:
            found: Any = read_json(self._result.parent, self._result.name)
        except Damage:
            return None
        version = found.get("format")
        if isinstance(version, int) and version > FORMAT:
            raise DuraError(f"{self._result} has format {version}, but this dura reads up to {FORMAT}; update dura")
        if not _whole(found):
            return None
        self._check(found["settings"], self._result)
        return dict(found)

    def records(self) -> list[dict[str, Any]]:
        """What training has recorded so far; a run of other settings is an error."""
        if not (self.run / "run.json").exists():
            return []
        folder = RunFolder.open(self.run)
        self._check(read_settings(folder).to_dict(), self.run)
        return folder.records()

    def _check(self, found: Mapping[str, Any], where: Path) -> None:
        """Presets change; figures of an old one must not stand beside the name of the new."""
        if difference := _difference(found, self.settings.to_dict()):
            raise DuraError(
                f"{where} has other settings than the preset ({difference}); move it away or name another --out"
            )

    def ended(self) -> bool:
        """True where training is over."""
        return any(record.get("kind") == "end" for record in self.records())

    def command(self, device: str = "") -> list[str] | None:
        """The arguments of the `dura` command that it needs next, None when there is nothing left to do."""
        on = ["--device", device] if device else []
        if self.result() is not None:
            return None
        if self.ended():
            return ["evaluate", str(self.run), "--json", "--quiet", *on]
        if (self.run / "run.json").exists():
            return ["train", "--resume", str(self.run)]
        return ["train", self.cell.preset, "--seed", str(self.seed), "--out", str(self.run), *on]

    def in_use(self) -> bool:
        """True where another process trains it, such as one that a killed start left behind."""
        import filelock

        if not self.run.is_dir():
            return False
        try:
            with filelock.FileLock(self.run / ".lock", timeout=0):
                return False
        except filelock.Timeout:
            return True

    def keep(self, result: Mapping[str, Any]) -> None:
        """Write down what evaluation printed, with the settings and what training took."""
        end = next(record for record in reversed(self.records()) if record.get("kind") == "end")
        document = {
            "format": FORMAT,
            "dura": __version__,
            "preset": self.cell.preset,
            "seed": self.seed,
            "settings": read_settings(RunFolder.open(self.run)).to_dict(),
            "training": {key: end[key] for key in ("epoch", "best_epoch", "seconds")},
            "result": dict(result),
        }
        self._result.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(self._result, (json.dumps(document, indent=1) + "\n").encode())

    def progress(self) -> str:
        """Where training stands, in words."""
        epochs = curve(self.records())
        if not epochs:
            return "beginning"
        valid = [f", valid MRR {record['valid']['mrr']:.4f}" for record in epochs if "valid" in record]
        return f"epoch {epochs[-1]['epoch']} of {self.settings.training.epochs}{valid[-1] if valid else ''}"


def _whole(found: Any) -> bool:
    """True where a result file has all that the tables show."""
    try:
        result, figures = found["result"], (found["training"]["seconds"], found["result"]["mrr"])
        hits = (result["hits"]["1"], result["hits"]["10"], result["ties"]["pessimistic"]["mrr"])
        return isinstance(found["settings"], dict) and all(isinstance(x, int | float) for x in (*figures, *hits))
    except (KeyError, TypeError):
        return False


def _difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """The first setting in which two experiments differ, in words; nothing where they mean the same."""
    for table in [table for table in wanted if isinstance(wanted[table], Mapping) and table != "expected"]:
        theirs, ours = found.get(table, {}), wanted[table]
        for key in dict.fromkeys([*ours, *theirs]):
            if key not in _FREE.get(table, ()) and theirs.get(key) != ours.get(key):
                return f"{table}.{key} is {theirs.get(key)!r} there and {ours.get(key)!r} here"
    return ""
