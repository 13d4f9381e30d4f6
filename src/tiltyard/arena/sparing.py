"""What is counted on demand: once for everybody who asks, a few at a time, and not all of the time."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tiltyard.board.document import canonical, document_hash
from tiltyard.errors import StoreFault
from tiltyard.store.snapshots import Snapshot

__all__ = ["Document", "Sparing"]

Key = tuple[Any, ...]

#: What is counted on demand takes at most one part in so many of the time.
_REST = 10.0
_KEPT = 200
#: How many are counted at once, and how many wait for their turn.
_AT_ONCE = 2
_QUEUE = 8


@dataclass(frozen=True, slots=True)
class Document:
    """Bytes to be sent, with their hash."""

    data: bytes
    sha256: str

    @classmethod
    def of(cls, value: dict[str, Any]) -> Document:
        written = canonical(value)
        return cls(written, document_hash(written))


@dataclass(frozen=True, slots=True)
class _Made:
    """Something costly: of which snapshot, when it was made, and how long that took."""

    snapshot: str
    document: Document
    at: float
    took: float


class Sparing:
    """Documents by what was asked, made again only after a rest as long as the making deserves."""

    def __init__(self) -> None:
        self._made: dict[Key, _Made] = {}
        self._pending: dict[Key, asyncio.Task[Document]] = {}
        self._making = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0

    async def stop(self) -> None:
        """Give up whatever is being made."""
        tasks = list(self._pending.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def __call__(
        self, key: Key, newest: Snapshot, make: Callable[[], Awaitable[Document]], *, exact: bool = False
    ) -> Document:
        """What was made of this snapshot, or a little before if making it took long; else it is made.

        ``exact``: of this snapshot only. Whoever asks for what is being made waits for it.
        """
        if exact:
            known = self._made.get(key)
            if known is not None and known.snapshot == newest.sha256:
                return known.document
            key = (*key, newest.sha256)
        if (fresh := self._fresh(key, newest)) is not None:
            return fresh
        place = (*key, newest.sha256)
        task = self._pending.get(place)
        if task is None:
            task = asyncio.create_task(self._make(key, newest, make), name="count")
            self._pending[place] = task
            task.add_done_callback(lambda done: self._ended(place, done))
        return await asyncio.shield(task)

    async def _make(self, key: Key, newest: Snapshot, make: Callable[[], Awaitable[Document]]) -> Document:
        async with self._turn():
            if (fresh := self._fresh(key, newest)) is not None:
                return fresh
            start = time.monotonic()
            document = await make()
            now = time.monotonic()
            self._made.pop(key, None)
            self._made[key] = _Made(newest.sha256, document, now, now - start)
            if len(self._made) > _KEPT:
                del self._made[next(iter(self._made))]
        return document

    def _ended(self, place: Key, task: asyncio.Task[Document]) -> None:
        """Forget it, and take note of how it ended: whoever asked may have left."""
        self._pending.pop(place, None)
        if not task.cancelled():
            task.exception()

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """A few at a time; who would wait behind many others is told to come back."""
        if self._waiting >= _QUEUE:
            raise StoreFault(f"{_QUEUE} others wait for a board to be counted; ask again in a moment")
        self._waiting += 1
        try:
            await self._making.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._making.release()

    def _fresh(self, key: Key, newest: Snapshot) -> Document | None:
        made = self._made.get(key)
        if made is None:
            return None
        rested = time.monotonic() - made.at > _REST * made.took
        return made.document if made.snapshot == newest.sha256 or not rested else None
