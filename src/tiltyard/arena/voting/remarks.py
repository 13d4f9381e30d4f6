"""What voters say beside their votes: why they decided so. Nobody but the operator reads it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg import AsyncConnection

from tiltyard.postgres.connections import translate_errors
from tiltyard.postgres.statements import statement

__all__ = ["OwnPair", "Remark", "RemarkAuthor", "find_remark", "keep_remark", "read_own_pairs"]


@dataclass(frozen=True, slots=True)
class RemarkAuthor:
    """Who says something: a session of an arena's voters, people (0) or judges (1)."""

    arena: int
    source: int
    session: int

    def values(self) -> dict[str, object]:
        return {"arena": self.arena, "source": self.source, "session": self.session}


@dataclass(frozen=True, slots=True)
class Remark:
    """Why a voter decided so."""

    tags: tuple[str, ...] = ()
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class OwnPair:
    """Two models, in one order, and a voter's final votes on them."""

    a: int
    b: int
    votes: int
    decisive: int


async def keep_remark(
    connection: AsyncConnection, author: RemarkAuthor, matchup: UUID, remark: Remark, *, within: float
) -> bool:
    """Keep what a voter says of its vote, ``within`` so many seconds, in place of what it said before.

    Not later, nor if there is no vote of its own that stands, or the names were shown: whether it was kept.
    """
    with translate_errors("keep a remark"):
        values = author.values() | {"matchup": matchup, "tags": list(remark.tags), "comment": remark.comment}
        values["within"] = within
        done = await connection.execute(statement("remarks_keep"), values)
    return done.rowcount == 1


async def find_remark(connection: AsyncConnection, author: RemarkAuthor, matchup: UUID) -> Remark:
    """What a voter said of its own matchup; an empty remark if nothing."""
    with translate_errors("read a remark"):
        values = author.values() | {"matchup": matchup}
        row = await (await connection.execute(statement("remarks_find"), values)).fetchone()
    return Remark() if row is None else Remark(tuple(row[0]), row[1])


async def read_own_pairs(connection: AsyncConnection, author: RemarkAuthor, final: datetime) -> list[OwnPair]:
    """The pairs a voter has final votes on: names shown, or cast up to ``final``."""
    with translate_errors("count a voter's votes"):
        values = author.values() | {"final": final}
        rows = await (await connection.execute(statement("remarks_own_pairs"), values)).fetchall()
    return [OwnPair(*row) for row in rows]
