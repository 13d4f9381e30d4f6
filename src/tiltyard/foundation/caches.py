"""What is computed once: kept in a bounded cache, shared by concurrent callers, few computations at a time."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Sequence
from functools import partial
from threading import Lock
from typing import Any, Generic, TypeVar

from tiltyard.errors import Crowded

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Values by key, up to a total weight: the least recently used are dropped first. Safe to use from several threads.

    A value weighs 1 unless `put` is told otherwise, so ``limit`` is a number of values, or of bytes. The newest
    value is kept even if it alone exceeds the limit, unless it is heavier than ``heaviest``.
    ``seconds``: how long a value is valid after `put`; ``None``: always.
    """

    def __init__(self, limit: int, *, heaviest: int | None = None, seconds: float | None = None) -> None:
        self.limit = limit
        #: The total weight of what is kept, expired values included.
        self.weight = 0
        self._heaviest = heaviest
        self._seconds = seconds
        self._values: OrderedDict[K, V] = OrderedDict()
        #: Only of values that do not weigh 1, and only if values expire: a plain cache holds nothing else.
        self._weights: dict[K, int] = {}
        self._expiry: dict[K, float] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """A valid value, which now counts as used; ``None`` if there is none."""
        with self._lock:
            if key not in self._values:
                return None
            if self._seconds is not None and time.monotonic() >= self._expiry[key]:
                return None
            self._values.move_to_end(key)
            return self._values[key]

    def put(self, key: K, value: V, weight: int = 1, *, read_at: float | None = None) -> V:
        """Keep a value, drop others until all fit, and return the value.

        ``read_at``: the monotonic time from which on it is valid; the default is now.
        """
        with self._lock:
            self._remove(key)
            if self._heaviest is not None and weight > self._heaviest:
                return value
            self._values[key] = value
            if weight != 1:
                self._weights[key] = weight
            if self._seconds is not None:
                self._expiry[key] = (time.monotonic() if read_at is None else read_at) + self._seconds
            self.weight += weight
            while self.weight > self.limit and len(self._values) > 1:
                self._remove(next(iter(self._values)))
        return value

    def pop(self, key: K) -> V | None:
        """Remove a value and return it, even if it has expired; ``None`` if there is none."""
        with self._lock:
            return self._remove(key)

    def keys(self) -> list[K]:
        """The keys of all values, least recently used first."""
        with self._lock:
            return list(self._values)

    def clear(self) -> None:
        """Remove all values."""
        with self._lock:
            self._values.clear()
            self._weights.clear()
            self._expiry.clear()
            self.weight = 0

    def _remove(self, key: K) -> V | None:
        if key not in self._values:
            return None
        self.weight -= self._weights.pop(key, 1)
        self._expiry.pop(key, None)
        return self._values.pop(key)


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
