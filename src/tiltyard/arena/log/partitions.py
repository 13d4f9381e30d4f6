"""Table partitions: by bucket, and within a bucket by ranges of ten million rows of an arena.

Small arenas share buckets, so that the number of tables does not grow with the number of arenas. Logs are only
appended to, so that old partitions are never written again: they can be backed up, frozen, and one day moved to
files.
"""

from __future__ import annotations

from psycopg import AsyncConnection, sql

from tiltyard.arena.log.buckets import fetch_row
from tiltyard.postgres.statements import bucket_table, statement

#: Rows of one arena in a partition, and how many rows before its end the next one is created.
PARTITION_ROWS = 10_000_000
PARTITION_AHEAD_ROWS = 1_000_000
#: Buckets that arenas share, numbered from 0.
SHARED_BUCKET_COUNT = 64

#: Tables, and the column by whose ranges they are partitioned.
_PARTITION_KEYS = {"events": "position", "matchups": "serial", "endings": "serial"}


def shared_bucket(arena: int) -> int:
    """The bucket of a new arena."""
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
