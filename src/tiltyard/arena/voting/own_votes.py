"""Reads a voter's own votes. Votes whose names are not revealed yet are only counted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from tiltyard.arena.log.buckets import fetch_row, fetch_rows
from tiltyard.core.policy.state.vote_marks import Unrated
from tiltyard.postgres.connections import Connection, translate_errors


@dataclass(frozen=True, slots=True)
class OwnTotals:
    """Numbers of a voter's revealed votes, pending votes and skipped matchups."""

    votes: int
    #: Votes whose names are not revealed yet.
    pending: int
    skipped: int


@dataclass(frozen=True, slots=True)
class OwnVote:
    """One vote; models and prompt by number."""

    matchup: UUID
    at: datetime
    a: int
    b: int
    prompt: int
    outcome: int
    blind: bool
    #: Why it is not rated; ``None`` if it is.
    unrated: Unrated | None = None


async def read_own_totals(connection: Connection, arena: int, source: int, session: int) -> OwnTotals:
    """Count votes with revealed names, votes without, and skipped matchups."""
    with translate_errors("count a voter's votes"):
        values = _values(arena, source, session)
        row = await fetch_row(connection, "own_votes_totals", values)
    assert row is not None
    return OwnTotals(*row)


async def read_own_counts(
    connection: Connection, arena: int, source: int, session: int
) -> list[tuple[int, int, int, int, int, int]]:
    """Rated votes with revealed names, as rows of left model, right model, prompt, free prompt, outcome and count."""
    with translate_errors("count a voter's votes"):
        values = _values(arena, source, session)
        return await fetch_rows(connection, "own_votes_counts", values)


async def read_own_recent(
    connection: Connection, arena: int, source: int, session: int, *, limit: int, latest: bool = False
) -> list[OwnVote]:
    """The last votes with revealed names, newest first; with ``latest``, only those of the last reveal."""
    with translate_errors("read a voter's votes"):
        values = _values(arena, source, session) | {"limit": limit, "latest": latest}
        rows = await fetch_rows(connection, "own_votes_recent", values)
    return [OwnVote(*row) for row in rows]


def _values(arena: int, source: int, session: int) -> dict[str, object]:
    return {"arena": arena, "source": source, "session": session}
