"""Settings of the service: what the command line says about how it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """How the service runs. The defaults are those of `dura serve`."""

    read_only: bool = False
    """Whether nobody may store decisions."""
    quiet: bool = False
    """Whether requests are not logged."""
    log_json: bool = False
    """Whether the log of requests is JSON."""
    token: str | None = None
    """What a client must know; None lets everybody in."""
    origins: tuple[str, ...] = ()
    """The pages of other addresses whose scripts may ask: their origins, or *."""
    collect_ms: float = 2.0
    """For how many milliseconds questions are collected into one product. 0 asks each request alone."""
    queue: int = 1024
    """How many questions may wait or be answered at a time in each process."""
    header_seconds: float = 10.0
    """How long a client may take to send the head of a request."""
    body_seconds: float = 30.0
    """How long a client may take to send a body."""
    answer_seconds: float = 30.0
    """How long an answer may take."""
    grace_seconds: int = 10
    """How long running requests may take when the service ends."""
    connections: int = 800
    """How many connections may be open at a time in each process. Systems often allow 1,024 open files."""
    certificate: str | None = None
    """The PEM file of the certificate; with it the service speaks HTTPS."""
    key: str | None = None
    """The PEM file of the certificate's key, unless the other file has it."""
    worker: int | None = None
    """The number of this worker, if there are several."""
