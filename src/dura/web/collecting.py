"""Collecting: questions of several requests become one product.

A product for many questions takes much less time per question than one for a single question, because the table of entities is read
only once. While the model is busy, questions wait and so collect by themselves. When it becomes free after a product for several
requests, it waits a few milliseconds for their clients to ask again. A single client never waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dura.inference.answers import Question, Wanted
from dura.types import DuraError

Found = list[dict[str, Any]]
Ask = Callable[[Sequence[Question], Wanted], Awaitable[Found]]
MOST = 256
"""At most this many questions in one product, unless one request has more."""
RECENT = 0.1
"""For how many seconds the size of the last product says something about the next one."""


@dataclass
class _Waiting:
    questions: Sequence[Question]
    wanted: Wanted
    found: asyncio.Future[Found] = field(repr=False)


class Collector:
    """Collects questions for at most `seconds` and asks them together; `ask` does the work."""

    def __init__(self, ask: Ask, seconds: float, notice: Callable[[int, int], None] = lambda *_: None) -> None:
        self._ask, self._seconds, self._notice = ask, seconds, notice
        self._waiting: list[_Waiting] = []
        self._task: asyncio.Task[None] | None = None
        self._enough = asyncio.Event()
        self._last, self._ended = 0, 0.0

    async def ask(self, questions: Sequence[Question], wanted: Wanted) -> Found:
        """The answers to these questions."""
        loop = asyncio.get_running_loop()
        one = _Waiting(questions, wanted, loop.create_future())
        self._waiting.append(one)
        if len(self._waiting) >= self._last:
            self._enough.set()
        if self._task is None:
            self._task = loop.create_task(self._work())
        return await one.found

    async def _work(self) -> None:
        """Ask until nothing waits."""
        try:
            while self._waiting:
                await self._wait()
                batch = self._take()
                if batch:
                    await self._answer(batch)
                    self._ended = asyncio.get_running_loop().time()
        finally:
            self._task = None
            for one in self._waiting:  # the service is ending
                one.found.cancel()

    async def _wait(self) -> None:
        """Give clients that were just answered the time to ask again, until as many have asked as before."""
        loop = asyncio.get_running_loop()
        if self._last > 1 and loop.time() - self._ended < RECENT and len(self._waiting) < self._last:
            self._enough.clear()
            try:
                async with asyncio.timeout(self._seconds):
                    await self._enough.wait()
            except TimeoutError:
                pass
        else:
            await asyncio.sleep(0)  # others that arrived at the same moment get into the same product

    def _take(self) -> list[_Waiting]:
        """The next requests with the same wish; those that nobody waits for any more are left out."""
        self._waiting = [one for one in self._waiting if not one.found.done()]
        batch: list[_Waiting] = []
        rest: list[_Waiting] = []
        size = 0
        for one in self._waiting:
            fits = not batch or (one.wanted == batch[0].wanted and size + len(one.questions) <= MOST)
            (batch if fits else rest).append(one)
            size += len(one.questions) if fits else 0
        self._waiting, self._last = rest, len(batch)
        return batch

    async def _answer(self, batch: list[_Waiting]) -> None:
        questions = [question for one in batch for question in one.questions]
        self._notice(len(batch), len(questions))
        try:
            found = await self._ask(questions, batch[0].wanted)
        except Exception as error:  # noqa: BLE001  whoever asked gets it
            if len(batch) > 1 and not isinstance(error, DuraError):  # perhaps too much memory: then one by one
                for one in batch:
                    await self._answer([one])
                return
            for one in batch:
                if not one.found.done():
                    one.found.set_exception(error)
            return
        at = 0
        for one in batch:
            if not one.found.done():
                one.found.set_result(found[at : at + len(one.questions)])
            at += len(one.questions)
