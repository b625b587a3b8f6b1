"""`dura map`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from dura.cli.common import DeviceOption, JsonOption, QuietOption, RunArgument, counting_bar, print_json


class Method(StrEnum):
    """How rows become places."""

    tsne = "tsne"
    pca = "pca"


def map_(
    run: RunArgument,
    method: Annotated[
        Method, typer.Option(help="tsne shows groups of similar entities; pca takes a second.")
    ] = Method.tsne,
    perplexity: Annotated[float, typer.Option(help="About how many neighbours each entity has, for tsne.")] = 30.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same map.")] = 0,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    device: DeviceOption = "cpu",
) -> None:
    """Give every entity a place in the plane, so that similar entities are near each other. The page of 'dura serve' shows it.

    The places are kept in RUN/map.json. Of more than 50,000 entities, those with most facts get one. After more training, make the
    map again. The method tsne needs the extra 'map'.

    Examples:

        dura map runs/mine

        dura map runs/mine --method pca --json
    """  # fmt: skip
    from dura.runs.api import open as open_run

    with counting_bar("placing", quiet) as progress:
        done = open_run(run, device).map(method=method.value, perplexity=perplexity, seed=seed, progress=progress)
    if as_json:
        about = {"method": done.method, "entities": len(done), "left_out": done.left_out, "seconds": done.seconds}
        print_json({"run": str(run), "file": str(done.path), **about})
        return
    left = f"; {done.left_out:,} with fewer facts are left out" if done.left_out else ""
    typer.echo(f"{len(done):,} entities placed by {done.method} in {done.seconds:.1f} s{left}")
    typer.echo(f"map in {done.path}; dura serve {run} shows it")
