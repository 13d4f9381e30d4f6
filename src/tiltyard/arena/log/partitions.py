"""Table partitions: by arena, and within an arena by ranges of ten million rows.

Logs are only appended to, so that old partitions are never written again: they can be backed up,
frozen, and one day moved to files.
"""

from __future__ import annotations

from psycopg import AsyncConnection, sql

__all__ = ["PARTITION_AHEAD_ROWS", "PARTITION_ROWS", "create_partitions", "ensure_partition"]

#: Rows of one partition, and how many rows before its end the next one is created.
PARTITION_ROWS = 10_000_000
PARTITION_AHEAD_ROWS = 1_000_000

#: Tables, and the column by whose ranges they are partitioned.
_PARTITION_KEYS = {"events": "position", "matchups": "serial", "endings": "serial"}


async def create_partitions(connection: AsyncConnection, arena: int) -> None:
    """Create the partitions of a new arena, in the transaction that creates the arena."""
    for table, column in _PARTITION_KEYS.items():
        await connection.execute(
            sql.SQL("CREATE TABLE {} PARTITION OF {} FOR VALUES IN ({}) PARTITION BY RANGE ({})").format(
                sql.Identifier(f"{table}_{arena}"),
                sql.Identifier(table),
                sql.Literal(arena),
                sql.Identifier(column),
            )
        )
        await ensure_partition(connection, table, arena, 0)


async def ensure_partition(connection: AsyncConnection, table: str, arena: int, number: int) -> None:
    """Create the partition of ``table`` for this position or serial, if it does not exist.

    It is created as a table and then attached: attaching does not block reads and writes of other partitions.
    """
    first = number // PARTITION_ROWS * PARTITION_ROWS
    parent, name = (
        sql.Identifier(f"{table}_{arena}"),
        sql.Identifier(f"{table}_{arena}_{number // PARTITION_ROWS}"),
    )
    found = await connection.execute(
        "SELECT to_regclass(%s)", (f"{table}_{arena}_{number // PARTITION_ROWS}",)
    )
    row = await found.fetchone()
    if row is not None and row[0] is not None:
        return
    await connection.execute(sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL)").format(name, parent))
    await connection.execute(
        sql.SQL("ALTER TABLE {} ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})").format(
            parent, name, sql.Literal(first), sql.Literal(first + PARTITION_ROWS)
        )
    )
