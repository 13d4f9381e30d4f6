"""Room for what grows: partitions by arena, and within an arena by ranges of ten million.

Logs are appended to at their end, so that old ranges are never written again: they can be backed up,
frozen, and one day moved to files, range by range.
"""

from __future__ import annotations

from psycopg import AsyncConnection, sql

__all__ = ["AHEAD", "SPAN", "create_arena_room", "make_room"]

#: Rows of one partition, and how many before its end the next is made.
SPAN = 10_000_000
AHEAD = 1_000_000

#: Tables, and the column whose ranges they are cut by.
_GROWING = {"events": "position", "matchups": "serial", "endings": "serial"}


async def create_arena_room(connection: AsyncConnection, arena: int) -> None:
    """The partitions of a new arena. Call it in the transaction that makes the arena."""
    for table, column in _GROWING.items():
        await connection.execute(
            sql.SQL("CREATE TABLE {} PARTITION OF {} FOR VALUES IN ({}) PARTITION BY RANGE ({})").format(
                sql.Identifier(f"{table}_{arena}"),
                sql.Identifier(table),
                sql.Literal(arena),
                sql.Identifier(column),
            )
        )
        await make_room(connection, table, arena, 0)


async def make_room(connection: AsyncConnection, table: str, arena: int, number: int) -> None:
    """The range of ``table`` that holds this position or serial, if it is not there yet.

    It is made aside and attached: attaching keeps nobody from reading or writing the ranges before it.
    """
    first = number // SPAN * SPAN
    parent, name = sql.Identifier(f"{table}_{arena}"), sql.Identifier(f"{table}_{arena}_{number // SPAN}")
    found = await connection.execute("SELECT to_regclass(%s)", (f"{table}_{arena}_{number // SPAN}",))
    row = await found.fetchone()
    if row is not None and row[0] is not None:
        return
    await connection.execute(sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL)").format(name, parent))
    await connection.execute(
        sql.SQL("ALTER TABLE {} ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})").format(
            parent, name, sql.Literal(first), sql.Literal(first + SPAN)
        )
    )
