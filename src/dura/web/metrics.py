"""Metrics: what the service counts and measures, as Prometheus reads it.

Several workers write into files of one folder, and whichever worker is asked adds them up. prometheus_client decides at its first
import whether it does so, so only the functions here import it.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable with the folder in which the workers of a service add up what they measure."""
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
TEXT = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The counters of one process."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self._registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self._registry}
        labels = ["method", "address", "status"]
        self._requests = Counter("dura_requests_total", "Requests that were answered.", labels, **own)
        self._seconds = Histogram(
            "dura_request_seconds", "Seconds from request to answer.", ["address"], buckets=SECONDS, **own
        )
        self._products = Histogram(
            "dura_product_questions", "Questions that were answered by one product.", buckets=SIZES, **own
        )
        self._collected = Counter(
            "dura_collected_requests_total", "Requests whose questions were put together with those of others.", **own
        )
        live = {"multiprocess_mode": "livesum", **own}
        self.waiting = Gauge("dura_waiting_questions", "Questions that wait or are being answered.", **live)
        self._workers = Gauge("dura_workers", "Processes that answer.", **live)
        self._memory = Gauge("dura_resident_bytes", "Memory of all workers; shared pages count several times.", **live)
        self._reloads = Counter("dura_reloads_total", "Reloads of the run, by result.", ["result"], **own)
        self._workers.set(1)

    def answered(self, method: str, address: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(method, address, str(status)).inc()
        self._seconds.labels(address).observe(seconds)

    def product(self, requests: int, questions: int) -> None:
        """Count a product for the questions of some requests."""
        self._products.observe(questions)
        if requests > 1:
            self._collected.inc(requests)

    def reloaded(self, result: str) -> None:
        """Count a reload: "done" or "failed"."""
        self._reloads.labels(result).inc()

    def measure(self) -> None:
        """Note how much memory this process has."""
        with suppress(ImportError):
            self._memory.set(resident())

    def text(self) -> bytes:
        """Everything as text; of all workers if there are several."""
        from prometheus_client import CollectorRegistry, generate_latest, multiprocess

        self.measure()
        if FOLDER not in os.environ:
            return generate_latest(self._registry)
        every = CollectorRegistry()
        multiprocess.MultiProcessCollector(every)  # type: ignore[no-untyped-call]
        return generate_latest(every)


def forget(folder: Path, process: int) -> None:
    """Leave out what a process that has ended is doing now; what it has counted stays."""
    for file in folder.glob(f"gauge_live*_{process}.db"):
        file.unlink(missing_ok=True)


def resident() -> int:
    """The bytes of memory of this process."""
    import resource  # Windows has none

    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize()
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
