"""`dura serve`."""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from dura.cli.common import DeviceOption, RunArgument, say
from dura.types import DuraError


def serve(
    run: RunArgument,
    host: Annotated[
        str, typer.Option(help="The address to listen at; 0.0.0.0 lets other machines ask, without a password.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes any free one.")] = 8000,
    device: DeviceOption = "cpu",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No line a request.")] = False,
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
        raise DuraError("the service needs fastapi and uvicorn; pip install 'dura[serve]'") from None
    from dura.runs.trained import open_run

    trained = open_run(run, device)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends it as Ctrl-C does
    try:
        answer(trained, host, port, quiet=quiet, ready=lambda address: say(f"serving {run} at {address} (Ctrl-C ends)"))
    except KeyboardInterrupt:
        say("stopped")
