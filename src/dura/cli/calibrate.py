"""`dura calibrate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dura.cli.common import DeviceOption, JsonOption, QuietOption, RunArgument, counting_bar, print_json


def calibrate(
    run: RunArgument,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also draw a reliability diagram into this file (.png, .svg or .pdf)."),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    device: DeviceOption = "cpu",
) -> None:
    """Give the answers of a run probabilities: fit them on the valid facts, and measure them on the test facts.

    They are kept in RUN/calibration.json. From then on every answer has a probability, and 'dura predict --coverage' shows the
    set of answers that holds a missing answer with the probability that you choose. After 'dura train --resume', calibrate again.

    Examples:

        dura calibrate runs/mine

        dura calibrate runs/mine --figure reliability.png

        dura calibrate runs/mine --json | jq .test.answers.top1.after.ece
    """
    from dura.runs.calibrations import calibrate_run

    with counting_bar("asking", quiet) as progress:
        found = calibrate_run(run, figure=figure, device=device, progress=progress)
    if as_json:
        print_json({"run": str(run), **found.to_dict()})
    else:
        typer.echo(str(found))
