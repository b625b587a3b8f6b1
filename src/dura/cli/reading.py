"""The options that say how a graph is read. All commands that read one have the same."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from dura.config.sections import Splitting, Unit


@dataclass(frozen=True)
class Reading:
    """How a graph is read and split; None stands for what dura finds by itself."""

    columns: Annotated[
        str | None,
        typer.Option(
            help="The columns of head, relation, tail: positions from 0 or titles, e.g. 0,2,1 or from,link,to; "
            "for facts with times also time, or begin and end."
        ),
    ] = None
    time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The column of times, or the two columns of begin and end, e.g. 3, date or begin,end. "
            "Head, relation and tail are --columns, or recognised.",
        ),
    ] = None
    header: Annotated[
        str | None, typer.Option(metavar="yes|no", help="Whether the first line is a header [default: recognised].")
    ] = None
    separator: Annotated[
        str | None, typer.Option(metavar="CHARACTER", help="What separates fields, e.g. ';' or tab or pipe.")
    ] = None
    format: Annotated[
        str | None,
        typer.Option(metavar="ENDING", help="The format, e.g. csv or nt, if the file's ending does not say it."),
    ] = None
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip bad lines and say how many there were.")] = False
    time_format: Annotated[
        str | None, typer.Option(metavar="FORM", help="How times are written, e.g. DD.MM.YYYY or MM/DD/YYYY.")
    ] = None
    time_unit: Annotated[
        Unit | None, typer.Option(help="Cut times to this unit [default: date-times become days].")
    ] = None
    time_zone: Annotated[
        str | None,
        typer.Option(metavar="ZONE", help="The zone in which days begin, e.g. Europe/Berlin [default: UTC]."),
    ] = None
    split: Annotated[
        Splitting | None,
        typer.Option(
            help="Which facts are held out for valid and test, if the graph comes without: random ones, groups that give each "
            "other away, a share of each relation, or the latest [default: random]."
        ),
    ] = None
    entities: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A file with labels, types and descriptions of entities."),
    ] = None
    relations: Annotated[str | None, typer.Option(metavar="FILE", help="The same for relations.")] = None
    query: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT|@FILE", help="The SQL or SPARQL query whose rows are the facts, if a database is read."
        ),
    ] = None
    most_gb: Annotated[
        float | None, typer.Option(metavar="GB", help="Refuse files that hold more when unpacked [default: 4].")
    ] = None

    def settings(self) -> dict[str, Any]:
        """What was given, as settings of a graph. The time is no setting: its column is found first."""
        given = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "time"}
        if self.columns is not None:
            from dura.data.readers import one_by_one

            given["columns"] = one_by_one(self.columns)
        if self.separator is not None:
            from dura.data.separated import one_character

            given["separator"] = one_character(self.separator)
        return {f"graph.{name}": value for name, value in given.items() if value is not None and value is not False}

    def graph(self, source: str) -> Any:
        """The settings of a graph with this source."""
        from dura.config import Experiment

        return Experiment().with_values({"graph.source": source, **self.settings()}).graph


def reads_a_graph(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameter `reading` becomes one option per field of Reading."""
    hints = get_type_hints(Reading, include_extras=True)
    options = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(Reading)
    ]
    signature = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.name == "reading":
            parameters += options
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(command)
    def told(**given: Any) -> None:
        reading = Reading(**{field.name: given.pop(field.name) for field in fields(Reading)})
        command(**given, reading=reading)

    told.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    told.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return told
