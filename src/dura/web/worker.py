"""Worker: one of several processes that answer at the same socket. `workers` starts it; a person never does.

It reads what to serve from its standard input, which stays open as long as the supervisor lives. It reports on the pipe that it is
given: one JSON object per line.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from dura.types import BadInput, DuraError
from dura.web.settings import Settings


def main() -> int:
    """Serve until told to end. Returns the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the supervisor decides
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is something to reload
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # before the server takes it over, and when that has ended
    given = json.loads(sys.stdin.readline())
    report = partial(_report, given["report"])
    settings = Settings(**{**given["settings"], "origins": tuple(given["settings"]["origins"])})
    threading.Thread(target=_until_alone, daemon=True).start()
    try:
        _serve(given, settings, report)
    except DuraError as error:
        report({"error": str(error), "bad": isinstance(error, BadInput)})
        return 1
    return 0


def _serve(given: dict[str, Any], settings: Settings, report: Any) -> None:
    import torch

    from dura.runs.trained import open_run
    from dura.web.service import run

    torch.set_num_threads(given["threads"])
    opener = partial(open_run, Path(given["run"]), given["device"], shared=True)
    with socket.socket(fileno=given["socket"]) as sock:
        run(opener(), sock, settings, opener, lambda: report({"ready": True}), lambda how: report({"reload": how}))


def _report(pipe: int, what: dict[str, Any]) -> None:
    with suppress(OSError):  # the supervisor is gone
        os.write(pipe, (json.dumps(what) + "\n").encode())


def _until_alone() -> None:
    """End when the supervisor has: its end of the pipe closes."""
    while sys.stdin.readline():
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
