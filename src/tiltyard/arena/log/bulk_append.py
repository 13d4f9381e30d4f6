"""Bulk work on an arena's log: in parts that hold the arena's lock only briefly, repeated after faults of the database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from tiltyard.arena.log.event_log import LogBatch
from tiltyard.errors import StoreFault
from tiltyard.foundation.retries import Backoff
from tiltyard.postgres.connections import Connection, ConnectionPool

#: How long a part should hold the lock; voters wait meanwhile. Parts of a busy machine become smaller, but no part has
#: less than the least for being slow: what it costs whatever its size would be all that is left.
_HOLD_SECONDS = 0.1
_FIRST_ROWS, _LEAST_ROWS, _MAX_ROWS = 200, 100, 5_000
#: Retries of a part after a fault of the database, and the wait before the first.
_RETRY_LIMIT, _FIRST_RETRY_SECONDS = 6, 0.5

#: Called with the number of rows that are in the log, and that of all.
ImportProgress = Callable[[int, int], None]
Done = TypeVar("Done")


class AppendPart(Protocol):
    """Appends at most so many of the rows that are missing; returns how many are there then, and the batch."""

    async def __call__(self, connection: Connection, most: int, /) -> tuple[int, LogBatch]: ...


def ignore_progress(_done: int, _total: int) -> None:
    """Tell nobody how far an import is."""


async def append_in_parts(
    pool: ConnectionPool, append: AppendPart, total: int, progress: ImportProgress
) -> None:
    """Append until all are there, in one part or more. A part is repeated if its commit was lost: ``append`` must see it."""
    rows = _FIRST_ROWS

    async def append_part() -> tuple[int, LogBatch]:
        nonlocal rows
        # If it fails, the next part is smaller.
        most, rows = rows, max(rows // 4, 1)
        async with pool.connection() as connection:
            found = await append(connection, most)
        rows = int(most * min(_HOLD_SECONDS / found[1].held_seconds, 2.0))
        rows = min(max(rows, min(most, _LEAST_ROWS)), _MAX_ROWS)
        return found

    done = -1
    while done < total:
        done, _ = await retry_faults(append_part)
        progress(done, total)


async def retry_faults(attempt: Callable[[], Awaitable[Done]]) -> Done:
    """Repeat what failed because voters had the lock for long, or the database went away."""
    faults = Backoff(_FIRST_RETRY_SECONDS)
    while True:
        try:
            return await attempt()
        except StoreFault:
            if faults.failures == _RETRY_LIMIT:
                raise
            await asyncio.sleep(faults.next())
