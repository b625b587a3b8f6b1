"""Day and month: which of them comes first in dates such as 06/05/2014. All dates of a graph decide together, or the user does."""

from __future__ import annotations

import numpy as np
import polars as pl

from dura.data.days import Flags
from dura.text import shown
from dura.types import BadInput

DAY_FIRST = ("DD/MM/YYYY", "DD-MM-YYYY")
"""The forms in which the month may come first just as well."""


def in_order(texts: pl.Series, forms: dict[str, Flags]) -> list[str]:
    """The names of the forms, with day and month in the order that the times decide on."""
    doubtful = [name for name in forms if name.startswith(DAY_FIRST)]
    if not doubtful:
        return list(forms)
    some = texts.filter(np.logical_or.reduce([forms[name] for name in doubtful]))
    parts = some.str.extract_groups(r"^\s*([0-9]+)[/-]([0-9]+)").struct.unnest()
    first, second = (parts.to_series(at).cast(pl.Int32) for at in (0, 1))
    days = some.filter((first > 12) & (first <= 31) & second.is_between(1, 12))
    months = some.filter((second > 12) & (second <= 31) & first.is_between(1, 12))
    either = some.filter(first.is_between(1, 12) & second.is_between(1, 12) & (first != second))
    if (len(days) and len(months)) or (not len(days) and not len(months) and len(either)):
        raise BadInput(_doubt(days, months, either))
    if len(days) >= len(months):
        return list(forms)
    return [name.replace("DD/MM", "MM/DD").replace("DD-MM", "MM-DD") for name in forms]


def _doubt(days: pl.Series, months: pl.Series, either: pl.Series) -> str:
    choice = "--time-format DD/MM/YYYY or --time-format MM/DD/YYYY"
    if "/" not in (either[0] if len(either) else days[0]):
        choice = choice.replace("/", "-")
    if len(days):
        return f"the time {shown(days[0])} begins with the day, but {shown(months[0])} with the month; say which is right: {choice}"
    return f"it is not clear whether the time {shown(either[0])} begins with the day or the month; say it: {choice}"
