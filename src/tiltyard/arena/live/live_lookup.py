"""What pages tell of live battles besides the battles themselves: categories, and what answers took and cost."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from tiltyard.arena.log.buckets import find_statement
from tiltyard.postgres.connections import ConnectionPool, connect_from_pool, translate_errors

__all__ = ["AnswerFigures", "read_answer_figures", "read_live_categories"]


@dataclass(frozen=True, slots=True)
class AnswerFigures:
    """What the answers of one side took and cost; ``None`` where it is unknown. It tells who answered."""

    first_token_seconds: float | None = None
    seconds: float | None = None
    #: Millionths of a dollar.
    cost: int | None = None


async def read_live_categories(pool: ConnectionPool, arena: int) -> tuple[str, ...]:
    """The categories in which a prompt can be asked."""
    values = {"arena": arena}
    async with connect_from_pool(pool) as connection:
        with translate_errors("read the categories of a live arena"):
            text = await find_statement(connection, "live_categories", values)
            rows = await (await connection.execute(text, values)).fetchall()
    return tuple(name for (name,) in rows)


async def read_answer_figures(
    pool: ConnectionPool, arena: int, matchup: UUID
) -> tuple[AnswerFigures, AnswerFigures]:
    """What both sides of a battle took and cost. Nobody may see it before the vote is final."""
    values = {"arena": arena, "matchup": matchup}
    async with connect_from_pool(pool) as connection:
        with translate_errors("read the figures of a live battle"):
            text = await find_statement(connection, "live_answer_figures", values)
            rows = await (await connection.execute(text, values)).fetchall()
    found = {
        side: AnswerFigures(first, seconds, None if cost is None else int(cost))
        for side, first, seconds, cost in rows
    }
    return found.get(0, AnswerFigures()), found.get(1, AnswerFigures())
