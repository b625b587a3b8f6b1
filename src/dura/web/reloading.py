"""Reloading: open the run again and serve it instead, while requests go on."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable

from dura.runs.trained import Trained
from dura.types import DuraError
from dura.web.answering import Served

LOG = logging.getLogger("dura.service")
Opener = Callable[[], Trained]


def warm(trained: Trained) -> Trained:
    """Ask once, so that the first request need not wait for the known answers and the index of names."""
    trained.prepare()
    graph = trained.graph
    time = graph.times.span[0] if graph.times else None
    trained.ask([(next(iter(graph.entities)), next(iter(graph.relations)), None, time)], 1)
    return trained


class Reloader:
    """Opens the run again when it is told to. If that fails, the model of before goes on.

    No connection is closed and no question is lost: a question that has begun ends with the old model, the next one has the new.
    `before` is called first, `notify` afterwards with how it ended. Only one run is opened at a time. Whoever asks meanwhile gets
    another one afterwards, which sees the newest files.
    """

    def __init__(
        self, served: Served, opener: Opener, notify: Callable[[str], None], before: Callable[[], None]
    ) -> None:
        self._served, self._opener, self._notify, self._before = served, opener, notify, before
        self._wanted, self._lock, self._running = False, threading.Lock(), False

    def listen(self) -> None:
        """Reload on SIGHUP, if this system has it and this is the main thread."""
        if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGHUP, lambda *_: self.request())

    def request(self) -> None:
        """Open the run again in a thread of its own."""
        with self._lock:
            self._wanted = True
            if self._running:
                return
            self._running = True
        threading.Thread(target=self._work, name="reload", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._wanted:
                    self._running = False
                    return
                self._wanted = False
            self._notify(self._reload())

    def _reload(self) -> str:
        try:
            self._before()
            self._served.replace(warm(self._opener()))
            self._served.release()
        except (DuraError, OSError) as error:
            LOG.error("the run was not reloaded, the old one goes on: %s", error)
            self._served.metrics.reloaded("failed")
            return "failed"
        except Exception:
            LOG.exception("the run was not reloaded, the old one goes on")
            self._served.metrics.reloaded("failed")
            return "failed"
        LOG.warning("the run %s was reloaded", self._served.described["run"])
        self._served.metrics.reloaded("done")
        return "done"
