"""Sums from which the next weekly report goes on, so that it need not read the whole log again."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import numpy.typing as npt
from psycopg import Connection

from tiltyard.arena.log.buckets import find_statement_sync
from tiltyard.arena.log.event_log import HUMAN
from tiltyard.core.policy.state.policy import Lane
from tiltyard.core.policy.state.vote_log import VoteLog
from tiltyard.core.policy.validity.fold_state import decode_state, encode_state
from tiltyard.postgres.connections import translate_errors
from tiltyard.postgres.statements import statement

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ReportSums:
    """People's votes on matchups of the exploration lane, up to a position."""

    #: The exclusions and restorations that are applied.
    generation: int
    position: int = 0
    explored: VoteLog = field(default_factory=VoteLog)


def read_report_sums(connection: Connection, arena: int, since: datetime) -> ReportSums | None:
    """What the last report has kept, for one that begins at ``since`` or later; ``None`` if there is nothing."""
    with translate_errors("read the sums of the last report"):
        row = connection.execute(statement("report_sums_find"), {"arena": arena, "since": since}).fetchone()
    if row is None:
        return None
    generation, position, explored = row
    return ReportSums(generation, position, VoteLog.of(decode_state(bytes(explored))[0]))


def keep_report_sums(connection: Connection, arena: int, until: datetime, sums: ReportSums) -> None:
    """Keep the sums of a report that ends before ``until``, for the next one."""
    values = {
        "arena": arena,
        "until": until,
        "generation": sums.generation,
        "position": sums.position,
        "explored": encode_state(sums.explored.columns(), {}),
    }
    with translate_errors("keep the sums of a report"):
        connection.execute(statement("report_sums_keep"), values)


def find_position(connection: Connection, arena: int, after: int, at: datetime) -> int | None:
    """The position of the first event after ``after`` that happened at ``at`` or later; ``None`` if there is none."""
    values = {"arena": arena, "after": after, "at": at}
    with translate_errors("read an arena's log"):
        text = find_statement_sync(connection, "reports_position_at", values)
        row = connection.execute(text, values).fetchone()
    return None if row is None else int(row[0])


def serials_of_lane(connection: Connection, arena: int, lane: Lane, serials: range) -> Ints:
    """Those serials of a range that are people's matchups which a lane chose."""
    values = {
        "arena": arena,
        "source": HUMAN,
        "lane": int(lane),
        "first": serials.start,
        "stop": serials.stop,
    }
    with translate_errors("read an arena's matchups"):
        text = find_statement_sync(connection, "reports_lane", values)
        rows = connection.execute(text, values).fetchall()
    return np.array([serial for (serial,) in rows], dtype=np.int64)
