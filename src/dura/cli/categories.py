"""`dura study categories`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dura.cli.common import DeviceOption, JsonOption, QuietOption, check_out, counting_bar, print_json, say
from dura.cli.evaluate import SplitName


def categories(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders of one graph, side by side.")],
    split: Annotated[SplitName, typer.Option(help="The facts to rank.")] = SplitName.test,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for the tables and the figure.")] = Path(
        "studies/categories"
    ),
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    device: DeviceOption = "cpu",
) -> None:
    """MRR by relation category (1-1, 1-N, N-1, N-N) of several runs side by side, also by the side that was asked for.

    Writes categories.md, .csv, .json, .png and .svg, and categories-sides.md, .csv and .json.

    Examples:

        dura study categories runs/none runs/dura-i runs/dura-ii runs/dura

        dura study categories runs/none runs/dura --split valid --out studies/mine
    """
    from dura.reports import studies
    from dura.studies.studies import categories as study_categories

    check_out(out)
    with counting_bar("ranking", quiet) as progress:
        study = study_categories(runs, split.value, device=device, progress=progress)
    sheet, sides = studies.category_sheet(study), studies.category_sheet(study, "category-side")
    files = [*sheet.write(out, "categories", **study), *sides.write(out, "categories-sides")]
    files += [studies.draw_categories(study, out / f"categories.{ending}") for ending in ("png", "svg")]
    if as_json:
        print_json({**sheet.document(), **study, "files": [str(file) for file in files]})
    else:
        typer.echo(f"{sheet.terminal()}\n\n{sides.terminal()}")
    if not quiet:
        say(f"dura: wrote {', '.join(file.name for file in files)} into {out}")
