"""Announces to raters which arenas have new events: once a second for all arenas of a process, not once for each vote."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from tiltyard.arena.tasks import cancel_and_wait
from tiltyard.errors import TiltyardError
from tiltyard.foundation.retries import Backoff, Retries
from tiltyard.postgres.connections import ConnectionPool, translate_errors
from tiltyard.postgres.statements import statement

_LOG = logging.getLogger(__name__)

_PAUSE_SECONDS = 1.0
#: Arenas named by one announcement; PostgreSQL allows 8,000 bytes.
_ANNOUNCED_ARENA_LIMIT = 500


class EventAnnouncer:
    """Collects the arenas with new events and announces them.

    An announcement may be lost with its process; raters look for such events once a minute.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._arenas: set[int] = set()
        self._added = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._retries = Retries(_LOG, "announcing new events", Backoff(_PAUSE_SECONDS))

    def add(self, arena: int) -> None:
        """Announce new events of this arena soon."""
        self._arenas.add(arena)
        self._added.set()

    def start(self) -> None:
        """Start to announce."""
        self._task = asyncio.create_task(self._keep_announcing(), name="announcements")

    async def stop(self) -> None:
        """Announce what is left, and stop."""
        await cancel_and_wait(self._task)
        with contextlib.suppress(TiltyardError):
            await self._announce()

    async def _keep_announcing(self) -> None:
        while True:
            await self._added.wait()
            pause = _PAUSE_SECONDS
            try:
                await self._announce()
            except TiltyardError as error:
                pause = self._retries.failed(error)
            else:
                self._retries.succeeded()
            await asyncio.sleep(pause)

    async def _announce(self) -> None:
        while self._arenas:
            arenas = sorted(self._arenas)[:_ANNOUNCED_ARENA_LIMIT]
            async with self._pool.connection() as connection:
                with translate_errors("announce new events"):
                    values = {"arenas": " ".join(map(str, arenas))}
                    await connection.execute(statement("log_announce"), values)
            self._arenas.difference_update(arenas)
        self._added.clear()
