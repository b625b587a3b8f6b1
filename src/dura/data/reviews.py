"""Reviews: what people decided about facts: accepted or rejected.

A file of decisions has a header with the columns head, relation, tail, decision and, if facts have times, time. Other columns do
not matter. `RUN/reviews.csv` is such a file, which `dura review` adds lines to. A later line about a fact counts more than an
earlier one.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dura.data.dates import respelled
from dura.data.questions import Questions
from dura.data.readers import ReadOptions, read_sheet
from dura.data.sheet import SHOWN, Sheet
from dura.types import SPLITS, BadInput, IntArray

if TYPE_CHECKING:
    from dura.data.graph import Graph

FILE = "reviews.csv"
"""The decisions about the answers of a run, in its folder."""
COLUMNS = ("head", "relation", "tail", "time", "decision", "when", "trained")
ACCEPT, REJECT, WITHDRAW = "accept", "reject", "withdraw"
"""A withdrawn decision counts as if it had never been made."""
_WORDS = {
    **dict.fromkeys(("accept", "accepted", "yes", "y", "1", "1.0", "true"), ACCEPT),
    **dict.fromkeys(("reject", "rejected", "no", "n", "0", "0.0", "false"), REJECT),
    **dict.fromkeys(("withdraw", "withdrawn", "undo"), WITHDRAW),
}


@dataclass(frozen=True)
class Reviews:
    """Accepted and rejected facts [n, 3], or [n, 4] with a time, as ids."""

    accepted: IntArray
    rejected: IntArray
    relations: int
    """How many relations the graph has."""

    def renumbered(self, ids: IntArray) -> Reviews:
        """The same facts if entity i has the number ids[i]."""

        def moved(facts: IntArray) -> IntArray:
            return np.column_stack([ids[facts[:, 0]], facts[:, 1], ids[facts[:, 2]], facts[:, 3:]]).astype(facts.dtype)

        return replace(self, accepted=moved(self.accepted), rejected=moved(self.rejected))

    @cached_property
    def judged(self) -> Questions:
        """The questions of all judged facts, in both directions."""
        return Questions.of(np.concatenate([self.accepted, self.rejected]), relations=self.relations)

    @cached_property
    def agreed(self) -> Questions:
        """The questions of the accepted facts, in both directions."""
        return Questions.of(self.accepted, relations=self.relations)

    @cached_property
    def refused(self) -> Questions:
        """The questions of the rejected facts, in both directions."""
        return Questions.of(self.rejected, relations=self.relations)


@dataclass(frozen=True)
class Decision:
    """What was decided about one fact, by names. The time is empty if the fact has none."""

    head: str
    relation: str
    tail: str
    time: str
    decision: str
    when: str = ""
    """When it was taken in."""
    trained: str = ""
    """"yes" if the run was trained with it."""

    @property
    def fact(self) -> tuple[str, str, str, str]:
        """The fact alone."""
        return self.head, self.relation, self.tail, self.time

    def to_dict(self) -> dict[str, str]:
        """The fact and the decision as plain values. The time, and when it was taken in, only if they are known."""
        own = dict(zip(COLUMNS, (*self.fact, self.decision, self.when), strict=False))
        return {key: value for key, value in own.items() if value or key in ("head", "relation", "tail")}


@dataclass(frozen=True)
class Read:
    """The decisions of a file, with their lines, the number of lines without a decision, and what is wrong, by lines."""

    decisions: list[Decision]
    lines: list[int]
    undecided: int
    wrong: list[tuple[int, str]]


def read_decisions(path: Path, *, complete: bool = False) -> Read:
    """Read a file of decisions. All bad lines are reported at once, each with its number.

    If the file is to be `complete`, a line that is cut short or has no decision is bad too.
    """
    read = read_lines(path, complete=complete)
    stop([text for _, text in read.wrong])
    return read


def read_lines(path: Path, *, complete: bool = False) -> Read:
    """`read_decisions`, but bad lines are in the result. So a caller can find out what else is wrong before it reports them."""
    sheet = read_sheet(path, ReadOptions())
    if ";" in "".join((first := _header(sheet))[:1]) and not any(first[1:]):  # what some spreadsheets make of CSV
        sheet = read_sheet(path, ReadOptions(separator=";"))
    assert sheet.numbers is not None
    assert sheet.bad is not None
    titles = [title.strip().lower() for title in _header(sheet)]
    wrong = [(bad.line, str(bad)) for bad in sheet.bad.first]
    if missing := [title for title in ("head", "relation", "tail", "decision") if title not in titles]:
        stop([text for line, text in wrong if line == 1])  # then the first line that was read is not the header
        raise BadInput(
            f"{path} has no column {missing[0]!r}; its first line must name head, relation, tail and decision"
        )
    titles = ["time" if title == "begin" and "time" not in titles else title for title in titles]
    wanted = [title for title in COLUMNS if title in titles]
    rows = sheet.take([titles.index(title) for title in wanted])
    found, lines, undecided = [], [], 0
    skip = 0 if sheet.titles is not None else 1
    for line, row in list(zip(sheet.numbers.to_list(), rows.iter_rows(), strict=True))[skip:]:
        fields = {title: value or "" for title, value in zip(wanted, row, strict=True)}
        if complete and None in row:
            wrong.append((line, f"{path}:{line}: the line is cut short"))
        elif not complete and not fields["decision"].strip():
            undecided += 1
        elif fault := _fault(fields):
            wrong.append((line, f"{path}:{line}: {fault}"))
        else:
            word = _WORDS[fields["decision"].strip().lower()]
            found.append(Decision(**{"time": "", **fields, "decision": word}))
            lines.append(line)
    return Read(found, lines, undecided, wrong)


def _header(sheet: Sheet) -> list[str]:
    """The titles, or the fields of the first line, also if most lines have fewer."""
    if sheet.titles is not None or not len(sheet.rows):
        return sheet.first()
    return [value or "" for value in sheet.take(range(sheet.widest)).row(0)]


def _fault(fields: dict[str, str]) -> str:
    """What is wrong with a line; empty if nothing is."""
    if fields["decision"].strip().lower() not in _WORDS:
        return f"the decision {fields['decision']!r} is not known; write accept, reject or withdraw"
    gaps = [title for title in ("head", "relation", "tail") if not fields[title]]
    return f"the {gaps[0]} is missing" if gaps else ""


def stop(wrong: Sequence[str]) -> None:
    """Report wrong lines: all are counted, the first few are shown."""
    if len(wrong) == 1:
        raise BadInput(wrong[0])
    if wrong:
        more = f"\n  and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        shown = "\n  ".join(wrong[:SHOWN])
        raise BadInput(f"{len(wrong):,} lines are bad:\n  {shown}{more}")


def named(graph: Graph, path: Path, read: Read) -> list[Decision]:
    """The decisions by the names of the graph, each fact once. All bad lines, unknown names and contradictions are reported."""
    wrong, found = list(read.wrong), dict[tuple[str, str, str, str], tuple[int, Decision]]()
    for line, given in zip(read.lines, read.decisions, strict=True):
        try:
            own = checked(graph, given)
        except BadInput as error:
            wrong.append((line, f"{path}:{line}: {error}"))
            continue
        before = found.setdefault(own.fact, (line, own))
        if before[1].decision != own.decision:
            fact = ", ".join(part for part in own.fact if part)
            both = f"is to be {own.decision}ed here and {before[1].decision}ed in line {before[0]}"
            wrong.append((line, f"{path}:{line}: ({fact}) {both}"))
    stop([text for _, text in sorted(wrong)])
    return [decision for _, decision in found.values()]


def checked(graph: Graph, given: Decision) -> Decision:
    """A decision with the names of entities and relations instead of their labels, and the graph's own spelling of the time."""
    if given.time and graph.times is None:
        raise BadInput(f"the facts of this graph have no times, but this one has the time {given.time!r}")
    if graph.times is not None and not given.time and not graph.times.no_time:
        raise BadInput("every fact of this graph has a time, but this one has none; fill in the column 'time'")
    head, tail = (graph.entities.name(graph.entity(name)) for name in (given.head, given.tail))
    time = "" if graph.times is None else graph.times.name(graph.times.id(respelled(graph.times, given.time)))
    return replace(
        given, head=head, relation=graph.relations.name(graph.relation(given.relation)), tail=tail, time=time
    )


def latest(decisions: Iterable[Decision]) -> list[Decision]:
    """The last decision about each fact, unless it was withdrawn."""
    last = {decision.fact: decision for decision in decisions}
    return [decision for decision in last.values() if decision.decision != WITHDRAW]


def as_ids(graph: Graph, decisions: Iterable[Decision]) -> Reviews:
    """Decisions by names as ids of the graph."""
    rows: dict[str, list[tuple[int, ...]]] = {ACCEPT: [], REJECT: []}
    for d in decisions:
        time = () if graph.times is None else (graph.times.id(d.time),)
        rows[d.decision].append(
            (graph.entities.id(d.head), graph.relations.id(d.relation), graph.entities.id(d.tail), *time)
        )
    width = 3 if graph.times is None else 4
    accepted, rejected = (np.array(rows[key], dtype=np.int32).reshape(-1, width) for key in (ACCEPT, REJECT))
    return Reviews(accepted, rejected, len(graph.relations))


def as_csv(decisions: Iterable[Decision], header: bool = True) -> bytes:
    """The lines of a file of decisions."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([COLUMNS] if header else [])
    writer.writerows([getattr(decision, title) for title in COLUMNS] for decision in decisions)
    return text.getvalue().encode()


# -- training ----------------------------------------------------------------------------------------------------------


def with_reviews(graph: Graph, source: str) -> tuple[Graph, list[str]]:
    """The graph with the accepted facts in train and without the rejected ones, which are in `reviews`; and what is worth knowing.

    `source` is a file of decisions or the folder of a run that has some. Facts with names that the graph does not have are left
    out.
    """
    own = Path(source).is_dir()
    path = Path(source) / FILE if own else Path(source)
    if not path.exists():
        raise BadInput(
            f"there are no reviews: {path} does not exist; dura review RUN FILE makes them, or name another one"
        )
    read, known, strange = read_decisions(path, complete=own), list[Decision](), 0
    for decision in latest(read.decisions):
        try:
            known.append(checked(graph, decision))
        except BadInput:
            strange += 1
    reviews = as_ids(graph, latest(known))
    accepted = new_facts(graph, reviews.accepted)
    train, valid, test = (graph.facts(split)[~_holds(graph.facts(split), reviews.rejected)] for split in SPLITS)
    gone = sum(len(graph.facts(split)) for split in SPLITS) - len(train) - len(valid) - len(test)
    there = len(reviews.accepted) - len(accepted)
    others = f", {there:,} are in the graph" if there else ""
    notes = [f"{path}: {len(accepted):,} accepted facts are added to train{others}"]
    if len(reviews.rejected):
        held = f"{len(reviews.rejected):,} rejected facts are held down"
        notes.append(f"{path}: {held}; {gone:,} were in the graph and are taken out")
    if strange:
        notes.append(f"{path}: {strange:,} facts are left out, because the graph does not have their names")
    ends = accepted[:, 3:] if graph.intervals else accepted[:, :0]
    train = np.concatenate([train, np.column_stack([accepted, ends]).astype(graph.train.dtype)])
    return replace(graph, train=train, valid=valid, test=test, home=None, reviews=reviews), notes


def new_facts(graph: Graph, facts: IntArray) -> IntArray:
    """The facts that are in no split."""
    there = graph.known.known(facts[:, 0], facts[:, 1], facts[:, 3] if facts.shape[1] > 3 else None)
    same = np.bincount(there.question[there.answers == facts[there.question, 2]], minlength=len(facts))
    new: IntArray = facts[same == 0]
    return new


def _holds(facts: IntArray, some: IntArray) -> NDArray[np.bool_]:
    """True for facts that are among some others. A fact of an interval is if one of its times is."""
    held = np.zeros(len(facts), dtype=bool)
    for fact in some:
        same = (facts[:, :3] == fact[:3]).all(axis=1)
        if facts.shape[1] > 3:
            same &= (facts[:, 3] <= fact[3]) & (fact[3] <= facts[:, -1])
        held |= same
    return held
