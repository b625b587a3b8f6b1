"""Layouts: how the lines of a published graph say when its facts hold. Only graphs of the catalog have a layout.

To add a layout: its columns, a function that turns them into (head, relation, tail, time), and a row in LAYOUTS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from dura.data.facts import FileColumns, read_columns
from dura.data.readers import FACT, POINT, ReadOptions, Roles


@dataclass(frozen=True)
class Layout:
    """The first columns of every line, and the function that turns them into the columns of facts."""

    roles: Roles
    turn: Callable[[list[pl.Series]], list[pl.Series]] = list

    def read(self, path: Path, options: ReadOptions, *_: object) -> FileColumns:
        """The facts of a file. The layout knows the columns."""
        read = read_columns(path, replace(options, columns=tuple(range(len(self.roles)))), self.roles)
        return replace(read, columns=self.turn(read.columns))


def since_until(columns: list[pl.Series]) -> list[pl.Series]:
    """YAGO15k: a fact says since when or until when it holds, or neither. The relation's name gets a suffix that says which.

    Times are years. Two lines have <occursSince> or <occursUntil> but no date: they have no time.
    """
    head, relation, tail, modifier, time = columns
    suffix = modifier.replace_strict({"": "_notime", "<occursSince>": "_since", "<occursUntil>": "_until"})
    return [head, relation + suffix, tail, time.str.extract(r"(-?\d+)-").fill_null("")]


LAYOUTS = {
    "point": Layout(POINT),
    "since-until": Layout((*FACT, "modifier", "time"), since_until),
}
"""The layouts that catalog.toml names."""
