"""Caches what is computed of snapshots on demand: few at a time, and in a bounded share of time."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tiltyard.arena.boards.snapshots import Snapshot
from tiltyard.core.board.document import canonical_json, document_hash
from tiltyard.foundation.caches import BoundedCache, BoundedQueue, SingleFlight

T = TypeVar("T")
Key = tuple[Any, ...]

#: Computing on demand takes at most 1/n of the time.
_REST_RATIO = 10.0
#: Maximum number of callers in the queue.
_WAITING_REQUEST_LIMIT = 8


@dataclass(frozen=True, slots=True)
class HashedDocument:
    """Bytes to be sent, with their hash."""

    data: bytes
    sha256: str

    @classmethod
    def of(cls, value: Mapping[str, object]) -> HashedDocument:
        written = canonical_json(value)
        return cls(written, document_hash(written))


@dataclass(frozen=True, slots=True)
class _Cached(Generic[T]):
    """Something costly: of which snapshot, when it was made, and how long that took."""

    snapshot: str
    value: T
    at: float
    took: float


class SnapshotCache(Generic[T]):
    """Caches values by key; the longer a value took to compute, the longer it is cached.

    ``limit``: of what all values weigh; ``at_once``: of concurrent computations; ``what`` others wait for.
    """

    def __init__(
        self, limit: int, *, at_once: int, what: str, weigh: Callable[[T], int] = lambda _: 1
    ) -> None:
        self._made: BoundedCache[Key, _Cached[T]] = BoundedCache(limit)
        self._single_flight = SingleFlight()
        self._turns = BoundedQueue(at_once, _WAITING_REQUEST_LIMIT, what)
        self._weigh = weigh

    async def stop(self) -> None:
        """Give up whatever is being made."""
        await self._single_flight.stop()

    async def __call__(
        self,
        key: Key,
        newest: Snapshot,
        make: Callable[[], Awaitable[T]],
        *,
        exact: bool = False,
    ) -> T:
        """Return the value of this snapshot, or a slightly older one if it is slow to compute; else compute it.

        ``exact``: of this snapshot only. Whoever asks for what is being made waits for it.
        """
        if exact:
            known = self._made.get(key)
            if known is not None and known.snapshot == newest.sha256:
                return known.value
            key = (*key, newest.sha256)
        if (fresh := self._fresh(key, newest)) is not None:
            return fresh
        return await self._single_flight((*key, newest.sha256), lambda: self._make(key, newest, make))

    async def _make(self, key: Key, newest: Snapshot, make: Callable[[], Awaitable[T]]) -> T:
        async with self._turns.acquire_slot():
            if (fresh := self._fresh(key, newest)) is not None:
                return fresh
            start = time.monotonic()
            value = await make()
            now = time.monotonic()
            self._made.put(key, _Cached(newest.sha256, value, now, now - start), self._weigh(value))
        return value

    def _fresh(self, key: Key, newest: Snapshot) -> T | None:
        made = self._made.get(key)
        if made is None:
            return None
        rested = time.monotonic() - made.at > _REST_RATIO * made.took
        return made.value if made.snapshot == newest.sha256 or not rested else None
