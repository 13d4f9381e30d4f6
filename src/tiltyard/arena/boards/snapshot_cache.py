"""Caches what is computed of snapshots on demand: few at a time, and in a bounded share of time."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

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
class _Cached:
    """Something costly: of which snapshot, when it was made, and how long that took."""

    snapshot: str
    value: Any
    at: float
    took: float


class SnapshotCache:
    """Caches values by key; the longer a value took to compute, the longer it is cached.

    ``limit``: of what all values weigh; ``at_once``: of concurrent computations; ``what`` others wait for.
    """

    def __init__(
        self, limit: int, *, at_once: int, what: str, weigh: Callable[[Any], int] = lambda _: 1
    ) -> None:
        self._made: BoundedCache[Key, _Cached] = BoundedCache(limit)
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
        found = self._made.get(key) if exact else None
        if found is None or found.snapshot != newest.sha256:
            key = (*key, newest.sha256) if exact else key
            found = self._fresh(key, newest)
        if found is None:
            flight = (*key, newest.sha256)
            found = await self._single_flight(flight, lambda: self._make(key, newest, make))
        value: T = found.value
        return value

    async def _make(self, key: Key, newest: Snapshot, make: Callable[[], Awaitable[Any]]) -> _Cached:
        async with self._turns.acquire_slot():
            if (fresh := self._fresh(key, newest)) is not None:
                return fresh
            start = time.monotonic()
            value = await make()
            now = time.monotonic()
            made = _Cached(newest.sha256, value, now, now - start)
            return self._made.put(key, made, self._weigh(value))

    def _fresh(self, key: Key, newest: Snapshot) -> _Cached | None:
        made = self._made.get(key)
        if made is None or made.snapshot == newest.sha256:
            return made
        return None if time.monotonic() - made.at > _REST_RATIO * made.took else made
