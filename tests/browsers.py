"""A browser and a live service, for the tests of the page."""

from __future__ import annotations

import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync"
)
DESK, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


def program() -> str:
    """The installed browser. Tests that need it are skipped where there is none."""
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed, so the page is not tested")
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        pytest.skip("no Chromium is installed, so the page is not tested (Debian: apt-get install chromium)")
    return found


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window."""
    found = program()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=FLAGS.split())
        yield browser
        browser.close()


class Service:
    """A `dura serve` process and its address."""

    def __init__(self, run: Path, *options: str) -> None:
        self.run = run
        command = [sys.executable, "-m", "dura", "serve", str(run), "--port", "0", "--quiet", *options]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env)
        lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, args=(lines,), daemon=True).start()
        said = ""
        while not (found := re.search(r"http://[\d.]+:\d+", said)):
            said = lines.get(timeout=120)
            assert said, "the service ended before it began"
        self.address = found[0]

    def _listen(self, lines: queue.Queue[str]) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            lines.put(line)
        lines.put("")

    def get(self, path: str, **given: str | int) -> Any:
        """What the service answers to a GET request."""
        with urllib.request.urlopen(f"{self.address}{path}?{urlencode(given)}") as answer:
            return json.load(answer)

    def end(self) -> None:
        """Stop the process."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)
        if self._process.stderr is not None:
            self._process.stderr.close()


class Visit:
    """One page in the browser, and what went wrong in it."""

    def __init__(self, browser: Browser, service: Service, **how: Any) -> None:
        self.service = service
        self._context = browser.new_context(**{"viewport": DESK, "reduced_motion": "reduce", **how})
        self._context.set_default_timeout(20_000)
        self.page: Page = self._context.new_page()
        self.wrong: list[str] = []
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on(
            "console",
            lambda said: (
                self.wrong.append(said.text) if said.type == "error" and "Failed to load" not in said.text else None
            ),
        )

    def open(self, view: str = "", **given: str) -> Page:
        """Go to a view, and wait until it has what it asked for."""
        query = f"?{urlencode(given)}" if given else ""
        self.page.goto(f"{self.service.address}/#/{view}{query}")
        self.page.wait_for_timeout(60)  # a step to another view of the same page is no load
        self.page.locator("main h1").first.wait_for(state="attached")
        self.page.locator("main :is(.loading, [aria-busy=true])").first.wait_for(state="detached")
        return self.page

    def close(self) -> None:
        """Leave; nothing may have gone wrong."""
        self._context.close()
        assert not self.wrong


@contextmanager
def visit(browser: Browser, service: Service, **how: Any) -> Iterator[Visit]:
    """A visit that ends in any case."""
    found = Visit(browser, service, **how)
    try:
        yield found
    finally:
        found.close()
