"""`dura predict`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dura.cli.common import DeviceOption, JsonOption, RunArgument, print_json
from dura.types import BadInput

if TYPE_CHECKING:
    from dura.inference import Question


def predict(
    run: RunArgument,
    head: Annotated[str | None, typer.Option(help="Asks (HEAD, RELATION, ?).")] = None,
    relation: Annotated[str | None, typer.Option(help="The relation of the question.")] = None,
    tail: Annotated[str | None, typer.Option(help="Asks (?, RELATION, TAIL).")] = None,
    time: Annotated[
        str | None,
        typer.Option(
            help="The time of the question, if facts have times, spelled as in the graph, e.g. 2014-05-06 or 1963. "
            "Without it the question is about facts that have no time."
        ),
    ] = None,
    when: Annotated[
        bool, typer.Option("--when", help="Asks (HEAD, RELATION, TAIL, ?): the times at which the fact holds.")
    ] = False,
    k: Annotated[int, typer.Option("-k", "--k", help="How many answers.")] = 10,
    questions: Annotated[
        Path | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="Many questions, one per line: head TAB relation, or head TAB relation TAB tail with ? for the hole. "
            "If facts have times, add TAB time; the time ? asks when.",
        ),
    ] = None,
    known: Annotated[bool, typer.Option("--known", help="Also show known facts, marked as known.")] = False,
    as_json: JsonOption = False,
    device: DeviceOption = "cpu",
) -> None:
    """Answer a question with the best missing facts; known facts are left out.

    Examples:

        dura predict runs/mine --head Berlin --relation located_in

        dura predict runs/mine --tail Germany --relation located_in -k 20 --json

        dura predict runs/mine --head Ann --relation visits --time 2014-05-06

        dura predict runs/mine --head Ann --relation visits --tail Bob --when

        dura predict runs/mine --input questions.tsv --json
    """  # fmt: skip
    from dura import world

    world.join(device=device)
    asked = world.together(lambda: _questions(questions, head, relation, tail, time, when))
    from dura.runs.api import open as open_run

    trained = world.together(lambda: open_run(run, device))
    answers = world.together(lambda: trained.ask(asked, k, known=known))
    if as_json:
        documents = [a.to_dict() for a in answers]
        print_json({"run": str(run), **(documents[0] if questions is None else {"questions": documents})})
        return
    for a in answers:
        all_known = f"every {'time' if a.question.when else 'entity'} is a known answer; --known shows them"
        typer.echo(repr(a) if len(a) else f"{a.asked}\n   {all_known}")


def _questions(
    file: Path | None, head: str | None, relation: str | None, tail: str | None, time: str | None, when: bool
) -> list[Question]:
    """The questions of a file, or the one of the options."""
    from dura.inference.asking import read_questions

    if file is None:
        return [_question(head, relation, tail, time, when)]
    if head or tail or relation or time or when:
        raise BadInput(
            "--input has the questions, so --head, --relation, --tail, --time and --when cannot be given together with it"
        )
    return read_questions(file)


def _question(head: str | None, relation: str | None, tail: str | None, time: str | None, when: bool) -> Question:
    from dura.inference.answers import HOLE, Question

    if when and time is not None:
        raise BadInput("--when asks for the time, so --time cannot be given together with it")
    if when and None in (head, relation, tail):
        raise BadInput("--when asks at which times a fact holds, so it needs --head, --relation and --tail")
    if relation is None:
        raise BadInput("a question needs --relation and either --head or --tail (or --input FILE with many questions)")
    return Question(head, relation, tail, HOLE if when else time)
