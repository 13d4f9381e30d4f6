"""Weekly validity reports, stored permanently: one per period, addressed by hash."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from psycopg import AsyncConnection, Connection

from tiltyard.arena.log.buckets import fetch_row, fetch_row_sync, fetch_rows, fetch_rows_sync
from tiltyard.errors import NotFound
from tiltyard.foundation.arrays import Ints
from tiltyard.postgres.connections import Database, translate_errors
from tiltyard.postgres.statements import statement
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.wire.arenas import ReportInfo

if TYPE_CHECKING:
    from tiltyard.core.policy.state.rating_fold import MethodValues


#: The first phase of the policy whose weekly reports readers see. Operators see all.
FIRST_PUBLIC_REPORT_PHASE = 4


@dataclass(frozen=True, slots=True)
class ReportableArena:
    """An arena that may get a weekly report."""

    arena: int
    name: str
    settings: ArenaSettings
    created_at: datetime
    #: The position up to which votes are final.
    horizon: int


def list_reportable_arenas(connection: Connection) -> list[ReportableArena]:
    rows = fetch_rows_sync(connection, "reports_arenas", {}, "list the arenas")
    return [
        ReportableArena(arena, name, ArenaSettings.kept(settings), created_at, horizon)
        for arena, name, settings, created_at, horizon in rows
    ]


def relaxed_serials(connection: Connection, arena: int, source: int, serials: range) -> Ints:
    """Those serials of a range that are a source's matchups for which a rule of matchmaking was relaxed."""
    values = {"arena": arena, "source": source, "first": serials.start, "stop": serials.stop}
    rows = fetch_rows_sync(connection, "reports_given_up", values, "read what a report needs")
    return np.array([serial for (serial,) in rows], dtype=np.int64)


def is_final_until(connection: Connection, arena: ReportableArena, until: datetime) -> bool:
    """Whether all votes before ``until`` are final."""
    values = {"arena": arena.arena, "position": arena.horizon}
    row = fetch_row_sync(connection, "reports_next_at", values, "read an arena's log")
    return row is None or bool(row[0] >= until)


def read_method_sync(connection: Connection, arena: int, until: datetime) -> MethodValues | None:
    """`read_method` on a synchronous connection."""
    values = {"arena": arena, "until": until}
    row = fetch_row_sync(connection, "reports_policy", values, "read an arena's policy")
    return None if row is None else _method(row)


async def read_method(connection: AsyncConnection[Any], arena: int, until: datetime) -> MethodValues | None:
    """The policy and the rating settings that were in effect before ``until``, according to the log."""
    values = {"arena": arena, "until": until}
    row = await fetch_row(connection, "reports_policy", values)
    return None if row is None else _method(row)


def is_reported(connection: Connection, arena: int, since: datetime, until: datetime) -> bool:
    """Whether there is a report of this span."""
    values = {"arena": arena, "since": since, "until": until}
    return fetch_row_sync(connection, "reports_known", values, "look up a report") is not None


def add_report(
    connection: Connection,
    arena: int,
    span: tuple[datetime, datetime],
    position: int,
    phase: int,
    document: bytes,
) -> bool:
    """Store a report, unless its span has one; return whether it was stored."""
    values = {
        "arena": arena,
        "since": span[0],
        "until": span[1],
        "position": position,
        "phase": phase,
        "sha256": hashlib.sha256(document).digest(),
        "document": document.decode(),
    }
    with translate_errors("keep a report"):
        return connection.execute(statement("reports_add"), values).rowcount == 1


async def list_reports(database: Database, arena: int, *, first_phase: int = 1) -> list[ReportInfo]:
    """An arena's reports of this phase and later ones, newest first."""
    found = await fetch_rows(database, "reports_list", {"arena": arena, "first_phase": first_phase})
    return [
        ReportInfo(bytes(sha256).hex(), since, until, position, made_at)
        for since, until, position, sha256, made_at in found
    ]


async def read_report(database: Database, arena: int, sha256: str, *, first_phase: int = 1) -> str:
    """The document of a report of this phase or a later one, by its hash; `NotFound` if there is none."""
    try:
        digest = bytes.fromhex(sha256)
    except ValueError:
        digest = b""
    row = await fetch_row(
        database, "reports_read", {"arena": arena, "sha256": digest, "first_phase": first_phase}
    )
    if row is None:
        raise NotFound("no such report; see the list of reports")
    return str(row[0])


def _method(row: Sequence[Any]) -> MethodValues:
    method: MethodValues = row[0]
    return method
