"""Answering: the model that is served, and the thread that asks it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from starlette.exceptions import HTTPException

from dura.inference.answers import Question, Wanted
from dura.runs.trained import Trained
from dura.types import BadInput
from dura.web.settings import Settings

T = TypeVar("T")


class Served:
    """The trained model that is served now.

    One thread asks the model: a product uses all cores anyway, torch keeps threads for every thread that calls it, and only one
    request takes memory. Another thread looks names and facts up, so that a search does not wait for products.
    """

    def __init__(self, trained: Trained, settings: Settings) -> None:
        self.trained, self.settings = trained, settings
        self._model = ThreadPoolExecutor(1, "model")
        self._names = ThreadPoolExecutor(1, "names")

    async def ask(self, questions: Sequence[Question], wanted: Wanted, *, explain: bool) -> list[dict[str, Any]]:
        """The answers to questions, or for each bad one what is wrong with it."""
        found = await self.compute(lambda trained: trained.ask_each(questions, wanted, explain=explain))
        return [_document(one) for one in found]

    async def score(self, facts: Sequence[Any]) -> list[dict[str, Any]]:
        """The scores of facts, or for each bad one what is wrong with it."""
        return [_document(one) for one in await self.compute(lambda trained: trained.scored_each(facts))]

    async def compute(self, work: Callable[[Trained], T]) -> T:
        """Let the model's thread do something."""
        return await self._run(self._model, work)

    async def look_up(self, work: Callable[[Trained], T]) -> T:
        """Let the thread for names and facts do something."""
        return await self._run(self._names, work)

    async def _run(self, thread: ThreadPoolExecutor, work: Callable[[Trained], T]) -> T:
        def done() -> T:
            trained = self.trained
            trained.renew()
            return work(trained)

        with unless_ending():
            return await asyncio.get_running_loop().run_in_executor(thread, done)


def _document(found: Any) -> dict[str, Any]:
    return {"error": str(found)} if isinstance(found, BadInput) else found.to_dict()


@contextmanager
def unless_ending() -> Iterator[None]:
    """A request that is cut off because the service ends gets a sentence that says so."""
    try:
        yield
    except asyncio.CancelledError:
        raise HTTPException(503, "the service is ending") from None
