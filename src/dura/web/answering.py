"""Answering: the model that is served, the threads that ask it, and how much may wait for them."""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

from starlette.exceptions import HTTPException

from dura.inference.answers import Question, Wanted
from dura.runs.trained import Trained
from dura.types import BadInput
from dura.web.collecting import Collector, Found
from dura.web.metrics import Metrics
from dura.web.settings import Settings

T = TypeVar("T")


class Served:
    """The trained model that is served now. `replace` puts another one in its place, between two questions.

    One thread asks the model: a product uses all cores anyway, torch keeps threads for every thread that calls it, and only one
    request takes memory. Another thread looks names and facts up, so that a search does not wait for products.
    """

    def __init__(self, trained: Trained, settings: Settings, metrics: Metrics) -> None:
        self.settings, self.metrics, self.ending = settings, metrics, False
        self._model = ThreadPoolExecutor(1, "model")
        self._names = ThreadPoolExecutor(1, "names")
        self._waiting = 0
        self._collector = Collector(self._ask, settings.collect_ms / 1000, metrics.product)
        self.replace(trained)

    def replace(self, trained: Trained) -> None:
        """Serve another model from now on. Running questions end with the one that they began with."""
        self.trained, self.described = trained, trained.describe()
        self.since = datetime.now(UTC).isoformat(timespec="seconds")

    def release(self) -> None:
        """Give the memory of the model of before back to the system, when the questions that it began have ended.

        C libraries keep freed memory that lies between used pieces. glibc gives it back when it is told to.
        """
        with suppress(RuntimeError):  # the service is ending
            for thread in (self._model, self._names):
                thread.submit(int).result()
        gc.collect()
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)

    async def ask(self, questions: Sequence[Question], wanted: Wanted, *, explain: bool) -> Found:
        """The answers to questions, or for each bad one what is wrong with it."""
        if not explain and self.settings.collect_ms > 0:
            return await self._limited(len(questions), lambda: self._collector.ask(questions, wanted))
        return await self._limited(len(questions), lambda: self._ask(questions, wanted, explain=explain))

    async def _ask(self, questions: Sequence[Question], wanted: Wanted, *, explain: bool = False) -> Found:
        def work(trained: Trained) -> Found:
            return [_document(one) for one in trained.ask_each(questions, wanted, explain=explain)]

        return await self._run(self._model, work)

    async def score(self, facts: Sequence[Any]) -> Found:
        """The scores of facts, or for each bad one what is wrong with it."""
        return [_document(one) for one in await self.compute(lambda trained: trained.scored_each(facts))]

    async def compute(self, work: Callable[[Trained], T]) -> T:
        """Let the model's thread do something."""
        return await self._limited(1, lambda: self._run(self._model, work))

    async def look_up(self, work: Callable[[Trained], T]) -> T:
        """Let the thread for names and facts do something."""
        return await self._limited(1, lambda: self._run(self._names, work))

    async def _run(self, thread: ThreadPoolExecutor, work: Callable[[Trained], T]) -> T:
        def done() -> T:
            trained = self.trained
            trained.renew()
            return work(trained)

        return await asyncio.get_running_loop().run_in_executor(thread, done)

    async def _limited(self, weight: int, work: Callable[[], Awaitable[T]]) -> T:
        """Do something if not too much waits already, and in time. Alone, a request of any size may go in."""
        most, seconds = self.settings.queue, self.settings.answer_seconds
        if self._waiting and self._waiting + weight > most:
            raise HTTPException(
                429, f"{self._waiting:,} questions are waiting, and {most:,} may; try again", {"Retry-After": "1"}
            )
        self._waiting += weight
        self.metrics.waiting.set(self._waiting)
        try:
            with unless_ending():
                async with asyncio.timeout(seconds):
                    return await work()
        except TimeoutError:
            raise HTTPException(504, f"the answer took longer than {seconds:g} seconds") from None
        finally:
            self._waiting -= weight
            self.metrics.waiting.set(self._waiting)


def _document(found: Any) -> dict[str, Any]:
    return {"error": str(found)} if isinstance(found, BadInput) else found.to_dict()


@contextmanager
def unless_ending() -> Iterator[None]:
    """A request that is cut off because the service ends gets a sentence that says so."""
    try:
        yield
    except asyncio.CancelledError:
        raise HTTPException(503, "the service is ending") from None
