"""Caches documents that are computed on demand: few at a time, and in a bounded share of time."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tiltyard.arena.boards.snapshots import Snapshot
from tiltyard.core.board.document import canonical_json, document_hash
from tiltyard.foundation.caches import BoundedCache, BoundedQueue, SingleFlight

Key = tuple[Any, ...]

#: Computing on demand takes at most 1/n of the time.
_REST_RATIO = 10.0
_CACHED_DOCUMENT_LIMIT = 200
#: Maximum number of concurrent computations, and of callers in the queue.
_CONCURRENT_COMPUTATION_LIMIT = 2
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
class _CachedDocument:
    """Something costly: of which snapshot, when it was made, and how long that took."""

    snapshot: str
    document: HashedDocument
    at: float
    took: float


class DocumentCache:
    """Caches documents by key; the longer a document took to compute, the longer it is cached."""

    def __init__(self) -> None:
        self._made: BoundedCache[Key, _CachedDocument] = BoundedCache(_CACHED_DOCUMENT_LIMIT)
        self._single_flight = SingleFlight()
        self._turns = BoundedQueue(
            _CONCURRENT_COMPUTATION_LIMIT, _WAITING_REQUEST_LIMIT, "a board to be counted"
        )

    async def stop(self) -> None:
        """Give up whatever is being made."""
        await self._single_flight.stop()

    async def __call__(
        self,
        key: Key,
        newest: Snapshot,
        make: Callable[[], Awaitable[HashedDocument]],
        *,
        exact: bool = False,
    ) -> HashedDocument:
        """Return the document of this snapshot, or a slightly older one if it is slow to compute; else compute it.

        ``exact``: of this snapshot only. Whoever asks for what is being made waits for it.
        """
        if exact:
            known = self._made.get(key)
            if known is not None and known.snapshot == newest.sha256:
                return known.document
            key = (*key, newest.sha256)
        if (fresh := self._fresh(key, newest)) is not None:
            return fresh
        return await self._single_flight((*key, newest.sha256), lambda: self._make(key, newest, make))

    async def _make(
        self, key: Key, newest: Snapshot, make: Callable[[], Awaitable[HashedDocument]]
    ) -> HashedDocument:
        async with self._turns.acquire_slot():
            if (fresh := self._fresh(key, newest)) is not None:
                return fresh
            start = time.monotonic()
            document = await make()
            now = time.monotonic()
            self._made.put(key, _CachedDocument(newest.sha256, document, now, now - start))
        return document

    def _fresh(self, key: Key, newest: Snapshot) -> HashedDocument | None:
        made = self._made.get(key)
        if made is None:
            return None
        rested = time.monotonic() - made.at > _REST_RATIO * made.took
        return made.document if made.snapshot == newest.sha256 or not rested else None
