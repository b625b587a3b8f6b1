"""Streams: the rows of a file of questions or facts, piece by piece, each with its line number or what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import polars as pl

from dura.data import words
from dura.data.facts import of_good_width, without
from dura.data.pieces import sheets
from dura.data.readers import FACT, INTERVAL, POINT, ReadOptions
from dura.data.recognition import Plan, recognise
from dura.data.separated import Lines
from dura.data.sheet import BadLines, Sheet
from dura.types import BadInput

HOLE = "?"
"""How a hole is written in a file of questions."""


class Row(NamedTuple):
    """One row of a file: head, relation, tail and time as text, "" where there is nothing; or what is wrong with it."""

    line: int
    parts: tuple[str, ...] = ()
    wrong: str = ""


def question_rows(path: Path, options: ReadOptions) -> Iterator[Row]:
    """The rows of a file of questions. An empty field is a hole too."""
    return _stream(path, options, questions=True)


def fact_rows(path: Path, options: ReadOptions) -> Iterator[Row]:
    """The rows of a file of facts."""
    return _stream(path, options, questions=False)


def _stream(path: Path, options: ReadOptions, questions: bool) -> Iterator[Row]:
    plan: Plan | None = None
    needed = ("relation",) if questions else FACT
    for sheet in sheets(path, options):
        assert sheet.bad is not None
        if len(sheet):
            first, plan = plan is None, plan or (_question_plan(sheet) if questions else _fact_plan(sheet, options))
            fields = _fields(sheet, plan if first else replace(plan, header=False), needed)
        else:
            fields = pl.DataFrame()
        yield from _in_order(fields, sheet.bad)


def _in_order(fields: pl.DataFrame, bad: BadLines) -> Iterator[Row]:
    """The rows of a piece, good and bad ones, by line number."""
    rows = [Row(values[0], values[1:]) for values in fields.iter_rows()] if len(fields) else []
    wrong = [Row(line.line, wrong=line.reason) for line in bad.first]
    yield from sorted([*rows, *wrong], key=lambda row: row.line) if wrong else rows


def _fields(sheet: Sheet, plan: Plan, needed: tuple[str, ...]) -> pl.DataFrame:
    """The line number, head, relation, tail and time of the good rows."""
    assert sheet.bad is not None
    if isinstance(sheet, Lines):
        sheet = of_good_width(sheet, plan, sheet.bad)
    assert sheet.numbers is not None and sheet.bad is not None
    columns = {"line": sheet.numbers} | _columns(sheet, plan)
    empty = pl.lit("").alias("")
    rows = pl.DataFrame(columns).slice(1 if plan.header else 0)
    rows = rows.select(
        "line", *(pl.col(role).fill_null("") if role in columns else empty.alias(role) for role in POINT)
    )
    gaps = [pl.when(pl.col(role) == "").then(pl.lit(f"the {role} is empty")) for role in needed]
    broken = [
        pl.when(pl.col(role).str.contains("\n", literal=True)).then(pl.lit(f"the {role} holds a line break"))
        for role in POINT
    ]
    return without(rows, pl.coalesce([*gaps, *broken]), sheet.bad)


def _columns(sheet: Sheet, plan: Plan) -> dict[str, pl.Series]:
    """The columns of the plan, by role. Objects of JSON may lack a column in one piece and have it in another."""
    if isinstance(sheet, Lines):
        return dict(zip(plan.roles, sheet.take(plan.positions).get_columns(), strict=True))
    titles = sheet.rows.columns
    if sheet.titles is not None and plan.titles is not None:
        pairs = [(role, plan.titles[at]) for role, at in zip(plan.roles, plan.positions, strict=True)]
        return {role: sheet.rows[title] for role, title in pairs if title in titles}
    pairs_at = zip(plan.roles, plan.positions, strict=True)
    return {role: sheet.rows.to_series(at) for role, at in pairs_at if at < len(titles)}


def _question_plan(sheet: Sheet) -> Plan:
    """Which columns hold what in a file of questions: by the names head, relation, tail and time, else by position."""
    first = [title.strip().lower() for title in sheet.first()]
    found = [role for role in POINT if role in first]
    named = "relation" in found and len(found) > 1 and (sheet.titles is not None or HOLE not in first)
    if named and len(set(first)) == len(first):
        titles = sheet.first()
        if sheet.titles is not None:  # a later object may have what this one lacks
            titles = [*titles, *(role for role in POINT if role not in first)]
            found, first = list(POINT), [title.strip().lower() for title in titles]
        positions = tuple(first.index(role) for role in found)
        least = 1 + first.index("relation")
        return Plan(tuple(found), positions, sheet.titles is None, least, len(first), titles=tuple(titles))
    if words.named(sheet.first()) is not None:
        return recognise(sheet, ReadOptions(), POINT if isinstance(sheet, Lines) else POINT[: sheet.widest])
    if sheet.widest < 2:
        raise BadInput(
            f"{sheet.origin} holds no questions: a line is a head and a relation, or head, relation and tail"
        )
    if sheet.titles is not None:
        shown = ", ".join(map(repr, sheet.titles[:20]))
        raise BadInput(f"{sheet.origin} has the columns {shown}; a question has the columns head, relation and tail")
    return Plan(POINT, tuple(range(len(POINT))), header=False, least=2, most=len(POINT))


def _fact_plan(sheet: Sheet, options: ReadOptions) -> Plan:
    """Which columns hold what in a file of facts, as training would read them."""
    plan = recognise(sheet, options)
    if plan.roles == INTERVAL:
        raise BadInput(
            f"the facts of {sheet.origin} have a begin and an end, but a fact is scored at one time; keep one column of times"
        )
    return plan
