"""`dura serve`. FastAPI is imported only when the service starts, so help works without it."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from dura.types import BadInput, DuraError
from dura.web.settings import Settings

NEEDED = ("fastapi", "uvicorn", "pydantic", "starlette", "httptools", "prometheus_client")


def serve(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder made by 'dura train' or 'dura export'.")],
    host: Annotated[
        str,
        typer.Option(
            help="The address to listen at. With 0.0.0.0 other machines can ask too; then set a --token-file."
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes any free one.")] = 8000,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 or mps.")] = "cpu",
    workers: Annotated[
        int, typer.Option(min=1, max=256, help="How many processes answer. They share the tables in memory.")
    ] = 1,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Only clients that send the token in this file are answered."),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Speak HTTPS with this certificate (PEM).")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="The key of --tls-cert (PEM).")] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="Let scripts of pages at this origin ask, such as https://example.org, or * for all; may be repeated.",
        ),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Let nobody store decisions about suggestions.")
    ] = False,
    collect_ms: Annotated[
        float,
        typer.Option(
            min=0,
            max=1000,
            help="Collect concurrent questions for at most this many milliseconds into one product; 0: never.",
        ),
    ] = Settings.collect_ms,
    queue: Annotated[
        int, typer.Option(min=1, help="How many questions may wait in each process; more are refused with 429.")
    ] = Settings.queue,
    timeout: Annotated[
        float, typer.Option(min=0.1, max=3600, help="Seconds that an answer may take; then 504.")
    ] = Settings.answer_seconds,
    header_timeout: Annotated[
        float, typer.Option(min=0.1, max=3600, help="Seconds that a client may take to send the head of a request.")
    ] = Settings.header_seconds,
    body_timeout: Annotated[
        float, typer.Option(min=0.1, max=3600, help="Seconds that a client may take to send a body.")
    ] = Settings.body_seconds,
    grace: Annotated[
        int, typer.Option(min=0, max=3600, help="Seconds that running requests have left when the service ends.")
    ] = Settings.grace_seconds,
    log: Annotated[str, typer.Option(metavar="FORM", help="How requests are logged: text or json.")] = "text",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not log requests.")] = False,
) -> None:
    """Answer questions over HTTP, as JSON, until Ctrl-C (or SIGTERM). SIGHUP opens the run again.

    Examples:

        dura serve runs/mine

        dura serve runs/sparse --port 9000 --workers 4

        dura serve runs/mine --host 0.0.0.0 --token-file token.txt --tls-cert cert.pem --tls-key key.pem

        curl 'http://127.0.0.1:8000/predict?head=Berlin&relation=located_in&k=3'
    """  # fmt: skip
    settings = Settings(
        read_only=read_only,
        quiet=quiet,
        log_json=_json(log),
        token=_token(token_file),
        origins=tuple(map(_origin, cors or ())),
        collect_ms=collect_ms,
        queue=queue,
        header_seconds=header_timeout,
        body_seconds=body_timeout,
        answer_seconds=timeout,
        grace_seconds=grace,
        certificate=_pem(tls_cert, "--tls-cert"),
        key=_pem(tls_key, "--tls-key"),
    )
    if tls_key is not None and tls_cert is None:
        raise BadInput("--tls-key is the key of a certificate; name that with --tls-cert")
    if [name for name in NEEDED if find_spec(name) is None]:
        raise DuraError("the service needs fastapi and uvicorn; pip install 'dura-kge[serve]'")

    def said(address: str) -> None:
        _say(f"serving {run} at {address} (Ctrl-C ends)")

    if workers > 1:
        if os.name != "posix":
            raise BadInput("several workers need signals and sockets of Linux or macOS; leave --workers out")
        from dura.records import RunFolder
        from dura.web.sockets import address_of, listening
        from dura.web.workers import Supervisor

        RunFolder.open(run)  # a wrong name is said before processes start
        with listening(host, port) as sock:
            address = address_of(sock, host, tls=tls_cert is not None)
            Supervisor(run, device, sock, settings, workers, _say).serve(lambda: said(address))
    else:
        from dura.runs.trained import open_run
        from dura.web import service

        opener = partial(open_run, run, device)
        trained = opener()
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM ends the service as Ctrl-C does
        with suppress(KeyboardInterrupt):  # uvicorn raises it again after it has ended, but not always
            service.serve(trained, host, port, settings=settings, opener=opener, ready=said)
    _say("stopped")


def _json(log: str) -> bool:
    if log not in ("text", "json"):
        raise BadInput(f"--log is {log!r}, but requests are logged as text or json")
    return log == "json"


def _token(file: Path | None) -> str | None:
    """The token in a file, without blanks around it. It is not an option, because others can read those."""
    if file is None:
        return None
    try:
        token = file.read_text(encoding="ascii").strip()
    except OSError as error:
        raise BadInput(f"the token cannot be read from {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        token = ""
    if not 8 <= len(token) <= 1000 or not token.isprintable() or " " in token:
        raise BadInput(
            f"{file} holds no token: write 8 to 1,000 letters and digits without blanks, such as those of openssl rand -hex 32"
        )
    return token


def _origin(given: str) -> str:
    scheme, slashes, host = given.partition("://")
    if given != "*" and (scheme not in ("http", "https") or not slashes or not host or "/" in host):
        raise BadInput(f"--cors is {given!r}, but an origin is such as https://example.org (without a path), or *")
    return given


def _pem(file: Path | None, option: str) -> str | None:
    if file is not None and not file.is_file():
        raise BadInput(f"there is no file {file} for {option}")
    return None if file is None else str(file)


def _say(sentence: str) -> None:
    typer.echo(sentence, err=True)
