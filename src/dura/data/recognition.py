"""Recognition: which columns of a sheet are head, relation, tail and time, and whether its first row is a header.

What the user says comes first. Otherwise the names of the columns decide (`words`), and if they have none, their content: a
relation column has few distinct values, a time column has dates. Whatever is decided is told to the user with one fact as an
example, and what looks wrong is a warning that names the option which changes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from dura.data.columns import with_time
from dura.data.content import ENOUGH, fact_order, look_like_dates, no_names, suggestion
from dura.data.readers import FACT, FACTS, INTERVAL, POINT, ReadOptions, Roles
from dura.data.sheet import Sheet
from dura.data.words import named, without_relation
from dura.types import BadInput

DIRECTIONS = ("directed", "undirected")
"""What graph programs write into a column named Type, which is not the type of an edge."""


@dataclass(frozen=True)
class Plan:
    """Which columns have the roles, and whether the first row is a header. `said` if the user chose the columns.

    Good rows have from `least` to `most` fields; None is no limit. `chosen` are the columns as the user named them.
    """

    roles: Roles
    positions: tuple[int, ...]
    header: bool
    least: int
    most: int | None
    chosen: tuple[int | str, ...] | None = None
    titles: tuple[str, ...] | None = None
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def title(self, at: int) -> str:
        """How the user sees a column: its title, or its position."""
        return f"column {at}" if self.titles is None or at >= len(self.titles) else repr(self.titles[at])


def recognise(sheet: Sheet, options: ReadOptions, roles: Roles | None = None, like: Plan | None = None) -> Plan:
    """The plan for a sheet. `roles` are the wanted columns if they are known; `like` is the plan of the graph's train facts."""
    first = tuple(sheet.first())
    if options.time is not None:
        options = options.with_columns(with_time(sheet.origin, first, options))
    if options.chosen is not None:
        return _said(sheet, first, options, options.chosen, roles)
    wanted = roles if roles is not None and roles not in FACTS else None
    if wanted is not None:
        return _in_order(sheet, first, options, wanted)
    if options.header is not False and (found := _by_name(sheet, first, roles)) is not None:
        return found
    if like is not None and max(like.positions) < sheet.width:
        return _as_train(sheet, first, like)
    if options.header is not False and roles is None and (ends := without_relation(first)) is not None:
        head, tail = (repr(first[at]) for at in ends)
        raise BadInput(
            f"{sheet.origin} has a head ({head}) and a tail ({tail}), but no column is called relation, type or predicate; "
            "add one, or choose the columns with --columns"
        )
    if sheet.titles is not None and sheet.width != len(roles or FACT):
        raise BadInput(_no_names(sheet, first))
    return _by_content(sheet, first, options, roles)


def fact_roles(count: int) -> Roles:
    """The roles of this many columns."""
    return next((roles for roles in FACTS if len(roles) == count), FACT)


def _said(
    sheet: Sheet, first: tuple[str, ...], options: ReadOptions, chosen: tuple[int | str, ...], roles: Roles | None
) -> Plan:
    """The columns that the user chose."""
    roles = roles or fact_roles(len(chosen))
    by_name = any(isinstance(column, str) for column in chosen)
    if by_name and options.header is False and sheet.titles is None:
        raise BadInput(f"columns of {sheet.origin} are chosen by name, but header=False says that it has no header")
    if len(chosen) != len(roles):
        timed = ", 4 with a time, 5 with its begin and end" if roles == FACT else ""
        raise BadInput(f"{len(roles)} columns are needed ({', '.join(roles)}){timed}, but {len(chosen)} are chosen")
    positions = tuple(_position(sheet, column, first) for column in chosen)
    if len(set(positions)) < len(positions):
        raise BadInput(f"a column of {sheet.origin} is chosen twice: {', '.join(map(str, chosen))}")
    if sheet.titles is not None:
        header = False
    elif options.header is not None:
        header = options.header
    else:
        picked = [first[at] for at in positions[: len(FACT)] if at < len(first)]
        header = by_name or named(picked) is not None
    titles = first if header or sheet.titles is not None else None
    if titles is not None and max(positions) >= len(titles):
        raise BadInput(
            f"{sheet.origin} has no column {max(positions)}: its header has {len(titles)} columns, numbered from 0"
        )
    full = len(first) if titles else 1 + max(positions)
    least = full if len(roles) == _needed(roles) else 1 + max(positions[: _needed(roles)])
    return Plan(roles, positions, header, least, full if titles else None, chosen, titles)


def _in_order(sheet: Sheet, first: tuple[str, ...], options: ReadOptions, roles: Roles) -> Plan:
    """The first columns, in the order of the roles."""
    if not _needed(roles) <= sheet.width <= len(roles):
        raise BadInput(wrong_width(sheet, roles))
    header = bool(options.header) and sheet.titles is None
    return Plan(roles, tuple(range(len(roles))), header, _needed(roles), len(roles), titles=first if header else None)


def _by_name(sheet: Sheet, first: tuple[str, ...], roles: Roles | None) -> Plan | None:
    """The columns that the titles name, or None if they do not."""
    found = named(first)
    if found is None:
        return None
    positions = found.positions if roles is None else found.positions[: len(roles)]
    if found.others and sheet.width > max(found.relation, *found.others):
        sample = sheet.sample().slice(0 if sheet.titles is not None else 1)
        values = sample.to_series(found.relation).drop_nulls().str.to_lowercase().unique()
        if len(values) and values.is_in(DIRECTIONS).all():
            positions = (positions[0], found.others[0], *positions[2:])
    if len({first[at] for at in positions}) < len(positions):
        return None
    roles = roles if roles is not None and len(roles) == len(positions) else fact_roles(len(positions))
    header = sheet.titles is None
    least = len(first) if roles == FACT else 1 + max(positions[: len(FACT)])
    warnings = _unused_dates(sheet, first, positions) if roles == FACT else []
    return Plan(roles, positions, header, least, len(first), titles=first, warnings=warnings)


def _unused_dates(sheet: Sheet, first: Sequence[str], positions: tuple[int, ...]) -> list[str]:
    """A warning for a column of dates that is not used."""
    sample = sheet.sample().slice(0 if sheet.titles is not None else 1)
    for at, title in enumerate(first[: sample.width]):
        if at not in positions and look_like_dates(sample.to_series(at)):
            return [
                f"{sheet.origin}: the column {title!r} holds dates but is not used; if facts hold then: --time {title}"
            ]
    return []


def _as_train(sheet: Sheet, first: tuple[str, ...], like: Plan) -> Plan:
    """The columns of train. The first row is a header if it is that of train."""
    header = sheet.titles is None and like.titles is not None and first == like.titles
    wide = sheet.width if like.most is not None else None
    least = sheet.width if like.roles == FACT and wide else 1 + max(like.positions[: len(FACT)])
    return Plan(like.roles, like.positions, header, least, wide, titles=like.titles if header else sheet.titles)


def _by_content(sheet: Sheet, first: tuple[str, ...], options: ReadOptions, roles: Roles | None) -> Plan:
    """The columns by what they hold: dates at the end are times, and the relation is where few values are distinct."""
    header = bool(options.header) and sheet.titles is None
    titles = first if header or sheet.titles is not None else None
    sample = sheet.sample().slice(1 if header else 0)
    known, roles = roles is not None, roles or _roles_by_dates(sheet, sample)
    if not _needed(roles) <= sheet.width <= len(roles):
        raise BadInput(wrong_width(sheet, roles))
    if not known and (what := no_names(sample.to_series(2))) is not None and len(sample) >= ENOUGH:
        raise BadInput(
            f"{sheet.origin}: column 2 would be the tail, but it holds {what}; a fact has a head, a relation and a tail. "
            f"{_shown(sheet)}"
        )
    order, warnings = ((0, 1, 2), []) if known else fact_order(sheet.origin, sample)
    positions = (*order, *range(len(FACT), len(roles)))
    least = len(roles) if roles == FACT else 1 + max(order)
    return Plan(roles, positions, header, least, len(roles), titles=titles, warnings=warnings)


def _roles_by_dates(sheet: Sheet, sample: pl.DataFrame) -> Roles:
    """The roles of four or five columns without names: what follows the fact must be dates."""
    for roles in (POINT, INTERVAL):
        if sheet.width == len(roles):
            times = [sample.to_series(at) for at in range(len(FACT), len(roles))]
            if all(look_like_dates(column) for column in times):
                return roles
    return FACT


def _needed(roles: Roles) -> int:
    """How many of the roles every row must have: those after head, relation and tail are optional."""
    return len(FACT) if roles[: len(FACT)] == FACT else len(roles)


def _position(sheet: Sheet, column: int | str, first: tuple[str, ...]) -> int:
    if isinstance(column, int):
        if not 0 <= column < sheet.widest:
            raise BadInput(f"{sheet.origin} has no column {column}: its {sheet.widest} columns are numbered from 0")
        return column
    if column not in first:
        raise BadInput(f"{sheet.origin} has no column {column!r}; its header has {', '.join(map(repr, first[:20]))}")
    if first.count(column) > 1:
        raise BadInput(
            f"{sheet.origin} has {first.count(column)} columns called {column!r}; choose by position, from 0"
        )
    return first.index(column)


def _no_names(sheet: Sheet, first: Sequence[str]) -> str:
    """The error for columns whose titles say nothing."""
    shown = ", ".join(map(repr, first[:20]))
    example = ",".join(first[:3]) if len(first) > 2 else "from,kind,to"
    return (
        f"{sheet.origin} has the columns {shown}, but which are head, relation and tail? "
        f"Choose them, for example --columns {example}"
    )


def wrong_width(sheet: Sheet, roles: Roles) -> str:
    """The error for rows with too many or too few columns."""
    need = f"{len(roles)} are needed ({', '.join(roles)})"
    if sheet.width > len(roles):
        return f"the lines of {sheet.origin} have {sheet.width} columns, but {need}. {_shown(sheet)}"
    columns = "1 column" if sheet.width == 1 else f"{sheet.width} columns"
    if not sheet.separator:
        return f"{sheet.origin} has {columns}, but {need}"
    between = {"\t": "tabs"}.get(
        sheet.separator, repr(sheet.separator) if sheet.separator.isprintable() else "separators"
    )
    return (
        f"the lines of {sheet.origin} have {columns} between {between}, but {need}; if fields are separated by something else, "
        "name it with --separator"
    )


def _shown(sheet: Sheet) -> str:
    """The first row with numbered columns, and which ones to choose."""
    row = ", ".join(f"{at} = {value[:30]!r}" for at, value in enumerate(sheet.first()[:12]))
    columns = suggestion(sheet.sample())
    example = ",".join(map(str, columns)) if columns else "0,1,2"
    choose = f"Choose head, relation and tail, for example --columns {example}, and a time with --time"
    return f"The columns of the first row are {row}. {choose}"
