"""Data for the operator: overviews of arenas, complaints, remarks, the audit log, excluded votes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from tiltyard.arena.boards.weekly_reports import ReportSummary, list_reports
from tiltyard.arena.content.arenas import Arena, find_arena, list_arenas
from tiltyard.arena.operators.arena_overview import (
    DailyVotes,
    PendingWork,
    count_open_matchups,
    list_actions,
    list_audit,
    read_daily_votes,
    read_database_size,
    read_judges,
    read_lag_by_arena,
    read_pending_work,
)
from tiltyard.arena.operators.audit_and_complaints import list_complaints, read_audit, settle_complaint
from tiltyard.arena.operators.exclusions import ExclusionDetails, list_exclusions, read_exclusion_details
from tiltyard.arena.operators.job_status import ScheduledJob, list_jobs, report_is_late
from tiltyard.arena.operators.voter_queries import VoteRemark, read_remarks
from tiltyard.arena.rating.rater_lag import RaterLag
from tiltyard.postgres.connections import ConnectionPool, connect_from_pool
from tiltyard.wire.moderation import AuditEntry, Complaint, Exclusion


@dataclass(frozen=True, slots=True)
class ServerOverview:
    """All arenas, their pending work and rater lag by name, and the size of the database in bytes."""

    arenas: list[Arena]
    waiting: dict[str, PendingWork]
    rated: dict[str, RaterLag]
    size: int


@dataclass(frozen=True, slots=True)
class ArenaOverview:
    """Activity of an arena, the lag of its rater, and its scheduled jobs."""

    days: list[DailyVotes]
    opened: int
    lag: RaterLag
    waiting: PendingWork
    reports: list[ReportSummary]
    #: Whether the report of the last week is overdue.
    late: bool
    jobs: list[ScheduledJob]


@dataclass(frozen=True, slots=True)
class ExcludedVotes:
    """Exclusions, newest first; the details of each, by number; and the names of judges among the voters."""

    exclusions: list[Exclusion]
    whose: dict[int, ExclusionDetails]
    judges: dict[int, str]


async def read_server_overview(pool: ConnectionPool) -> ServerOverview:
    """Read the overview of all arenas."""
    async with connect_from_pool(pool) as connection:
        return ServerOverview(
            await list_arenas(connection),
            await read_pending_work(connection),
            await read_lag_by_arena(connection),
            await read_database_size(connection),
        )


async def read_arena_overview(pool: ConnectionPool, arena: Arena, now: datetime) -> ArenaOverview:
    """Read the overview of one arena."""
    async with connect_from_pool(pool) as connection:
        reports = await list_reports(connection, arena.arena)
        return ArenaOverview(
            days=await read_daily_votes(connection, arena.arena, arena.settings.timezone),
            opened=await count_open_matchups(connection, arena.arena),
            lag=(await read_lag_by_arena(connection, arena.arena))[arena.name],
            waiting=(await read_pending_work(connection))[arena.name],
            reports=reports,
            late=await report_is_late(connection, arena, reports, now),
            jobs=await list_jobs(connection, arena.name, now),
        )


async def read_exclusions(pool: ConnectionPool, arena: str) -> list[Exclusion]:
    """All exclusions, newest first."""
    async with connect_from_pool(pool) as connection:
        return await list_exclusions(connection, (await find_arena(connection, arena)).arena)


async def read_excluded_votes(pool: ConnectionPool, arena: Arena) -> ExcludedVotes:
    """All exclusions, newest first, with their details."""
    async with connect_from_pool(pool) as connection:
        exclusions = await list_exclusions(connection, arena.arena)
        whose = await read_exclusion_details(connection, arena.arena)
        sessions = {each for one in whose.values() for each in one.sessions}
        return ExcludedVotes(exclusions, whose, await read_judges(connection, sessions))


async def read_judge_names(pool: ConnectionPool, sessions: Collection[int]) -> dict[int, str]:
    """The names of the tokens of those sessions that belong to judges."""
    async with connect_from_pool(pool) as connection:
        return await read_judges(connection, sessions)


async def read_audit_entries(
    pool: ConnectionPool, arena: str, *, before: int | None, limit: int
) -> list[AuditEntry]:
    """A page of an arena's audit log, newest first."""
    async with connect_from_pool(pool) as connection:
        number = (await find_arena(connection, arena)).arena
        return await read_audit(connection, number, before=before, limit=limit)


async def read_filtered_audit(
    pool: ConnectionPool, arena: Arena | None, *, action: str | None, before: int | None, limit: int
) -> tuple[list[AuditEntry], list[str]]:
    """A page of the audit log of an arena, or of the server, optionally of one action; and all actions in it."""
    number = None if arena is None else arena.arena
    async with connect_from_pool(pool) as connection:
        actions = await list_actions(connection, number)
        entries = await list_audit(connection, number, action=action, before=before, limit=limit)
    return entries, actions


async def read_complaints(
    pool: ConnectionPool, arena: str, *, after: int = 0, limit: int, settled: bool = False
) -> list[Complaint]:
    """Complaints of voters, oldest first; with ``settled``, the settled ones too."""
    async with connect_from_pool(pool) as connection:
        number = (await find_arena(connection, arena)).arena
        return await list_complaints(connection, number, after=after, limit=limit, settled=settled)


async def settle(pool: ConnectionPool, arena: str, complaint: int, *, actor: str) -> None:
    """Mark a complaint as settled; `NotFound` if there is none with this number."""
    async with connect_from_pool(pool) as connection:
        number = (await find_arena(connection, arena)).arena
        await settle_complaint(connection, number, complaint, actor=actor)


async def read_voters_remarks(
    pool: ConnectionPool, arena: Arena, *, limit: int, offset: int
) -> tuple[list[VoteRemark], dict[int, str]]:
    """Remarks on votes, newest first; and the names of judges among the voters."""
    async with connect_from_pool(pool) as connection:
        remarks = await read_remarks(connection, arena.arena, limit=limit, offset=offset)
        return remarks, await read_judges(connection, [one.session for one in remarks])
