"""One connection to one arena's log, made again whenever it has broken."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import cast
from uuid import UUID

from psycopg import AsyncConnection

from tiltyard.store.connecting import broken, connect_async, translated
from tiltyard.store.log import Appending, Found, LogRow, OpenMatchup, appending, find_matchup, read_tail
from tiltyard.store.rosters import Ints, Roster, read_excluded, read_responses, read_roster
from tiltyard.store.statements import statement

__all__ = ["Door"]

#: Nothing stays open longer than this after it should have expired.
_LONGEST = timedelta(days=1)


class Door:
    """What a desk needs of the store. One caller at a time."""

    def __init__(self, url: str, arena: int) -> None:
        self.arena = arena
        self._url = url
        self._connection: AsyncConnection | None = None

    @asynccontextmanager
    async def appending(self, after: int) -> AsyncIterator[Appending]:
        """One batch; see `store.log.appending`. After a fault the next one begins on a new connection."""
        connection = await self.connection()
        try:
            async with appending(connection, self.arena, after=after) as batch:
                yield batch
        except BaseException:
            await self.hang_up()
            raise

    async def tail(self, after: int) -> list[LogRow]:
        """Some thousand events after a position."""
        return await read_tail(await self.connection(), self.arena, after)

    async def find(self, matchup: UUID) -> Found | None:
        """A matchup of this arena by its id."""
        return await find_matchup(await self.connection(), matchup, arena=self.arena)

    async def roster(self) -> Roster:
        return await read_roster(await self.connection(), self.arena)

    async def responses(self, roster: Roster) -> Ints:
        return await read_responses(await self.connection(), self.arena, roster)

    async def excluded(self) -> tuple[set[int], set[int]]:
        return await read_excluded(await self.connection(), self.arena)

    async def opened(self, upto: int) -> list[OpenMatchup]:
        """Matchups that were served up to a position and had not ended there."""
        connection = await self.connection()
        with translated("read an arena's open matchups"):
            values = {"arena": self.arena, "upto": upto, "longest": _LONGEST}
            found = await connection.execute(statement("log_open_matchups"), values)
            return [OpenMatchup(*row) for row in await found.fetchall()]

    async def connection(self) -> AsyncConnection:
        """The connection, a new one if there is none or it is broken."""
        if self._connection is not None and broken(self._connection):
            await self.hang_up()
        if self._connection is None:
            self._connection = await connect_async(self._url, name=f"tiltyard desk {self.arena}")
        return self._connection

    async def clock(self) -> tuple[datetime, int]:
        """The server's time, and up to where votes are final."""
        connection = await self.connection()
        with translated("read the time"):
            found = await connection.execute(statement("log_clock"), {"arena": self.arena})
            row = await found.fetchone()
        return cast("tuple[datetime, int]", row)

    async def hang_up(self) -> None:
        """Close the connection; whatever it had begun is undone by the server."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
