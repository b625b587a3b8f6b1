"""Found: facts with numbers, best first, as `discover` and `audit` give them. They can be shown, written to a file and reviewed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from dura.data.appending import appending
from dura.data.graph import Graph
from dura.text import printable, with_label
from dura.types import DuraError, IntArray

if TYPE_CHECKING:
    import pandas as pd

DECISION = "decision"
"""The column that people fill in, see `dura review`."""
SHOWN = 20
"""How many facts are printed."""


@dataclass(frozen=True)
class Found(Sequence[dict[str, Any]]):
    """Facts in their order: each is a dict with head, relation, tail (and time), their labels and its numbers."""

    frame: pl.DataFrame
    about: Mapping[str, Any]
    """What the search was, as plain values."""

    @classmethod
    def of(cls, graph: Graph, facts: IntArray, numbers: Mapping[str, Any], about: Mapping[str, Any]) -> Found:
        """The facts [n, 3], or [n, 4] and [n, 5] with times, by their names."""
        columns: dict[str, Any] = {
            "head": graph.entities.column(facts[:, 0].astype(np.int64)),
            "relation": graph.relations.column(facts[:, 1].astype(np.int64)),
            "tail": graph.entities.column(facts[:, 2].astype(np.int64)),
        }
        if graph.times is not None:
            titles = ("time",) if facts.shape[1] == 4 else ("begin", "end")
            for at, title in enumerate(titles, 3):
                columns[title] = graph.times.names(facts[:, at].tolist())
        columns |= {
            "head_label": [graph.label(name) for name in columns["head"]],
            "relation_label": [graph.relation_label(name) for name in columns["relation"]],
            "tail_label": [graph.label(name) for name in columns["tail"]],
            **numbers,
        }
        return cls(pl.DataFrame(columns), dict(about))

    def __len__(self) -> int:
        return len(self.frame)

    def __getitem__(self, i: Any) -> Any:
        return Found(self.frame[i], self.about) if isinstance(i, slice) else self.frame.row(i, named=True)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.frame.iter_rows(named=True)

    def __repr__(self) -> str:
        lines = [_line(number, fact) for number, fact in enumerate(self[:SHOWN], 1)]
        more = f"… and {len(self) - SHOWN:,} more" if len(self) > SHOWN else ""
        return "\n".join([*lines, more] if more else lines or ["no facts"])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {**self.about, "facts": self.frame.to_dicts()}

    def to_frame(self) -> pl.DataFrame:
        """A polars DataFrame with one row per fact."""
        return self.frame

    def to_pandas(self) -> pd.DataFrame:
        """A pandas DataFrame with one row per fact. It needs pandas."""
        try:
            import pandas as pd
        except ImportError:
            raise DuraError("pandas is not installed; pip install pandas, or use to_frame() for polars") from None
        return pd.DataFrame(self.frame.to_dicts(), columns=self.frame.columns)

    def write(self, path: str | Path) -> Path:
        """Write the facts with an empty column `decision`. The ending of the path says how: .csv, .tsv, .jsonl or .parquet."""
        frame = self.frame.with_columns(pl.lit(None, dtype=pl.String).alias(DECISION))
        with appending(path := Path(path), {name: type(kind) for name, kind in frame.schema.items()}) as file:
            file.add(frame.to_dicts())
        return path


def _line(number: int, fact: Mapping[str, Any]) -> str:
    """A fact as it is printed, with labels after names that differ from them."""
    parts = [with_label(fact[part], fact[f"{part}_label"]) for part in ("head", "relation", "tail")]
    parts += [fact[title] for title in ("time", "begin", "end") if fact.get(title)]
    numbers = [
        f"{title} {value:.3g}" for title, value in fact.items() if isinstance(value, float) and not np.isnan(value)
    ]
    mark = "  (contradicts a known answer)" if fact.get("contradicts") else ""
    return printable(f"{number:>4}.  ({', '.join(parts)})  {'  '.join(numbers)}{mark}")
