"""Notifications of new boards: sent by the publisher, with polling as a fallback."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg

from tiltyard.arena.boards.snapshots import announced_board
from tiltyard.arena.log.buckets import fetch_rows
from tiltyard.errors import StoreFault
from tiltyard.foundation.retries import Backoff, Retries
from tiltyard.postgres.connections import Connection, connect_async, translate_errors
from tiltyard.postgres.statements import statement

_LOG = logging.getLogger(__name__)

#: Seconds between polls without a notification, and before the first retry after a fault.
_POLL_SECONDS = 5.0
_RETRY_SECONDS = 1.0


class SnapshotNotifications:
    """A connection that listens for new snapshots and reconnects when it breaks."""

    def __init__(self, url: str, *, look: float = _POLL_SECONDS) -> None:
        self._url = url
        self._look = look
        self._connection: Connection | None = None
        self._retries = Retries(_LOG, "listening for new boards", Backoff(_RETRY_SECONDS))

    async def next(self) -> set[tuple[int, int]] | None:
        """Wait for a notification; return the arenas and sources that have a new board.

        Without one, after a few seconds, return ``None``: notifications may have been missed. So does a fault, after
        a wait.
        """
        try:
            if self._connection is None or self._connection.closed:
                self._connection = await connect_async(self._url, name="tiltyard boards")
                await self._connection.execute(statement("boards_listen"))
                self._retries.succeeded()
                return None
            heard = {
                announced_board(one.payload)
                async for one in self._connection.notifies(timeout=self._look, stop_after=1)
            }
        except (psycopg.Error, StoreFault) as error:
            await self.close()
            await asyncio.sleep(self._retries.failed(error))
            return None
        return heard or None

    async def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


@dataclass(frozen=True, slots=True)
class BoardAppearance:
    """A model's row on an earlier board."""

    generation: int
    position: int
    made_at: datetime
    sha256: str
    votes: int
    #: As the version of that time published it; later versions added fields.
    row: dict[str, Any]


async def read_newest_positions(
    connection: Connection, arenas: Collection[int]
) -> dict[tuple[int, int], tuple[int, int]]:
    """Generation and position of the newest board of these arenas, by arena and source."""
    with translate_errors("look for new boards"):
        rows = await fetch_rows(connection, "boards_places", {"arenas": sorted(arenas)})
    return {(arena, source): (generation, position) for arena, source, generation, position in rows}


async def read_history(
    connection: Connection, arena: int, source: int, model: str, *, limit: int = 100
) -> list[BoardAppearance]:
    """A model's rows on the boards made at evaluations, newest first."""
    values = {"arena": arena, "source": source, "model": model, "limit": limit}
    with translate_errors("read the history of a model"):
        rows = await fetch_rows(connection, "boards_history", values)
    return [
        BoardAppearance(generation, position, made_at, bytes(sha256).hex(), votes, row)
        for generation, position, made_at, sha256, votes, row in rows
    ]
