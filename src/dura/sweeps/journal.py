"""Journal: what a sweep without a file has done so far, as one JSON file in its folder.

```
DIR/
  search.json           minutes, settings, what was measured, trials and their valid MRR; this file makes the folder a timed sweep
  graph/                the graph, if it came from memory or standard input
  runs/trial-N/         one run folder per trial of the search and per long training
  best.toml             the best settings as a preset
```
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dura.config import Experiment
from dura.records import write_atomic
from dura.sweeps.shape import Shape
from dura.sweeps.space import Values
from dura.types import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE = "search.json"
FORMAT = 1


@dataclass
class Entry:
    """A trial of the search, or a final training."""

    number: int
    model: int
    """Which of the models, by its place."""
    values: Values
    mrr: list[float] = field(default_factory=list)
    """The best valid MRR at the end of each round; of a final training, its best."""
    state: str = "running"
    """running, pruned (the search went on with others), complete, failed."""
    failure: str = ""
    why: str = ""
    """What a final training is."""
    falling: bool = False
    """Whether the learning rate of a final training falls."""

    @property
    def name(self) -> str:
        """The name of its run folder."""
        return f"trial-{self.number}"


@dataclass
class Journal:
    """Everything that is needed to continue."""

    path: Path
    minutes: float
    seed: int
    digest: str
    models: list[Experiment]
    fixed: list[str]
    spent: float = 0.0
    shapes: list[Shape] = field(default_factory=list)
    trials: list[Entry] = field(default_factory=list)
    finals: list[Entry] = field(default_factory=list)

    def save(self, spent: float) -> None:
        """Write the file."""
        self.spent = spent
        document: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "path"}
        document["models"] = [experiment.to_dict() for experiment in self.models]
        for name in ("shapes", "trials", "finals"):
            document[name] = [asdict(item) for item in getattr(self, name)]
        text = json.dumps({"format": FORMAT, **document}, indent=1, ensure_ascii=False)
        write_atomic(self.path / FILE, text.encode())

    @classmethod
    def open(cls, path: Path) -> Journal:
        """The journal of a folder; one sentence if it is damaged."""
        file = path / FILE
        try:
            document = json.loads(file.read_text("utf-8"))
            if document.pop("format") != FORMAT:
                raise BadInput(f"{file} was written by a newer dura; update dura")
            document["models"] = [Experiment.from_dict(tables, str(file)) for tables in document["models"]]
            document["shapes"] = [Shape(**shape) for shape in document["shapes"]]
            for name in ("trials", "finals"):
                document[name] = [Entry(**entry) for entry in document[name]]
            return cls(path, **document)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadInput(f"{file} is damaged and the sweep cannot be continued ({error}); start a new one") from None

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Only one process works on a sweep of minutes."""
        import filelock

        try:
            with filelock.FileLock(self.path / "search.lock", timeout=0):
                yield
        except filelock.Timeout:
            raise BadInput(
                f"another process works on the sweep {self.path}; wait for it, or name a new folder"
            ) from None


def is_timed(path: Path) -> bool:
    """True if the folder holds a sweep without a file."""
    return (path / FILE).is_file()
