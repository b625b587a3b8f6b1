"""`dura predict`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dura.cli.common import DeviceOption, JsonOption, QuietOption, RunArgument, print_json, say
from dura.cli.streaming import OutputOption, deliver
from dura.types import BadInput

if TYPE_CHECKING:
    from dura.inference import Answers, Question, TimeAnswers


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
            "If facts have times, add TAB time; the time ? asks when. Also CSV, JSON Lines and Parquet; - is standard input.",
        ),
    ] = None,
    output: OutputOption = None,
    known: Annotated[bool, typer.Option("--known", help="Also show known facts, marked as known.")] = False,
    among: Annotated[
        Path | None,
        typer.Option(
            "--among", metavar="FILE", help="Only answers among these entities: names or labels, one per line."
        ),
    ] = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Only entities of this type; may be repeated to allow several.")
    ] = None,
    in_range: Annotated[
        bool, typer.Option("--in-range", help="Only answers that training facts have with this relation on this side.")
    ] = False,
    min_probability: Annotated[
        float | None, typer.Option(help="Only answers that are at least this probable; see 'dura calibrate'.")
    ] = None,
    coverage: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Only the set of new answers that holds a missing answer with this probability, e.g. 0.9 "
            "(the -k best of it); see 'dura calibrate'.",
        ),
    ] = None,
    approximate: Annotated[
        bool,
        typer.Option("--approximate", help="Find answers by the index of 'dura index': faster, but one may be missed."),
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say for each answer why the model gives it; see 'dura explain'.")
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    device: DeviceOption = "cpu",
) -> None:
    """Answer a question with the best missing facts; known facts are left out.

    Examples:

        dura predict runs/mine --head Berlin --relation located_in

        dura predict runs/mine --tail Germany --relation located_in -k 20 --json

        dura predict runs/mine --head Ann --relation visits --time 2014-05-06

        dura predict runs/mine --head Ann --relation visits --tail Bob --when

        dura predict runs/mine --head Berlin --relation located_in --type country --in-range

        dura predict runs/mine --input questions.csv --output answers.parquet

        dura predict runs/mine --head Berlin --relation located_in -k 3 --explain
    """  # fmt: skip
    from dura import world

    world.join(device=device)
    if questions is not None and any((head, tail, relation, time, when)):
        raise BadInput(
            "--input has the questions, so --head, --relation, --tail, --time and --when cannot be given together with it"
        )
    if explain and when:
        raise BadInput("--explain explains entities, but --when asks for times; leave one of them out")
    if questions is None and output is not None:
        raise BadInput("--output is for the questions of a file; name it with --input")
    question = world.together(lambda: None if questions else _question(head, relation, tail, time, when))
    from dura.inference import Wanted
    from dura.runs.api import open as open_run

    trained = world.together(lambda: open_run(run, device))
    names = world.together(lambda: _names(among, questions))
    wanted = world.together(
        lambda: Wanted(k, known, names, types or (), in_range, min_probability, coverage, approximate)
    )
    if question is not None:
        one = world.together(lambda: trained.ask_wanted([question], wanted)[0])
        if explain:
            one = world.together(lambda: trained.explained(one))  # type: ignore[arg-type]
        print_json({"run": str(run), **one.to_dict()}) if as_json else typer.echo(_text(one, wanted.restricted))
        return
    from dura.runs.files import answers

    assert questions is not None
    world.together(
        lambda: deliver(
            lambda progress: answers(
                trained, questions, wanted, explain=explain, output=output, notify=say, progress=progress
            ),
            output,
            ({"run": str(run)}, "questions") if as_json else None,
            lambda reply: _text(reply.found, wanted.restricted),  # type: ignore[arg-type]
            quiet=quiet,
        )
    )


def _text(answers: Answers | TimeAnswers, restricted: bool) -> str:
    if len(answers):
        return repr(answers)
    none = f"every {'time' if answers.question.when else 'entity'} is a known answer; --known shows them"
    if restricted:
        none = "no answer is left: none passes the restrictions and is not known already (--known shows known ones)"
    if answers.set_size == 0:
        none = "the set is empty: no new answer is as probable as those that make up sets of this coverage"
    return f"{answers.asked}\n   {none}"


def _names(file: Path | None, questions: Path | None) -> list[str] | None:
    """The names that answers may be among; None if there is no file of them."""
    if file is None:
        return None
    from dura.inference.asking import read_names

    if file == questions and str(file) == "-":
        raise BadInput("standard input can be read only once, by --input or by --among")
    return read_names(file)


def _question(head: str | None, relation: str | None, tail: str | None, time: str | None, when: bool) -> Question:
    from dura.inference.answers import HOLE, Question

    if when and time is not None:
        raise BadInput("--when asks for the time, so --time cannot be given together with it")
    if when and None in (head, relation, tail):
        raise BadInput("--when asks at which times a fact holds, so it needs --head, --relation and --tail")
    if relation is None:
        raise BadInput("a question needs --relation and either --head or --tail (or --input FILE with many questions)")
    return Question(head, relation, tail, HOLE if when else time)
