"""Remarks of voters on their votes: tags and a comment. Only the operator can read them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from tiltyard.arena.log.buckets import fetch_one, fetch_row, run_statement
from tiltyard.postgres.connections import Database


@dataclass(frozen=True, slots=True)
class RemarkAuthor:
    """The author of a remark: a session of an arena's voters, people (0) or judges (1)."""

    arena: int
    source: int
    session: int

    def values(self) -> dict[str, object]:
        return {"arena": self.arena, "source": self.source, "session": self.session}


@dataclass(frozen=True, slots=True)
class Remark:
    """A voter's reasons for a vote."""

    tags: tuple[str, ...] = ()
    comment: str | None = None


async def keep_remark(
    database: Database, author: RemarkAuthor, matchup: UUID, remark: Remark, *, within: float
) -> bool:
    """Save a voter's remark, replacing an earlier one; return whether it was saved.

    It is not saved if the voter has no vote on the matchup, the names are revealed, or the vote is more than
    ``within`` seconds old.
    """
    values = author.values() | {"matchup": matchup, "tags": list(remark.tags), "comment": remark.comment}
    values["within"] = within
    return await run_statement(database, "remarks_keep", values) == 1


async def find_remark(database: Database, author: RemarkAuthor, matchup: UUID) -> Remark:
    """A voter's remark on a matchup; an empty one if there is none."""
    values = author.values() | {"matchup": matchup}
    row = await fetch_row(database, "remarks_find", values)
    return Remark() if row is None else Remark(tuple(row[0]), row[1])


async def count_final_votes(database: Database, author: RemarkAuthor, final: datetime) -> int:
    """The number of a voter's final votes: names revealed, or cast up to ``final``."""
    values = author.values() | {"final": final}
    return int((await fetch_one(database, "remarks_final_votes", values))[0])
