"""Expensive computations on demand: one per key for all callers, and few at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Sequence
from functools import partial
from typing import Any, TypeVar

from tiltyard.errors import Crowded

__all__ = ["BoundedQueue", "SingleFlight"]

T = TypeVar("T")


class BoundedQueue:
    """Limits concurrent computations; a caller that would have to queue behind too many others gets an error."""

    def __init__(self, at_once: int, waiting: int, what: str) -> None:
        self._making = asyncio.Semaphore(at_once)
        self._most = waiting
        self._waiting = 0
        self._what = what

    @contextlib.asynccontextmanager
    async def acquire_slot(self) -> AsyncIterator[None]:
        """Wait for a free slot and hold it; raises `Crowded` if too many wait already."""
        if self._waiting >= self._most:
            raise Crowded(f"{self._waiting} others wait for {self._what}; try again in a moment")
        self._waiting += 1
        try:
            await self._making.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._making.release()


class SingleFlight:
    """Shares one computation among concurrent callers, even if the first caller was cancelled.

    ``keep_seconds``: callers that come so long after its end get the same result, or the same error.
    """

    def __init__(self, *, keep_seconds: float = 0.0) -> None:
        self._keep_seconds = keep_seconds
        self._tasks: dict[Hashable, asyncio.Task[Any]] = {}

    @property
    def running(self) -> Sequence[asyncio.Task[Any]]:
        """The computations that have not ended."""
        return [task for task in self._tasks.values() if not task.done()]

    async def __call__(self, key: Hashable, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        task: asyncio.Task[T] | None = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(make(), name="make")
            task.add_done_callback(partial(self._ended, key))
        return await asyncio.shield(task)

    def cancel(self) -> None:
        """Cancel all computations, without waiting for them."""
        for task in self.running:
            task.cancel()

    async def stop(self) -> None:
        """Cancel all computations and wait until they have ended."""
        tasks = self.running
        self.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        failed = task.cancelled()
        if not failed:
            # An error that nobody waits for any more is no bug.
            task.exception()
        if failed or not self._keep_seconds:
            self._expire(key, task)
        else:
            task.get_loop().call_later(self._keep_seconds, self._expire, key, task)

    def _expire(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]
