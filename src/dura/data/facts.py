"""Facts: from a sheet to columns of names, with everything told that the user should know.

Rows of a wrong width, empty names and impossible times are bad lines. More distinct relations than make sense, a header that looks
like a fact and a fact that looks like a header are warnings, or an error where training would be nonsense.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from dura.data.content import ENOUGH
from dura.data.dates import Rule, decide
from dura.data.describing import Aspect, Role, described_columns, from_columns
from dura.data.descriptions import Descriptions
from dura.data.readers import FACT, FACTS, ReadOptions, Roles, read_sheet
from dura.data.recognition import Plan, recognise
from dura.data.separated import Lines
from dura.data.sheet import BadLine, BadLines, Sheet, wrong_width
from dura.data.sources.found import Described
from dura.data.times import turned
from dura.types import BadInput, Split

MANY = 0.1
"""More distinct relations than this share of the facts are a warning."""
NONSENSE = 0.5
"""More distinct relations than this share of the facts are an error: hardly any relation would have a second fact."""


GAPS = ("nan", "nat", "null", "none", "n/a", "na", "#n/a", "nil")
"""What other programs write for a missing value, in lower case."""


@dataclass(frozen=True)
class FileColumns:
    """Columns of names, the number of the line that each name is from, and what was noticed while reading.

    `bad` holds the first bad lines (at most ten), `skipped` is the number of all bad lines. `chosen` are the columns that
    were used, if the options choose any. `plan` says what each column of the source is.
    """

    origin: str
    columns: list[pl.Series]
    numbers: pl.Series
    bad: list[BadLine]
    skipped: int
    notes: list[str]
    plan: Plan
    warnings: list[str] = field(default_factory=list)
    entities: Descriptions = field(default_factory=Descriptions)
    relations: Descriptions = field(default_factory=Descriptions)

    @property
    def chosen(self) -> tuple[int | str, ...] | None:
        """The columns that the user chose."""
        return self.plan.chosen

    def __len__(self) -> int:
        return len(self.numbers)


def read_columns(
    path: Path, options: ReadOptions | None = None, roles: Roles | None = None, like: Plan | None = None
) -> FileColumns:
    """Read the columns with these `roles` from a file.

    Without roles, the columns are those of a fact: head, relation and tail; and time, or begin and end, if the options choose
    them, titles name them or columns of dates follow the tail. `like` is the plan of the graph's train facts.
    """
    options = options or ReadOptions()
    return facts_of(read_sheet(path, options), options, roles, like)


def facts_of(
    sheet: Sheet,
    options: ReadOptions,
    roles: Roles | None = None,
    like: Plan | None = None,
    doubt: bool = True,
    hold: bool = False,
) -> FileColumns:
    """The columns of facts in a sheet. Without `doubt`, nobody asks whether they are plausible facts: they may be questions.

    With `hold`, bad lines are no error if there are good ones: the caller finds more of them and reports all together.
    """
    bad = sheet.bad
    assert bad is not None
    if not len(sheet):
        bad.stop(options.skip_bad)
        raise BadInput(f"{sheet.origin} holds no facts")
    plan = recognise(sheet, options, roles, like)
    beside = _beside(plan)
    rows = _fields(sheet, plan, bad, beside)
    bad.stop(options.skip_bad or (hold and len(rows) > 0))
    if not len(rows):
        raise BadInput(f"{sheet.origin} holds no facts")
    columns = [rows[role] for role in plan.roles]
    warnings = [*plan.warnings]
    notes = [*sheet.notes, *plan.notes]
    if doubt and plan.roles[: len(FACT)] == FACT:
        warnings += _implausible(sheet.origin, plan, columns[1], like is not None)
        warnings += _gap_warnings(sheet.origin, columns[0], columns[2])
        warnings += _header_warnings(sheet, plan, options, rows)
        notes = [*sheet.notes, *([] if like else _summary(sheet, plan, columns, beside)), *plan.notes]
    entities, relations = _descriptions(sheet, rows, beside)
    return FileColumns(
        sheet.origin, columns, rows["line"], bad.first, bad.total, notes, plan, warnings, entities, relations
    )


Beside = dict[tuple[Role, Aspect], int]
"""The positions of columns that describe heads, relations and tails."""


def _beside(plan: Plan) -> Beside:
    """The columns that describe what a fact is about, if the titles name both."""
    if plan.titles is None or plan.roles[: len(FACT)] != FACT:
        return {}
    return {what: at for what, at in described_columns(plan.titles).items() if at not in plan.positions}


def _descriptions(sheet: Sheet, rows: pl.DataFrame, beside: Beside) -> tuple[Descriptions, Descriptions]:
    """What the source says about entities and relations, in columns next to the facts or elsewhere."""
    entities, relations = Descriptions(), Descriptions()
    if beside:
        named: dict[Role, pl.Series] = {"head": rows["head"], "relation": rows["relation"], "tail": rows["tail"]}
        texts = {what: rows[f"{what[0]} {what[1]}"] for what in beside}
        one, other = from_columns(sheet.origin, named, texts)
        entities, relations = one.about, other.about
    if isinstance(sheet, Described):
        entities = entities.over(sheet.entities.finished())
        relations = relations.over(sheet.relations.finished())
    return entities, relations


def _fields(sheet: Sheet, plan: Plan, bad: BadLines, beside: Beside) -> pl.DataFrame:
    """The wanted columns of the good rows. Rows of a wrong width or with an empty name are bad."""
    if isinstance(sheet, Lines):
        sheet = of_good_width(sheet, plan, bad)
    fields = sheet.take([*plan.positions, *beside.values()])
    assert sheet.numbers is not None
    titles = [*plan.roles, *(f"{role} {aspect}" for role, aspect in beside)]
    named = [fields.to_series(at).alias(title) for at, title in enumerate(titles)]
    needed = plan.roles[: len(FACT)] if plan.roles[: len(FACT)] == FACT else plan.roles
    rows = pl.DataFrame([sheet.numbers.alias("line"), *named]).slice(1 if plan.header else 0)
    rows = rows.with_columns(pl.col(plan.roles).fill_null(""))
    reasons = [pl.when(pl.col(role) == "").then(pl.lit(f"the {role} is empty")) for role in needed]
    broken = [
        pl.when(pl.col(role).str.contains("\n", literal=True)).then(pl.lit(f"the {role} holds a line break"))
        for role in plan.roles
    ]
    return without(rows, pl.coalesce([*reasons, *broken]), bad)


def of_good_width(sheet: Lines, plan: Plan, bad: BadLines) -> Lines:
    """The lines with as many fields as the plan says."""
    assert sheet.numbers is not None
    fits = sheet.widths >= plan.least
    if plan.most is not None:
        fits &= sheet.widths <= plan.most
    if fits.all():
        return sheet
    wanted = f"at least {plan.least}" if plan.most is None else f"{plan.least} to {plan.most}"
    wanted = str(plan.least) if plan.least == plan.most else wanted
    wrong = pl.DataFrame({"line": sheet.numbers.filter(~fits), "width": sheet.widths.filter(~fits)})
    bad.add(wrong["line"], wrong.select(wrong_width(pl.col("width"), wanted)).to_series())
    return sheet.keep(fits)


def without(lines: pl.DataFrame, reason: pl.Expr, bad: BadLines) -> pl.DataFrame:
    """The lines that are not bad; `reason` is null for a good line."""
    lines = lines.with_columns(reason.alias("reason"))
    wrong = lines.filter(pl.col("reason").is_not_null())
    bad.add(wrong["line"], wrong["reason"])
    return lines.filter(pl.col("reason").is_null()).drop("reason")


def dated(
    parts: Mapping[Split, FileColumns], options: ReadOptions, hold: bool = False
) -> tuple[dict[Split, FileColumns], list[str], list[str]]:
    """The facts of all splits with times in the one spelling that is kept, and notes and warnings. All splits follow one rule.

    Impossible times and intervals that end before they begin are bad lines. `hold` is as in `facts_of`.
    """
    stamps = [column for part in parts.values() for column in part.columns[len(FACT) :]]
    if not stamps:
        return dict(parts), [], []
    parts = {split: _with_gaps(part) for split, part in parts.items()}
    stamps = [column for part in parts.values() for column in part.columns[len(FACT) :]]
    distinct = pl.concat([column.unique() for column in stamps]).unique()
    rule = decide(distinct, time_format=options.time_format, unit=options.time_unit, zone=options.time_zone)
    turned_parts = {split: _dated(part, rule, options.skip_bad, hold) for split, part in parts.items()}
    return turned_parts, list(rule.notes), list(rule.warnings)


def _with_gaps(part: FileColumns) -> FileColumns:
    """The facts with "" for times that other programs write for a missing one."""
    gaps = [column.set(column.str.to_lowercase().is_in(GAPS), "") for column in part.columns[len(FACT) :]]
    return replace(part, columns=[*part.columns[: len(FACT)], *gaps])


def _dated(part: FileColumns, rule: Rule, skip: bool, hold: bool) -> FileColumns:
    """The facts of one split with times as the rule reads them."""
    every = FACTS[len(part.columns) - len(FACT)]
    roles = every[len(FACT) :]
    if not roles or not len(part):
        return part
    readings = [rule.apply(column) for column in part.columns[len(FACT) :]]
    names = [column.alias(role) for column, role in zip(part.columns, FACT, strict=False)]
    times = [reading.times.alias(role) for reading, role in zip(readings, roles, strict=True)]
    reasons = [reading.reasons(role).alias(f"why {role}") for reading, role in zip(readings, roles, strict=True)]
    rows = pl.DataFrame([part.numbers.alias("line"), *names, *times, *reasons])
    bad = BadLines(part.origin, part.skipped, list(part.bad))
    rows = without(rows, pl.coalesce([reason.name for reason in reasons]), bad)
    if len(roles) > 1:
        early = pl.format("the end {} is before the begin {}", "end", "begin")
        rows = without(rows, pl.when(turned(rows["begin"], rows["end"])).then(early), bad)
    if bad.total > part.skipped:
        bad.stop(skip or (hold and len(rows) > 0))
    if not len(rows):
        raise BadInput(f"{part.origin} holds no facts")
    columns = [rows[role] for role in every]
    return replace(part, columns=columns, numbers=rows["line"], bad=bad.first, skipped=bad.total)


# -- what the user is told ----------------------------------------------------------------------------------------------


def _summary(sheet: Sheet, plan: Plan, columns: list[pl.Series], beside: Beside) -> list[str]:
    """Which column is used for what, which are not used, and one fact."""
    described = "".join(f", {aspect} of the {role} = {plan.title(at)}" for (role, aspect), at in beside.items())
    used = ", ".join(f"{role} = {plan.title(at)}" for role, at in zip(plan.roles, plan.positions, strict=True))
    unused = [plan.title(at) for at in range(sheet.width) if at not in (*plan.positions, *beside.values())]
    more = f"; not used: {', '.join(unused[:5])}{' and more' if len(unused) > 5 else ''}" if unused else ""
    fact = ", ".join(value[:60] for value in (column[0] for column in columns) if value)
    return [f"{Path(sheet.origin).name}: {used}{described}{more}; for example ({fact})"]


def _implausible(origin: str, plan: Plan, relations: pl.Series, later: bool) -> list[str]:
    """A warning for more relations than make sense; an error if hardly one has a second fact and nobody chose the column."""
    count, distinct = len(relations), relations.n_unique()
    if later or count < 2 * ENOUGH or distinct <= MANY * count:
        return []
    column = plan.title(plan.positions[1])
    found = f"{origin}: the relation ({column}) has {distinct:,} distinct values in {count:,} facts"
    if distinct > NONSENSE * count and plan.chosen is None:
        raise BadInput(
            f"{found}, so nothing could be learnt; choose the columns of head, relation and tail with --columns"
        )
    return [f"{found}; if another column is the relation, choose the columns with --columns"]


def _gap_warnings(origin: str, heads: pl.Series, tails: pl.Series) -> list[str]:
    """A warning for a name that means a missing value in other programs. In a graph it would link what has nothing in common."""
    for role, names in (("head", heads), ("tail", tails)):
        found = names.filter(names.str.to_lowercase().is_in(GAPS))
        if len(found) > 1:
            many = f"{origin}: {len(found):,} facts have the {role} {found[0]!r}, as if it were a name"
            return [f"{many}; if it means a missing value, empty these fields and use --skip-bad"]
    return []


def _header_warnings(sheet: Sheet, plan: Plan, options: ReadOptions, rows: pl.DataFrame) -> list[str]:
    """A warning if a header looks like a fact, or a fact like a header."""
    if sheet.titles is not None or len(rows) < ENOUGH:
        return []
    first = sheet.first()
    titles = [first[at] if at < len(first) else "" for at in plan.positions[: len(FACT)]]
    relation = rows["relation"]
    if plan.header:
        again = rows.filter(pl.all_horizontal(pl.col(role) == title for role, title in zip(FACT, titles, strict=True)))
        if len(again):
            line = again["line"][0]
            return [f"{sheet.origin}: line {line} repeats the header and is read as a fact; delete it if it is none"]
        if options.header and bool((relation == titles[1]).any()):
            return [
                f"{sheet.origin}: the first line is read as a header, but looks like a fact; if it is one: --header no"
            ]
        return []
    names = pl.concat([rows["head"], rows["tail"]])
    alone = int((relation == titles[1]).sum()) == 1 and int(names.is_in([titles[0], titles[2]]).sum()) == 2
    others = len(relation) / max(1, relation.n_unique())
    if not alone or others < 5 or rows["line"][0] != sheet.numbers[0]:  # type: ignore[index]
        return []
    shown = ", ".join(titles)
    return [
        f"{sheet.origin}: the first line ({shown}) is read as a fact, but looks like a header; if it is one: --header yes"
    ]
