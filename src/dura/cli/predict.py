"""`dura predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dura.cli.common import DeviceOption, JsonOption, RunArgument, print_json
from dura.types import BadInput


def predict(
    run: RunArgument,
    head: Annotated[str | None, typer.Option(help="Asks (HEAD, RELATION, ?).")] = None,
    relation: Annotated[str | None, typer.Option(help="The relation of the question.")] = None,
    tail: Annotated[str | None, typer.Option(help="Asks (?, RELATION, TAIL).")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many answers.")] = 10,
    questions: Annotated[
        Path | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="Many questions, one a line: head TAB relation, or head TAB relation TAB tail with ? as the hole.",
        ),
    ] = None,
    known: Annotated[bool, typer.Option("--known", help="Show known facts too, marked as known.")] = False,
    as_json: JsonOption = False,
    device: DeviceOption = "cpu",
) -> None:
    """Answer a question with the best missing facts, known ones left out.

    Examples:

        dura predict runs/mine --head Berlin --relation located_in

        dura predict runs/mine --tail Germany --relation located_in -k 20 --json

        dura predict runs/mine --input questions.tsv --json
    """  # fmt: skip
    from dura.inference.asking import read_questions

    if questions is not None:
        if head or tail or relation:
            raise BadInput("--input brings the questions, so --head, --relation and --tail cannot be given beside it")
        asked = read_questions(questions)
    elif relation is None:
        raise BadInput("a question needs --relation and either --head or --tail (or many questions by --input FILE)")
    else:
        asked = [(head, relation, tail)]
    from dura.experiments.trained import open_run

    answers = open_run(run, device).predict_many(asked, k, known=known)
    if as_json:
        documents = [a.to_dict() for a in answers]
        print_json({"run": str(run), **(documents[0] if questions is None else {"questions": documents})})
        return
    for a in answers:
        typer.echo(repr(a) if len(a) else f"{a.question}\n   every entity is a known answer; --known shows them")
