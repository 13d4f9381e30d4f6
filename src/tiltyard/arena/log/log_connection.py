"""Reads and appends to one arena's log, on connections of the process's pool."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import NamedTuple, cast

from tiltyard.arena.log.buckets import fetch_row, fetch_rows
from tiltyard.arena.log.event_log import LogBatch, OpenMatchup, append_batch
from tiltyard.core.judging.panel_assignment import PanelItem
from tiltyard.postgres.connections import Connection, ConnectionPool, Database


class ListedTask(NamedTuple):
    """An item in a rater's list, and whether its sides are exchanged."""

    session: int
    item: PanelItem
    exchanged: bool


class RaterAnswer(NamedTuple):
    """A vote (``kind`` 1) or a skip (2) of a rater."""

    session: int
    serial: int
    a: int
    b: int
    prompt: int
    kind: int


class PanelRows(NamedTuple):
    """All raters by session, with whether their panel is open; the tasks of open panels; and all answers to these."""

    raters: dict[int, bool]
    tasks: list[ListedTask]
    answers: list[RaterAnswer]


async def read_panel_rows(database: Database, arena: int) -> PanelRows:
    """Read the panels of an arena; most have none, which costs one statement."""
    values = {"arena": arena}
    raters = await fetch_rows(database, "panel_sessions", values)
    by_session: dict[int, bool] = dict(raters)
    if not any(by_session.values()):
        return PanelRows(by_session, [], [])
    tasks = await fetch_rows(database, "panel_list_tasks", values)
    listed = [ListedTask(session, PanelItem(*item), exchanged) for session, *item, exchanged in tasks]
    answers = await fetch_rows(database, "panel_answers", values)
    return PanelRows(by_session, listed, [RaterAnswer(*row) for row in answers])


#: No matchup stays open longer than this after its expiry.
_MAX_OVERDUE_DURATION = timedelta(days=1)


class LogConnection:
    """The database access of a voting queue. It serves one caller at a time and uses at most one connection."""

    def __init__(self, pool: ConnectionPool, arena: int) -> None:
        self.arena = arena
        self._pool = pool
        #: The connection of the batch that is being written.
        self._batch: Connection | None = None

    @asynccontextmanager
    async def appending(self, after: int) -> AsyncIterator[LogBatch]:
        """Append a batch; see `append_batch`. After a failure the connection is closed."""
        async with self.connection() as connection:
            self._batch = connection
            try:
                async with append_batch(connection, self.arena, after=after) as batch:
                    yield batch
            except BaseException:
                await connection.close()
                raise
            finally:
                self._batch = None

    async def opened(self, upto: int) -> list[OpenMatchup]:
        """Matchups that were served up to a position and had not ended there."""
        values = {"arena": self.arena, "upto": upto, "longest": _MAX_OVERDUE_DURATION}
        return [OpenMatchup(*row) for row in await fetch_rows(self, "log_open_matchups", values)]

    async def serials(self, upto: int) -> list[int]:
        """By source: the number of matchups that were served or prefetched up to a position."""
        values = {"arena": self.arena, "upto": upto}
        return [serial for (serial,) in await fetch_rows(self, "log_serials", values)]

    async def clock(self) -> tuple[datetime, int]:
        """The database's time, and the position up to which votes are final."""
        row = await fetch_row(self, "log_clock", {"arena": self.arena})
        return cast("tuple[datetime, int]", row)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection of the pool; during a batch, the connection of the batch."""
        if self._batch is not None:
            yield self._batch
            return
        async with self._pool.voting_connection() as connection:
            yield connection
