"""Moves an arena's log from a shared bucket to one of its own, while people vote.

A move that is interrupted leaves the arena in its old bucket, where it works as before. Repeated, it starts
again: rows that were copied already are compared, and copied anew if they have changed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass

from psycopg import sql

from tiltyard.arena.accounts import write_audit_entry
from tiltyard.arena.content.arenas import find_arena
from tiltyard.arena.log import buckets as partitions
from tiltyard.arena.log.buckets import BUCKET_CACHE_SECONDS, fetch_row, fetch_rows
from tiltyard.arena.log.event_log import SOURCES
from tiltyard.arena.log.rewrite_permits import permit_rewriting
from tiltyard.errors import Conflict
from tiltyard.postgres.connections import Connection, ConnectionPool
from tiltyard.postgres.statements import bucket_statement, bucket_table, statement

#: Positions or serials that are copied in one transaction.
_CHUNK_ROWS = 50_000
#: The arena's lock is taken when at most so many events are left to copy, or after so many rounds.
_CLOSE_ENOUGH_ROWS = 1_000
_ROUND_LIMIT = 20


@dataclass(frozen=True, slots=True)
class MoveTimes:
    """How long a move waits: until no process remembers the old bucket, and before the old copy is deleted."""

    cache_seconds: float
    grace_seconds: float


#: A process may use a bucket a little longer than it may remember it: until its statement has begun.
DEFAULT_TIMES = MoveTimes(cache_seconds=BUCKET_CACHE_SECONDS + 2.0, grace_seconds=60.0)


@dataclass(frozen=True, slots=True)
class ArenaMove:
    """A move that was made: the events that were copied, and how long writers waited at its end."""

    arena: str
    source: int
    target: int
    events: int
    locked_seconds: float


async def move_arena(
    pool: ConnectionPool, name: str, *, actor: str, times: MoveTimes = DEFAULT_TIMES
) -> ArenaMove:
    """Move an arena to its own bucket; `Conflict` if it is there. The old copy stays: see `delete_old_copy`."""
    async with pool.connection() as connection:
        move = await _begin(connection, name, (await find_arena(connection, name)).arena)
        begun = time.monotonic()
        copied = await move.head(connection)
        await move.make_room(connection, copied)
        await move.copy_all(connection, copied)
        for _ in range(_ROUND_LIMIT):
            after, copied = copied, await move.catch_up(connection, copied)
            if copied - after <= _CLOSE_ENOUGH_ROWS:
                break
        # Until then a process may read the old bucket, and must find the whole log there.
        await asyncio.sleep(max(0.0, begun + times.cache_seconds - time.monotonic()))
        copied = await move.catch_up(connection, copied)
        return await move.switch(connection, copied, actor)


async def delete_old_copy(
    pool: ConnectionPool, name: str, *, actor: str, times: MoveTimes = DEFAULT_TIMES
) -> int | None:
    """Delete the copy that a move left, once nobody can be reading it; return its events, ``None`` without a copy."""
    async with pool.connection() as connection:
        arena = (await find_arena(connection, name)).arena
        left = await fetch_row(connection, "moves_left", {"arena": arena})
        if left is None:
            return None
        bucket, age_seconds = left
        await asyncio.sleep(max(0.0, times.grace_seconds - age_seconds))
        async with connection.transaction():
            detail = {"bucket": bucket}
            await permit_rewriting(connection, arena, actor, "delete old copy", detail)
            counts = []
            for table in ("events", "matchups", "endings"):
                text = bucket_statement(f"moves_delete_{table}", bucket)
                counts.append((await connection.execute(text, {"arena": arena})).rowcount)
            await connection.execute(statement("moves_forget"), {"arena": arena})
        return counts[0]


async def _begin(connection: Connection, name: str, arena: int) -> _Move:
    target = partitions.own_bucket(arena)
    async with connection.transaction():
        await partitions.create_partitions(connection, target)
        row = await fetch_row(connection, "moves_begin", {"arena": arena, "target": target})
        if row is None:
            raise Conflict(f"the arena {name} has a bucket of its own already")
        columns = {}
        for table in ("events", "matchups", "endings"):
            found = await fetch_rows(connection, "moves_columns", {"table": table})
            columns[table] = tuple(column for (column,) in found)
    return _Move(name, arena, int(row[0]), target, columns)


@dataclass(frozen=True, slots=True)
class _Move:
    name: str
    arena: int
    source: int
    target: int
    columns: dict[str, tuple[str, ...]]

    async def head(self, connection: Connection) -> int:
        return await self._number(connection, "log_position", {"arena": self.arena})

    async def last_serial(self, connection: Connection, source: int) -> int:
        """The last serial of a source's matchups; -1 if there is none."""
        return await self._number(connection, "moves_last_serial", {"arena": self.arena, "source": source})

    async def make_room(self, connection: Connection, head: int) -> None:
        """Create every range of the new bucket that the log needs, and the next."""
        serial = max([await self.last_serial(connection, source) for source in range(len(SOURCES))])
        async with connection.transaction():
            for table, last in (("events", head), ("matchups", serial), ("endings", serial)):
                end = last + partitions.PARTITION_AHEAD_ROWS
                for first in range(0, end + 1, partitions.PARTITION_ROWS):
                    await partitions.ensure_partition(connection, table, self.target, first)
                await partitions.ensure_partition(connection, table, self.target, end)

    async def copy_all(self, connection: Connection, head: int) -> None:
        """Copy the log up to a position, and all matchups and endings, in chunks and without the arena's lock."""
        chosen = sql.SQL("position > %(after)s AND position <= %(upto)s")
        for after, upto in _chunks(0, head):
            await self._copy(connection, "events", chosen, {"after": after, "upto": upto})
        chosen = sql.SQL("source = %(source)s AND serial > %(after)s AND serial <= %(upto)s")
        for source in range(len(SOURCES)):
            for after, upto in _chunks(-1, await self.last_serial(connection, source)):
                for table in ("matchups", "endings"):
                    values = {"source": source, "after": after, "upto": upto}
                    await self._copy(connection, table, chosen, values)

    async def catch_up(self, connection: Connection, after: int) -> int:
        """Copy the events after a position, and the matchups and endings that they name; return the new position.

        Whatever changes a matchup or its ending is an event that names it: what changes after this look is named by
        events after the position that is returned.
        """
        upto = await self.head(connection)
        await self.make_room(connection, upto)
        values = {"after": after, "upto": upto}
        named = sql.SQL(
            "(source, serial) IN (SELECT source, serial FROM {} WHERE arena = %(arena)s"
            " AND position > %(after)s AND position <= %(upto)s)"
        ).format(sql.Identifier(bucket_table("events", self.source)))
        chosen = sql.SQL("position > %(after)s AND position <= %(upto)s")
        await self._copy(connection, "events", chosen, values)
        for table in ("matchups", "endings"):
            await self._copy(connection, table, named, values)
        return upto

    async def switch(self, connection: Connection, copied: int, actor: str) -> ArenaMove:
        values = {"arena": self.arena, "source": self.source, "target": self.target}
        async with connection.transaction():
            await connection.execute(statement("log_lock"), values)
            locked = time.monotonic()
            head = await self.catch_up(connection, copied)
            if (await connection.execute(statement("moves_switch"), values)).rowcount != 1:
                raise Conflict(f"the arena {self.name} was moved by another process meanwhile")
            detail = {"from": self.source, "to": self.target, "events": head}
            await write_audit_entry(connection, actor, "move arena", detail, arena=self.arena)
        return ArenaMove(self.name, self.source, self.target, head, time.monotonic() - locked)

    async def _number(self, connection: Connection, name: str, values: dict[str, int]) -> int:
        row = await (await connection.execute(bucket_statement(name, self.source), values)).fetchone()
        assert row is not None
        return int(row[0])

    async def _copy(
        self, connection: Connection, table: str, chosen: sql.Composable, values: dict[str, int]
    ) -> None:
        """Copy the rows of one table that a condition selects; those that are there and differ are replaced."""
        key = ("arena", "position") if table == "events" else ("arena", "source", "serial")
        columns = sql.SQL(", ").join(map(sql.Identifier, self.columns[table]))
        changed = [column for column in self.columns[table] if column not in key]
        text = sql.SQL(
            "INSERT INTO {target} AS there ({columns}) SELECT {columns} FROM {source}"
            " WHERE arena = %(arena)s AND {chosen} ON CONFLICT ({key}, bucket) DO UPDATE SET {changes}"
            " WHERE ({there}) IS DISTINCT FROM ({copied})"
        ).format(
            target=sql.Identifier(bucket_table(table, self.target)),
            source=sql.Identifier(bucket_table(table, self.source)),
            columns=columns,
            chosen=chosen,
            key=sql.SQL(", ").join(map(sql.Identifier, key)),
            changes=sql.SQL(", ").join(
                sql.SQL("{0} = excluded.{0}").format(sql.Identifier(column)) for column in changed
            ),
            there=sql.SQL(", ").join(sql.Identifier("there", column) for column in changed),
            copied=sql.SQL(", ").join(sql.Identifier("excluded", column) for column in changed),
        )
        await connection.execute(text, {"arena": self.arena, **values})


def _chunks(after: int, last: int) -> Iterator[tuple[int, int]]:
    for first in range(after, last, _CHUNK_ROWS):
        yield first, min(first + _CHUNK_ROWS, last)
