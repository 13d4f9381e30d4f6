"""The weekly report of one arena, from what checkpoints and the last report have kept.

It reads the events of its week, and those between the last checkpoint before the week and its beginning. Without a
checkpoint that it can use it reads the whole log, with the same result.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import numpy.typing as npt
from psycopg import Connection

from tiltyard.arena.boards.weekly_reports import (
    ReportableArena,
    add_report,
    is_final_until,
    read_method_sync,
    relaxed_serials,
)
from tiltyard.arena.log.buckets import fetch_row_sync, fetch_rows_sync
from tiltyard.arena.log.event_log import HUMAN, SOURCES
from tiltyard.arena.log.log_columns import LogColumns, read_columns
from tiltyard.arena.log.rosters import read_roster_sync
from tiltyard.arena.rating.log_replay import active_exclusions, fold_until, has_same_votes, restore_progress
from tiltyard.arena.rating.rater_progress import (
    log_head,
    read_excluded_votes,
    read_exclusion_changes,
    read_undone_votes,
)
from tiltyard.core.policy.state.events import Event
from tiltyard.core.policy.state.policy import Lane, Policy
from tiltyard.core.policy.state.rating_fold import RaterSettings, method_from_dict
from tiltyard.core.policy.state.vote_log import VoteLog
from tiltyard.core.policy.validity.arena_fold import ArenaFold, decode_state, encode_state
from tiltyard.core.policy.validity.report import report_on_span
from tiltyard.postgres.connections import translate_errors
from tiltyard.postgres.statements import statement


@dataclass(frozen=True, slots=True)
class ReportSums:
    """People's votes on matchups of the exploration lane, up to a position."""

    #: The exclusions and restorations that are applied.
    generation: int
    position: int = 0
    explored: VoteLog = field(default_factory=VoteLog)


def _read_report_sums(connection: Connection, arena: int, since: datetime) -> ReportSums | None:
    """What the last report has kept, for one that begins at ``since`` or later; ``None`` if there is nothing."""
    values = {"arena": arena, "since": since}
    row = fetch_row_sync(connection, "report_sums_find", values, "read the sums of the last report")
    if row is None:
        return None
    generation, position, explored = row
    return ReportSums(generation, position, VoteLog.of(decode_state(bytes(explored))[0]))


def _find_position(connection: Connection, arena: int, after: int, at: datetime) -> int | None:
    """The position of the first event after ``after`` that happened at ``at`` or later; ``None`` if there is none."""
    values = {"arena": arena, "after": after, "at": at}
    row = fetch_row_sync(connection, "reports_position_at", values, "read an arena's log")
    return None if row is None else int(row[0])


_VERSION = 2
_CHUNK_ROWS = 200_000


def report_arena(connection: Connection, arena: ReportableArena, since: datetime, until: datetime) -> bool:
    """Report one span of one arena, if it had begun and the span is final."""
    method = read_method_sync(connection, arena.arena, until)
    if method is None or not is_final_until(connection, arena, until):
        return False
    policy, settings = method_from_dict(method)
    log = _ReportedLog(connection, arena, since, until)
    report = report_on_span(
        log.fold_before(policy, settings),
        log.events,
        log.sums.explored,
        since=int(since.timestamp()),
        until=int(until.timestamp()),
        by="time",
        given_up=log.relaxed(),
    )
    document = {
        "version": _VERSION,
        "arena": arena.name,
        "source": SOURCES[HUMAN],
        "since": since.isoformat(),
        "until": until.isoformat(),
        "timezone": arena.settings.timezone,
        "position": log.end,
        "not_blind": log.columns.not_blind(HUMAN, int(since.timestamp())),
        "imported": log.columns.imported(int(since.timestamp())),
        "report": report.to_dict(),
    }
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    made = add_report(connection, arena.arena, (since, until), log.end, policy.phase, text.encode())
    kept = {
        "arena": arena.arena,
        "until": until,
        "generation": log.sums.generation,
        "position": log.sums.position,
        "explored": encode_state(log.sums.explored.columns(), {}),
    }
    with translate_errors("keep the sums of a report"):
        connection.execute(statement("report_sums_keep"), kept)
    return made


class _ReportedLog:
    """The part of a log that a report reads: its span, and the exploration lane's votes up to its end."""

    def __init__(
        self, connection: Connection, arena: ReportableArena, since: datetime, until: datetime
    ) -> None:
        self._connection, self._arena = connection, arena.arena
        changes = read_exclusion_changes(connection, arena.arena)
        self._generation = len(changes)
        active = active_exclusions(changes, self._generation)
        self._excluded = read_excluded_votes(connection, arena.arena, active)[HUMAN]
        kept = _read_report_sums(connection, arena.arena, since)
        if kept is not None and not has_same_votes(
            connection, arena.arena, changes, (kept.generation, self._generation), kept.position
        ):
            kept = None
        kept = ReportSums(self._generation) if kept is None else kept
        first = _find_position(connection, arena.arena, kept.position, since)
        stop = _find_position(connection, arena.arena, kept.position, until)
        #: The last positions before the span, and of it.
        self.end = arena.horizon if stop is None else stop - 1
        self.before = self.end if first is None else min(first - 1, self.end)
        # The undo of a vote before the horizon may come after it.
        head = log_head(connection, arena.arena)
        self._undone = read_undone_votes(connection, arena.arena, min(kept.position, self.before), head)
        self.columns = read_columns(connection, arena.arena, self.before, self.end).without(self._undone)
        self.events = self.columns.events(HUMAN, self._excluded)
        for start in range(kept.position, self.before, _CHUNK_ROWS):
            stop = min(start + _CHUNK_ROWS, self.before)
            self._explore(
                read_columns(connection, arena.arena, start, stop).without(self._undone), kept.explored
            )
        self._explore(self.columns, kept.explored)
        self.sums = ReportSums(self._generation, self.end, kept.explored)

    def fold_before(self, policy: Policy, settings: RaterSettings) -> ArenaFold:
        """The fold of everything before the span, with room for all models and prompts of the span, under a policy."""
        connection, arena = self._connection, self._arena
        progress = restore_progress(connection, arena, self._generation, self.before)
        fold_until(connection, arena, progress, self.before, self._generation)
        following = progress.followings[HUMAN] if progress.followings else ArenaFold(policy, settings)
        # All evaluations of the span are reported.
        following.whole = None
        roster, standing = read_roster_sync(connection, arena), following.standing
        models, prompts = self.columns.roster_size(len(standing.models), len(standing.prompts))
        following.widen(roster.models[:models], roster.prompts[:prompts])
        if policy != following.policy:
            following.under(policy)
        return following

    def relaxed(self) -> npt.NDArray[np.int64]:
        """Serials of the span's matchups for which a rule of matchmaking was relaxed."""
        served: npt.NDArray[np.int64] = self.events.serial[self.events.event == Event.SERVED]
        if not len(served):
            return served
        return relaxed_serials(self._connection, self._arena, HUMAN, _range_of(served))

    def _explore(self, columns: LogColumns, explored: VoteLog) -> None:
        """Add the votes on matchups that the exploration lane chose."""
        events = columns.events(HUMAN, self._excluded)
        votes = events[events.event == Event.VOTE]
        if len(votes):
            serials, lane = _range_of(votes.serial), {"source": HUMAN, "lane": int(Lane.EXPLORATION)}
            values = {"arena": self._arena, **lane, "first": serials.start, "stop": serials.stop}
            rows = fetch_rows_sync(self._connection, "reports_lane", values, "read an arena's matchups")
            votes = votes[np.isin(votes.serial, [serial for (serial,) in rows])]
        explored.add_many(votes.a, votes.b, votes.compared_on, votes.session, votes.kind)


def _range_of(serials: npt.NDArray[np.int64]) -> range:
    return range(int(serials.min()), int(serials.max()) + 1)
