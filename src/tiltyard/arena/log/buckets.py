"""The bucket in which an arena's log lies, and the statements on it.

A process remembers an arena's bucket for a few seconds. While an arena is being moved to another bucket nobody
remembers it, and the move waits until everybody has forgotten it: see `tiltyard.arena.maintenance.arena_moves`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, cast

import psycopg

from tiltyard.errors import NotFound
from tiltyard.foundation.caches import BoundedCache
from tiltyard.postgres.statements import bucket_statement, is_bucketed, statement

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


async def fetch_rows(
    connection: psycopg.AsyncConnection[Any], name: str, values: Mapping[str, object]
) -> list[Any]:
    """All rows of a named statement; see `find_statement`."""
    text = await find_statement(connection, name, values)
    return await (await connection.execute(text, values)).fetchall()


async def fetch_row(
    connection: psycopg.AsyncConnection[Any], name: str, values: Mapping[str, object]
) -> Any | None:
    """The first row of a named statement; ``None`` if it has none."""
    text = await find_statement(connection, name, values)
    return await (await connection.execute(text, values)).fetchone()


async def fetch_one(connection: psycopg.AsyncConnection[Any], name: str, values: Mapping[str, object]) -> Any:
    """The first row of a named statement that always has one."""
    row = await fetch_row(connection, name, values)
    assert row is not None
    return row


def find_statement_sync(connection: psycopg.Connection[Any], name: str, values: Mapping[str, object]) -> str:
    """`find_statement` on a synchronous connection."""
    if not is_bucketed(name):
        return statement(name)
    return bucket_statement(name, _read_bucket_sync(connection, cast("int", values["arena"])))


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


def _read_bucket_sync(connection: psycopg.Connection[Any], arena: int) -> int:
    key = _key(connection, arena)
    known = _CACHE.get(key)
    if known is not None:
        return known
    read_at = time.monotonic()
    row = connection.execute(statement("buckets_find"), {"arena": arena}).fetchone()
    return _remembered(key, row, read_at)


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
