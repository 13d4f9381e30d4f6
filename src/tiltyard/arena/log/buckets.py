"""The bucket in which an arena's log lies, its partitions, and the statements on it.

Arenas share buckets by their numbers, so that the number of tables does not grow with the number of arenas. Logs are
only appended to, so that old partitions are never written again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import psycopg
from psycopg import AsyncConnection, sql

from tiltyard.postgres.connections import Database, translate_errors
from tiltyard.postgres.statements import bucket_statement, bucket_table, is_bucketed, statement

#: Rows of one arena in a partition, and how many rows before its end the next one is created.
PARTITION_ROWS = 10_000_000
PARTITION_AHEAD_ROWS = 1_000_000
#: Buckets that arenas share, numbered from 0.
SHARED_BUCKET_COUNT = 64

#: Tables, and the column by whose ranges they are partitioned.
_PARTITION_KEYS = {"events": "position", "matchups": "serial", "endings": "serial"}


def shared_bucket(arena: int) -> int:
    return arena % SHARED_BUCKET_COUNT


def find_statement(name: str, values: Mapping[str, object]) -> str:
    """A named statement; if it is about a log, on the bucket of the arena in ``values``."""
    if not is_bucketed(name):
        return statement(name)
    return bucket_statement(name, shared_bucket(cast("int", values["arena"])))


async def fetch_rows(database: Database, name: str, values: Mapping[str, object]) -> list[Any]:
    """All rows of a named statement; see `find_statement`."""
    if not isinstance(database, AsyncConnection):
        async with database.connection() as connection:
            return await fetch_rows(connection, name, values)
    return await (await database.execute(find_statement(name, values), values)).fetchall()


async def fetch_row(database: Database, name: str, values: Mapping[str, object]) -> Any | None:
    """The first row of a named statement, as by `fetch_rows`; ``None`` if it has none."""
    if not isinstance(database, AsyncConnection):
        async with database.connection() as connection:
            return await fetch_row(connection, name, values)
    return await (await database.execute(find_statement(name, values), values)).fetchone()


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
    return int((await database.execute(find_statement(name, values), values)).rowcount)


def fetch_rows_sync(
    connection: psycopg.Connection[Any], name: str, values: Mapping[str, object], doing: str
) -> list[Any]:
    """All rows of a named statement; errors are raised as a `StoreFault`."""
    with translate_errors(doing):
        return connection.execute(find_statement(name, values), values).fetchall()


def fetch_row_sync(
    connection: psycopg.Connection[Any], name: str, values: Mapping[str, object], doing: str
) -> Any | None:
    """The first row of a named statement, as by `fetch_rows_sync`; ``None`` if it has none."""
    with translate_errors(doing):
        return connection.execute(find_statement(name, values), values).fetchone()


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
