"""The operator's overview of arenas: open tasks, activity, recent changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from tiltyard.arena.log.buckets import find_statement
from tiltyard.arena.rating.rater_lag import RaterLag
from tiltyard.postgres.connections import Connection, translate_errors
from tiltyard.wire.moderation import AuditEntry


@dataclass(frozen=True, slots=True)
class PendingWork:
    """Open complaints of an arena, and the time of its last board."""

    complaints: int
    board_at: datetime | None


@dataclass(frozen=True, slots=True)
class DailyVotes:
    """Votes of one day, by source."""

    day: date
    human: int
    judge: int


async def read_pending_work(connection: Connection) -> dict[str, PendingWork]:
    """The pending work of all arenas, by name."""
    rows = await _rows(connection, "overviews_arenas", {})
    return {name: PendingWork(complaints, board_at) for name, complaints, board_at in rows}


async def read_lag_by_arena(connection: Connection, only: int | None = None) -> dict[str, RaterLag]:
    """The rater lag of all arenas, or of one, by name."""
    rows = [row for row in await _rows(connection, "lags", {}) if only in (None, row[0])]
    heads = [(await _rows(connection, "log_position", {"arena": row[0]}))[0][0] for row in rows]
    return {
        name: RaterLag(name, head, position or 0, horizon or 0, leader, seconds or 0.0)
        for (_, name, position, horizon, leader, seconds), head in zip(rows, heads, strict=True)
    }


async def read_daily_votes(
    connection: Connection, arena: int, timezone: str, *, days: int = 14
) -> list[DailyVotes]:
    """Votes of the last days that had any, newest first."""
    values = {"arena": arena, "timezone": timezone, "days": days}
    return [DailyVotes(*row) for row in await _rows(connection, "overviews_days", values)]


async def count_open_matchups(connection: Connection, arena: int) -> int:
    """The number of open matchups."""
    return int((await _rows(connection, "overviews_open", {"arena": arena}))[0][0])


async def read_judges(connection: Connection, sessions: Collection[int]) -> dict[int, str]:
    """The names of the tokens of those sessions that belong to judges, by session."""
    rows = await _rows(connection, "overviews_judges", {"sessions": list(sessions)})
    return {int(session): str(name) for session, name in rows}


async def read_database_size(connection: Connection) -> int:
    """The size of the database in bytes."""
    return int((await _rows(connection, "overviews_size", {}))[0][0])


async def list_audit(
    connection: Connection,
    arena: int | None,
    *,
    action: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> list[AuditEntry]:
    """The audit log of an arena, newest first; without an arena, that of the server: sign-ins, tokens."""
    first = 2**63 - 1 if before is None else before
    values = {"arena": arena, "action": action, "before": first, "limit": limit}
    return [AuditEntry(*row) for row in await _rows(connection, "overviews_audit", values)]


async def list_actions(connection: Connection, arena: int | None) -> list[str]:
    """The actions that occur in the audit log."""
    return [str(row[0]) for row in await _rows(connection, "overviews_actions", {"arena": arena})]


async def _rows(connection: Connection, named: str, values: Mapping[str, object]) -> list[Any]:
    with translate_errors("look over the arenas"):
        text = await find_statement(connection, named, values)
        return await (await connection.execute(text, values)).fetchall()
