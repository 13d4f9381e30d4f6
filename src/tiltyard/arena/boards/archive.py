"""Reads the stored publications of an arena: earlier boards, and weekly reports."""

from __future__ import annotations

from tiltyard.arena.boards.snapshots import (
    Snapshot,
    SnapshotSummary,
    VoteAmendments,
    citable_snapshot,
    list_snapshots,
    read_vote_amendments,
)
from tiltyard.arena.boards.weekly_reports import ReportSummary, list_reports, read_report
from tiltyard.arena.content.arenas import Arena
from tiltyard.postgres.connections import ConnectionPool, connect_from_pool


async def read_snapshots(
    pool: ConnectionPool, arena: Arena, source: int, *, before: tuple[int, int] | None, limit: int
) -> list[SnapshotSummary]:
    """Boards of a source, newest first; ``before`` is a generation and a position."""
    async with connect_from_pool(pool) as connection:
        return await list_snapshots(connection, arena.arena, source, before=before, limit=limit)


async def read_citable(pool: ConnectionPool, snapshot: Snapshot) -> SnapshotSummary | None:
    """The last permanent board of the same generation, up to this one."""
    async with connect_from_pool(pool) as connection:
        return await citable_snapshot(connection, snapshot)


async def read_amendments(pool: ConnectionPool, snapshot: Snapshot, newest: Snapshot) -> VoteAmendments:
    """Votes of an earlier board that were excluded or restored up to the newest board."""
    async with connect_from_pool(pool) as connection:
        return await read_vote_amendments(connection, snapshot, newest)


async def read_reports(pool: ConnectionPool, arena: Arena) -> list[ReportSummary]:
    """An arena's weekly reports, newest first."""
    async with connect_from_pool(pool) as connection:
        return await list_reports(connection, arena.arena)


async def read_report_document(pool: ConnectionPool, arena: Arena, sha256: str) -> str:
    """The document of a report, by its hash; `NotFound` if there is none."""
    async with connect_from_pool(pool) as connection:
        return await read_report(connection, arena.arena, sha256)
