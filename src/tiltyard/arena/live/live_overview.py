"""What an operator is told about a live arena: who answers, how well, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tiltyard.arena.live.live_budget import LiveSpending, read_spending
from tiltyard.arena.log.buckets import fetch_row, fetch_rows
from tiltyard.postgres.connections import ConnectionPool, connect_from_pool, translate_errors

#: Calls of so many days are counted.
OVERVIEW_DAYS: Final = 30
_FAILURE_KIND_LIMIT = 20


@dataclass(frozen=True, slots=True)
class EntrantUse:
    """One version of an entrant. Money is in millionths of a dollar; what is not known yet counts as reserved."""

    model: str
    version: str
    enabled: bool
    calls: int
    failed: int
    #: Seconds to the first token, the median; ``None`` without an answer.
    first_token_seconds: float | None
    spent_today: int
    spent: int
    #: When it answered last, and what has failed since.
    answered_at: datetime | None
    failed_since: int
    problem: str | None


@dataclass(frozen=True, slots=True)
class FailureCount:
    """How often calls of a model failed for one reason."""

    model: str
    problem: str
    count: int


@dataclass(frozen=True, slots=True)
class LiveOverview:
    """The state of a live arena."""

    spending: LiveSpending
    entrants: tuple[EntrantUse, ...]
    failures: tuple[FailureCount, ...]
    #: Battles of the same days, and how many of them are void.
    battles: int
    void: int


async def read_live_overview(pool: ConnectionPool, arena: int) -> LiveOverview:
    """Who answers, how well, and what it costs, by the calls of the last days."""
    values = {"arena": arena, "days": OVERVIEW_DAYS, "limit": _FAILURE_KIND_LIMIT}
    async with connect_from_pool(pool) as connection:
        with translate_errors("read the calls of a live arena"):
            spending = await read_spending(connection, arena)
            entrants = await fetch_rows(connection, "live_entrant_use", values)
            failures = await fetch_rows(connection, "live_failures", values)
            battles = await fetch_row(connection, "live_battle_counts", values)
    assert battles is not None
    return LiveOverview(
        spending,
        tuple(EntrantUse(*row) for row in entrants),
        tuple(FailureCount(*row) for row in failures),
        *battles,
    )
