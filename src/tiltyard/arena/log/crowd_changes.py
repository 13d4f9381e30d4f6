"""Changes of the crowd: events of the log, and the table of those to be explained."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from psycopg import Connection

from tiltyard.arena.log.buckets import fetch_row, fetch_rows, fetch_rows_sync
from tiltyard.arena.log.event_details import CrowdChangedDetail
from tiltyard.arena.log.event_log import LogBatch, LogKind
from tiltyard.core.integrity.vote_groups import VOTE_GROUPS
from tiltyard.errors import NotFound
from tiltyard.postgres.connections import Database


class OpenChange(NamedTuple):
    """A change that is not explained: the position of its event, the model and the group of votes, by number."""

    position: int
    model: int
    group: int


@dataclass(frozen=True, slots=True)
class FoundChange:
    """A change of the crowd with its evidence."""

    position: int
    found_at: datetime
    model: int
    name: str
    group: int
    detail: CrowdChangedDetail
    #: The position of the event that explains it, and why; ``None`` until then.
    explained: int | None
    reason: str | None

    @property
    def group_name(self) -> str:
        return VOTE_GROUPS[self.group]


def read_open_changes(connection: Connection, arena: int, position: int) -> list[OpenChange]:
    """The changes that were told and not explained when the log was at this position."""
    found = read_changes_unexplained_at(connection, arena, position)
    return [change for change in found if change.position <= position]


def read_changes_unexplained_at(connection: Connection, arena: int, position: int) -> list[OpenChange]:
    """The changes that were not explained at this position, whether they were told by then or later."""
    values = {"arena": arena, "position": position}
    found = fetch_rows_sync(
        connection, "crowd_unexplained_at", values, "read the changes of an arena's crowd"
    )
    return [OpenChange(*row) for row in found]


async def explain_change(batch: LogBatch, change: int, reason: str) -> tuple[int, int | None]:
    """Say why a crowd changed; return the position of the event, and the exclusion that holds votes, if one does."""
    values = {"arena": batch.arena, "position": change, "explained": batch.head + 1, "reason": reason}
    row = await fetch_row(batch.connection, "crowd_explain", values)
    if row is None:
        raise NotFound(
            f"this arena has no change of its crowd at position {change} that is still to be explained"
        )
    position = batch.add(LogKind.CROWD_EXPLAINED, a=row[0], detail={"change": change, "reason": reason})
    return position, row[1]


async def list_changes(database: Database, arena: int) -> list[FoundChange]:
    """All changes of an arena, newest first."""
    found = await fetch_rows(database, "crowd_list", {"arena": arena})
    return [FoundChange(*row) for row in found]
