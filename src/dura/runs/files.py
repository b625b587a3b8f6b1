"""Files: the questions or facts of a file, answered or scored as a stream. Memory does not grow with the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from dura import world
from dura.data.appending import APPENDERS, STANDARD_OUTPUT, Schema, appending, check_output
from dura.data.opening import STANDARD_INPUT, name_of
from dura.data.readers import ReadOptions
from dura.data.separated import one_character
from dura.data.streams import fact_rows, question_rows
from dura.inference.answers import Answers, TimeAnswers, Wanted
from dura.inference.asking import Reply, replies
from dura.inference.scored import ScoredFact, score_rows
from dura.types import BadInput

if TYPE_CHECKING:
    from dura.data.readers import ColumnChoice
    from dura.runs.answering import Answering

TOLD = 100
"""How many bad rows are told one by one. All are counted."""
Watch = Callable[[int], None]
"""Is called with the number of rows so far."""
Notify = Callable[[str], None]
"""Is called with a sentence for each bad row, file:line first."""


@dataclass
class Tally:
    """How many rows of a file were answered or scored, and how many were bad."""

    done: int = 0
    bad: int = 0

    def __str__(self) -> str:
        return f"{self.done:,} of {self.done + self.bad:,} lines are done; {self.bad:,} {'is' if self.bad == 1 else 'are'} bad"


@dataclass
class Stream:
    """Replies to the rows of a file. What is bad is counted and told as the replies pass."""

    source: Path
    replies: Iterator[Reply]
    columns: Schema
    rows: Callable[[Reply], list[dict[str, Any]]]
    """What a reply is in a table."""
    notify: Notify | None = None
    progress: Watch | None = None

    def __post_init__(self) -> None:
        self.tally = Tally()

    def __iter__(self) -> Iterator[Reply]:
        tally = self.tally
        for reply in self.replies:
            if reply.found is None:
                self._tell(reply)
                tally.bad += 1
            else:
                tally.done += 1
            if self.progress is not None:
                self.progress(tally.done + tally.bad)
            yield reply
        if not tally.done + tally.bad:
            raise BadInput(f"{name_of(self.source)} is empty: it holds nothing but a header or blank lines")

    def _tell(self, reply: Reply) -> None:
        if self.notify is not None and self.tally.bad < TOLD:
            self.notify(f"{name_of(self.source)}:{reply.line}: {reply.wrong}")
        elif self.notify is not None and self.tally.bad == TOLD:
            self.notify("further bad lines are only counted")

    def write(self, output: Path) -> Tally:
        """Write all replies into a file: tables have one row per answer or fact, JSON Lines one object per line of the source."""
        world.alone("writing answers into a file")
        with appending(output, self.columns) as file:
            for reply in self:
                file.add([reply.to_dict()] if file.nested else self.rows(reply))
        return self.tally


def answers(
    trained: Answering,
    source: str | Path,
    wanted: Wanted,
    *,
    explain: bool = False,
    output: Path | None = None,
    notify: Notify | None = None,
    progress: Watch | None = None,
) -> Stream:
    """The answers to the questions of a file. `output` is checked before the work, if answers will be written there."""
    path = _checked(source, output)
    if explain and output is not None and output != STANDARD_OUTPUT and not APPENDERS[output.suffix.lower()].nested:
        raise BadInput(f"explanations do not fit into a table such as {output}; write .jsonl instead")
    asker = trained.asker(wanted)
    found = replies(asker, question_rows(path, ReadOptions()))
    if explain:
        found = (_explained(trained, reply) for reply in found)
    return Stream(path, found, _answer_columns(trained), _answer_rows, notify, progress)


def scores(
    trained: Answering,
    source: str | Path,
    options: ReadOptions | None = None,
    *,
    output: Path | None = None,
    notify: Notify | None = None,
    progress: Watch | None = None,
) -> Stream:
    """The scores of the facts of a file."""
    path = _checked(source, output)
    found = score_rows(trained.model, trained.graph, fact_rows(path, options or ReadOptions()), trained.calibration)
    return Stream(path, found, _score_columns(trained), _score_row, notify, progress)


def fact_options(columns: ColumnChoice | None, separator: str | None, form: str) -> ReadOptions:
    """How a file of facts is read: its columns, what separates fields (a character, or a word such as tab), and its format."""
    return ReadOptions(columns=columns, separator=None if separator is None else one_character(separator), format=form)


def _explained(trained: Answering, reply: Reply) -> Reply:
    """The reply with explanations, if it has answers that are entities."""
    found = reply.found
    return replace(reply, found=trained.explained(found)) if isinstance(found, Answers) else reply


def _checked(source: str | Path, output: Path | None) -> Path:
    path = Path(source)
    if path == STANDARD_INPUT:
        world.alone("reading standard input")
    if output is not None:
        check_output(output)
    return path


def _fact_columns(trained: Answering) -> dict[str, type[pl.DataType]]:
    return dict.fromkeys(["head", "relation", "tail", *(["time"] if trained.graph.times else [])], pl.String)


def _answer_columns(trained: Answering) -> Schema:
    more = {"score": pl.Float64, "rank": pl.Int64, "known": pl.Boolean, "label": pl.String}
    if trained.calibration is not None:
        more |= {"probability": pl.Float64, "contradicts": pl.Boolean}
    return {"line": pl.Int64, "asked": pl.String, **_fact_columns(trained), **more}


def _score_columns(trained: Answering) -> Schema:
    more: dict[str, type[pl.DataType]] = {"score": pl.Float64, "known": pl.Boolean, "rejected": pl.Boolean}
    if trained.calibration is not None:
        more |= {"probability": pl.Float64, "contradicts": pl.Boolean}
    return {"line": pl.Int64, **_fact_columns(trained), **more}


def _answer_rows(reply: Reply) -> list[dict[str, Any]]:
    """One row per answer: the fact that it makes, which part was asked for, and what is known of the answer."""
    found = reply.found
    if not isinstance(found, Answers | TimeAnswers):
        return []
    q = found.question
    asked = "time" if isinstance(found, TimeAnswers) else "head" if q.head is None else "tail"
    fact = {"line": reply.line, "asked": asked, "head": q.head, "relation": q.relation, "tail": q.tail, "time": q.time}
    return [fact | answer.to_dict() | {asked: answer.name} for answer in found]


def _score_row(reply: Reply) -> list[dict[str, Any]]:
    return [{"line": reply.line, **vars(reply.found)}] if isinstance(reply.found, ScoredFact) else []
