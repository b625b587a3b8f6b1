"""`dura serve`. FastAPI is imported only when the service starts, so help works without it."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from dura.types import DuraError


def serve(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder made by 'dura train' or 'dura export'.")],
    host: Annotated[
        str,
        typer.Option(help="The address to listen at. With 0.0.0.0 other machines can ask too; there is no password."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes any free one.")] = 8000,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 or mps.")] = "cpu",
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Let nobody store decisions about suggestions.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not log requests.")] = False,
) -> None:
    """Answer questions over HTTP, as JSON, until Ctrl-C (or SIGTERM).

    Examples:

        dura serve runs/mine

        dura serve runs/sparse --port 9000

        curl 'http://127.0.0.1:8000/predict?head=Berlin&relation=located_in&k=3'
    """  # fmt: skip
    try:
        from dura.web.service import serve as answer
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "pydantic", "starlette"):
            raise
        raise DuraError("the service needs fastapi and uvicorn; pip install 'dura-kge[serve]'") from None
    from dura.runs.api import open as open_run
    from dura.web.settings import Settings

    trained = open_run(run, device)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM ends the service as Ctrl-C does
    with suppress(KeyboardInterrupt):  # uvicorn raises it again after it has ended, but not always
        answer(
            trained,
            host,
            port,
            settings=Settings(read_only=read_only, quiet=quiet),
            ready=lambda address: _say(f"serving {run} at {address} (Ctrl-C ends)"),
        )
    _say("stopped")


def _say(sentence: str) -> None:
    typer.echo(sentence, err=True)
