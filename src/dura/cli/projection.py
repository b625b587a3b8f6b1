"""`dura study projection`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dura.cli.common import DeviceOption, JsonOption, QuietOption, check_out, counting_bar, print_json, say


def projection(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders of one graph; a picture each.")],
    questions: Annotated[
        str,
        typer.Option(
            metavar="paper|drawn|FILE",
            help="The paper's ten (FB15k-237 with labels), ten drawn by the seed, or a file as 'dura predict --input' takes it; "
            "auto is the paper's where the graph has them, else drawn.",
        ),
    ] = "auto",
    seed: Annotated[int, typer.Option(min=0, help="Of the drawn questions and answers and of the picture.")] = 0,
    more_than: Annotated[int, typer.Option(min=1, help="Drawn questions have more known answers than this.")] = 50,
    answers: Annotated[
        int, typer.Option(min=2, help="Show at most so many answers a question, drawn by the seed.")
    ] = 200,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for the tables and the figure.")] = Path(
        "studies/projection"
    ),
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    device: DeviceOption = "cpu",
) -> None:
    """Show the answers of ten questions in two dimensions (t-SNE), and say how near those of the same question are.

    Under each picture: silhouettes in the space of the embeddings and in the picture, mean cosines within and between questions.
    Writes projection.md, .csv, .json (with the coordinates), .png and .svg, and projection-questions.md, .csv and .json.

    Examples:

        dura study projection runs/none runs/dura

        dura study projection runs/mine --questions drawn --more-than 20 --seed 1

        dura study projection runs/none runs/dura --questions mine.tsv --answers 100
    """
    from dura.reports import studies
    from dura.studies.studies import projection as study_projection

    check_out(out)
    with counting_bar("pictures", quiet) as progress:
        study = study_projection(
            runs, questions=questions, seed=seed, more_than=more_than, most=answers, device=device, progress=progress
        )
    sheet, asked = studies.projection_sheet(study), studies.question_sheet(study)
    files = [*sheet.write(out, "projection", **study), *asked.write(out, "projection-questions")]
    files += [studies.draw_projection(study, out / f"projection.{ending}") for ending in ("png", "svg")]
    if as_json:
        print_json({**sheet.document(), **study, "files": [str(file) for file in files]})
    else:
        typer.echo(f"{sheet.terminal()}\n\n{asked.terminal()}")
    if not quiet:
        say(f"dura: wrote {', '.join(file.name for file in files)} into {out}")
