"""News of boards: announced by whoever publishes them, and looked for besides."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg

from tiltyard.errors import StoreFault
from tiltyard.postgres.connecting import connect_async, translated
from tiltyard.postgres.connection_pool import Connection
from tiltyard.postgres.statements import statement
from tiltyard.retries import Backoff, Retries

__all__ = ["Announcements", "Once", "read_history", "read_places"]

_LOG = logging.getLogger(__name__)

#: Seconds after which one looks though nothing was announced, and before a new try after a first fault.
_LOOK = 5.0
_RETRY = 1.0


class Announcements:
    """One connection that listens for new snapshots, made again whenever it has broken."""

    def __init__(self, url: str, *, look: float = _LOOK) -> None:
        self._url = url
        self._look = look
        self._connection: Connection | None = None
        self._retries = Retries(_LOG, "listening for new boards", Backoff(_RETRY))

    async def next(self) -> None:
        """Return when something was announced, or after a few seconds. Faults only make it wait."""
        try:
            if self._connection is None or self._connection.closed:
                self._connection = await connect_async(self._url, name="tiltyard boards")
                await self._connection.execute(statement("boards_listen"))
                self._retries.succeeded()
                return
            async for _ in self._connection.notifies(timeout=self._look, stop_after=1):
                pass
        except (psycopg.Error, StoreFault) as error:
            await self.close()
            await asyncio.sleep(self._retries.failed(error))

    async def close(self) -> None:
        """Hang up."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


@dataclass(frozen=True, slots=True)
class Once:
    """What a board once said of a model."""

    generation: int
    position: int
    made_at: datetime
    sha256: str
    votes: int
    row: dict[str, Any]


async def read_places(connection: Connection) -> dict[tuple[int, int], tuple[int, int]]:
    """Generation and position of the newest board, by arena and source."""
    with translated("look for new boards"):
        rows = await (await connection.execute(statement("boards_places"))).fetchall()
    return {(arena, source): (generation, position) for arena, source, generation, position in rows}


async def read_history(
    connection: Connection, arena: int, source: int, model: str, *, limit: int = 100
) -> list[Once]:
    """One model on the boards on which an evaluation fell, newest first."""
    values = {"arena": arena, "source": source, "model": model, "limit": limit}
    with translated("read the history of a model"):
        rows = await (await connection.execute(statement("boards_history"), values)).fetchall()
    return [
        Once(generation, position, made_at, bytes(sha256).hex(), votes, row)
        for generation, position, made_at, sha256, votes, row in rows
    ]
