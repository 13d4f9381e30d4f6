"""The bucket in which an arena's log lies, its partitions, and the statements on it.

A process remembers an arena's bucket for a few seconds. While an arena is being moved to another bucket nobody
remembers it, and the move waits until everybody has forgotten it: see `tiltyard.arena.maintenance.arena_moves`.

Small arenas share buckets, so that the number of tables does not grow with the number of arenas. Logs are only
appended to, so that old partitions are never written again: they can be backed up, frozen, and one day moved to
files.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, cast

import psycopg
from psycopg import AsyncConnection, sql

from tiltyard.errors import NotFound
from tiltyard.foundation.caches import BoundedCache
from tiltyard.postgres.connections import Database, translate_errors
from tiltyard.postgres.statements import bucket_statement, bucket_table, is_bucketed, statement

#: How long a process may use a bucket that it has read.
BUCKET_CACHE_SECONDS = 10.0

#: An arena of a database: its host, port and name, and the arena's number.
_Key = tuple[str, int, str, int]
_CACHE: BoundedCache[_Key, int] = BoundedCache(20_000, seconds=BUCKET_CACHE_SECONDS)


async def find_statement(
    connection: psycopg.AsyncConnection[Any], name: str, values: Mapping[str, object]
) -> str:
    """A named statement; if it is about a log, on the bucket of the arena in ``values``."""
    if not is_bucketed(name):
        return statement(name)
    return bucket_statement(name, await read_bucket(connection, cast("int", values["arena"])))


async def fetch_rows(database: Database, name: str, values: Mapping[str, object]) -> list[Any]:
    """All rows of a named statement; see `find_statement`."""
    if not isinstance(database, AsyncConnection):
        async with database.connection() as connection:
            return await fetch_rows(connection, name, values)
    text = await find_statement(database, name, values)
    return await (await database.execute(text, values)).fetchall()


async def fetch_row(database: Database, name: str, values: Mapping[str, object]) -> Any | None:
    """The first row of a named statement, as by `fetch_rows`; ``None`` if it has none."""
    if not isinstance(database, AsyncConnection):
        async with database.connection() as connection:
            return await fetch_row(connection, name, values)
    text = await find_statement(database, name, values)
    return await (await database.execute(text, values)).fetchone()


async def fetch_one(database: Database, name: str, values: Mapping[str, object]) -> Any:
    """The first row of a named statement that always has one."""
    row = await fetch_row(database, name, values)
    assert row is not None
    return row


async def run_statement(database: Database, name: str, values: Mapping[str, object]) -> int:
    """Run a named statement; return how many rows it changed."""
    if not isinstance(database, AsyncConnection):
        async with database.connection() as connection:
            return await run_statement(connection, name, values)
    return int((await database.execute(await find_statement(database, name, values), values)).rowcount)


def find_statement_sync(connection: psycopg.Connection[Any], name: str, values: Mapping[str, object]) -> str:
    """`find_statement` on a synchronous connection."""
    if not is_bucketed(name):
        return statement(name)
    arena = cast("int", values["arena"])
    key = _key(connection, arena)
    known = _CACHE.get(key)
    if known is None:
        read_at = time.monotonic()
        row = connection.execute(statement("buckets_find"), {"arena": arena}).fetchone()
        known = _remembered(key, row, read_at)
    return bucket_statement(name, known)


def fetch_rows_sync(
    connection: psycopg.Connection[Any], name: str, values: Mapping[str, object], doing: str
) -> list[Any]:
    """All rows of a named statement; errors are raised as a `StoreFault`."""
    with translate_errors(doing):
        return connection.execute(find_statement_sync(connection, name, values), values).fetchall()


def fetch_row_sync(
    connection: psycopg.Connection[Any], name: str, values: Mapping[str, object], doing: str
) -> Any | None:
    """The first row of a named statement, as by `fetch_rows_sync`; ``None`` if it has none."""
    with translate_errors(doing):
        return connection.execute(find_statement_sync(connection, name, values), values).fetchone()


async def read_bucket(connection: psycopg.AsyncConnection[Any], arena: int) -> int:
    """The bucket of an arena; `NotFound` if there is no such arena."""
    key = _key(connection, arena)
    known = _CACHE.get(key)
    if known is not None:
        return known
    read_at = time.monotonic()
    row = await (await connection.execute(statement("buckets_find"), {"arena": arena})).fetchone()
    return _remembered(key, row, read_at)


def forget_bucket(connection: psycopg.AsyncConnection[Any], arena: int) -> None:
    """Read an arena's bucket anew the next time."""
    _CACHE.pop(_key(connection, arena))


def _remembered(key: _Key, row: tuple[Any, ...] | None, read_at: float) -> int:
    if row is None:
        raise NotFound("no such arena; see the list of arenas")
    bucket, is_moving = row
    if not is_moving:
        _CACHE.put(key, bucket, read_at=read_at)
    return int(bucket)


def _key(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], arena: int) -> _Key:
    info = connection.info
    return info.host, info.port, info.dbname, arena


#: Rows of one arena in a partition, and how many rows before its end the next one is created.
PARTITION_ROWS = 10_000_000
PARTITION_AHEAD_ROWS = 1_000_000
#: Buckets that arenas share, numbered from 0.
SHARED_BUCKET_COUNT = 64

#: Tables, and the column by whose ranges they are partitioned.
_PARTITION_KEYS = {"events": "position", "matchups": "serial", "endings": "serial"}


def shared_bucket(arena: int) -> int:
    return arena % SHARED_BUCKET_COUNT


def own_bucket(arena: int) -> int:
    """The bucket of an arena that shares with no other."""
    return SHARED_BUCKET_COUNT + arena


async def create_partitions(connection: AsyncConnection, bucket: int) -> None:
    """Create the partitions of a bucket, if they do not exist. Call it in a transaction."""
    for table, column in _PARTITION_KEYS.items():
        name, parent = sql.Identifier(bucket_table(table, bucket)), sql.Identifier(table)
        if await _is_missing(connection, bucket_table(table, bucket), bucket):
            create = sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL) PARTITION BY RANGE ({})")
            await connection.execute(create.format(name, parent, sql.Identifier(column)))
            # Statements on this partition need not mention the bucket.
            default = sql.SQL("ALTER TABLE {} ALTER COLUMN bucket SET DEFAULT {}")
            await connection.execute(default.format(name, sql.Literal(bucket)))
            attach = sql.SQL("ALTER TABLE {} ATTACH PARTITION {} FOR VALUES IN ({})")
            await connection.execute(attach.format(parent, name, sql.Literal(bucket)))
            await _refuse_truncation(connection, name)
        await ensure_partition(connection, table, bucket, 0)


async def ensure_partition(connection: AsyncConnection, table: str, bucket: int, number: int) -> None:
    """Create the partition of ``table`` for this position or serial, if it does not exist.

    It is created as a table and then attached: attaching does not block reads and writes of other partitions.
    """
    first = number // PARTITION_ROWS * PARTITION_ROWS
    parent = bucket_table(table, bucket)
    name = f"{parent}_{number // PARTITION_ROWS}"
    if await _is_missing(connection, name, bucket):
        create = sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL)")
        await connection.execute(create.format(sql.Identifier(name), sql.Identifier(parent)))
        attach = sql.SQL("ALTER TABLE {} ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})")
        limits = (sql.Literal(first), sql.Literal(first + PARTITION_ROWS))
        await connection.execute(attach.format(sql.Identifier(parent), sql.Identifier(name), *limits))
        await _refuse_truncation(connection, sql.Identifier(name))


async def _refuse_truncation(connection: AsyncConnection, name: sql.Identifier) -> None:
    """Create the trigger that partitions do not inherit."""
    trigger = sql.SQL(
        "CREATE TRIGGER never_truncated BEFORE TRUNCATE ON {} FOR EACH STATEMENT"
        " EXECUTE FUNCTION refuse_rewriting()"
    )
    await connection.execute(trigger.format(name))


async def _is_missing(connection: AsyncConnection, name: str, bucket: int) -> bool:
    """Whether a table does not exist; if so, only this transaction may create tables of the bucket until it ends."""
    for lock in (False, True):
        if lock:
            await connection.execute(statement("buckets_lock"), {"bucket": bucket})
        found = await fetch_row(connection, "buckets_table", {"name": name})
        if found is not None and found[0]:
            return False
    return True
