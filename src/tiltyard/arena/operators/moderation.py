"""Data for the operator: overviews of arenas, complaints, remarks, the audit log, excluded votes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import TypedDict

from tiltyard.arena.accounts import write_audit_entry
from tiltyard.arena.boards.weekly_reports import list_reports
from tiltyard.arena.content.arenas import Arena, find_arena, list_arenas
from tiltyard.arena.log.buckets import fetch_one, fetch_row, fetch_rows
from tiltyard.arena.operators.exclusions import ExclusionDetails, list_exclusions, read_exclusion_details
from tiltyard.arena.operators.job_status import ScheduledJob, list_jobs, report_is_late
from tiltyard.arena.operators.voters import FLAGGED_REASON
from tiltyard.arena.rating.rater_lag import RaterLag
from tiltyard.errors import NotFound
from tiltyard.postgres.connections import Connection, ConnectionPool, Database
from tiltyard.wire.arenas import ReportInfo
from tiltyard.wire.moderation import AuditEntry, Complaint, Exclusion

#: Days that an overview counts votes of, and a number above those of all entries of the audit log.
_VOTE_DAYS = 14
_AUDIT_ENTRY_LIMIT = 2**63 - 1


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


async def _read_pending_work(connection: Connection) -> dict[str, PendingWork]:
    rows = await fetch_rows(connection, "overviews_arenas", {})
    return {name: PendingWork(complaints, board_at) for name, complaints, board_at in rows}


async def read_lag_by_arena(connection: Connection, only: int | None = None) -> dict[str, RaterLag]:
    """The rater lag of all arenas, or of one, by name."""
    rows = [row for row in await fetch_rows(connection, "lags", {}) if only in (None, row[0])]
    heads = [(await fetch_rows(connection, "log_position", {"arena": row[0]}))[0][0] for row in rows]
    return {
        name: RaterLag(name, head, position or 0, horizon or 0, leader, seconds or 0.0)
        for (_, name, position, horizon, leader, seconds), head in zip(rows, heads, strict=True)
    }


async def read_voter_names(database: Database, sessions: Collection[int]) -> dict[int, str]:
    """Names of judges' tokens, of people who were invited by name or rate in a panel, and of those who signed in, by session."""
    rows = await fetch_rows(database, "overviews_names", {"sessions": list(sessions)})
    return {int(session): str(name) for session, name in rows}


@dataclass(frozen=True, slots=True)
class ServerOverview:
    """All arenas, their pending work and rater lag by name, and the size of the database in bytes."""

    arenas: list[Arena]
    waiting: dict[str, PendingWork]
    rated: dict[str, RaterLag]
    size: int


class ArenaOverview(TypedDict):
    """Activity of an arena, the lag of its rater, and its scheduled jobs."""

    days: list[DailyVotes]
    opened: int
    #: Votes that tests of voters keep out of the ratings until an operator restores them.
    held: int
    lag: RaterLag
    waiting: PendingWork
    reports: list[ReportInfo]
    #: Whether the report of the last week is overdue.
    late: bool
    jobs: list[ScheduledJob]


class ExcludedVotes(TypedDict):
    """Exclusions, newest first; the details of each, by number; and the known names of voters."""

    exclusions: list[Exclusion]
    whose: dict[int, ExclusionDetails]
    voter_names: dict[int, str]


async def read_server_overview(pool: ConnectionPool) -> ServerOverview:
    async with pool.connection() as connection:
        return ServerOverview(
            await list_arenas(connection),
            await _read_pending_work(connection),
            await read_lag_by_arena(connection),
            int((await fetch_one(connection, "overviews_size", {}))[0]),
        )


async def read_arena_overview(pool: ConnectionPool, arena: Arena, now: datetime) -> ArenaOverview:
    async with pool.connection() as connection:
        reports = await list_reports(connection, arena.arena)
        votes = {"arena": arena.arena, "timezone": arena.settings.timezone, "days": _VOTE_DAYS}
        return ArenaOverview(
            days=[DailyVotes(*row) for row in await fetch_rows(connection, "overviews_days", votes)],
            opened=int((await fetch_one(connection, "overviews_open", {"arena": arena.arena}))[0]),
            held=sum(
                one.votes
                for one in await list_exclusions(connection, arena.arena)
                if one.reason == FLAGGED_REASON and one.restored is None
            ),
            lag=(await read_lag_by_arena(connection, arena.arena))[arena.name],
            waiting=(await _read_pending_work(connection))[arena.name],
            reports=reports,
            late=await report_is_late(connection, arena, reports, now),
            jobs=await list_jobs(connection, arena.name, now),
        )


async def read_exclusions(pool: ConnectionPool, arena: str) -> list[Exclusion]:
    """All exclusions, newest first."""
    async with pool.connection() as connection:
        return await list_exclusions(connection, (await find_arena(connection, arena)).arena)


async def read_excluded_votes(pool: ConnectionPool, arena: Arena) -> ExcludedVotes:
    """All exclusions, newest first, with their details."""
    async with pool.connection() as connection:
        exclusions = await list_exclusions(connection, arena.arena)
        whose = await read_exclusion_details(connection, arena.arena)
        sessions = {each for one in whose.values() for each in one.sessions}
        voter_names = await read_voter_names(connection, sessions)
    return {"exclusions": exclusions, "whose": whose, "voter_names": voter_names}


async def read_audit_entries(
    database: Database, arena: Arena | None, *, action: str | None = None, before: int | None, limit: int
) -> list[AuditEntry]:
    """A page of the audit log of an arena, or of the server, newest first; with an action, its entries only."""
    first = _AUDIT_ENTRY_LIMIT if before is None else before
    number = None if arena is None else arena.arena
    values = {"arena": number, "action": action, "before": first, "limit": limit}
    return [AuditEntry(*row) for row in await fetch_rows(database, "oversight_audit", values)]


async def list_audit_actions(database: Database, arena: Arena | None) -> list[str]:
    """All actions in the audit log of an arena, or of the server."""
    values = {"arena": None if arena is None else arena.arena}
    return [str(name) for (name,) in await fetch_rows(database, "overviews_actions", values)]


async def read_complaints(
    pool: ConnectionPool, arena: str, *, after: int = 0, limit: int, settled: bool = False
) -> list[Complaint]:
    """Complaints of voters, oldest first; with ``settled``, the settled ones too."""
    async with pool.connection() as connection:
        number = (await find_arena(connection, arena)).arena
        values = {"arena": number, "after": after, "limit": limit, "all": settled}
        return [Complaint(*row) for row in await fetch_rows(connection, "oversight_complaints", values)]


async def settle(pool: ConnectionPool, arena: str, complaint: int, *, actor: str) -> None:
    """Mark a complaint as settled; `NotFound` if there is none with this number."""
    async with pool.connection() as connection:
        number = (await find_arena(connection, arena)).arena
        async with connection.transaction():
            values = {"arena": number, "complaint": complaint}
            row = await fetch_row(connection, "oversight_settle", values)
            if row is None:
                raise NotFound(f"this arena has no complaint {complaint}")
            about = {"complaint": complaint, "settled": [row[0], True]}
            await write_audit_entry(connection, actor, "settle complaint", about, arena=number)


async def note_export(
    pool: ConnectionPool, arena: int, action: str, about: Mapping[str, object], *, actor: str
) -> None:
    """Write to the audit log that somebody takes out data by which voters can be recognised."""
    async with pool.connection() as connection, connection.transaction():
        await write_audit_entry(connection, actor, action, about, arena=arena)
