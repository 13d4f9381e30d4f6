"""Reads what a segment holds from the database, as the columns of its files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from psycopg import Connection

from tiltyard.arena.log.buckets import find_statement_sync
from tiltyard.arena.log.event_details import ExclusionDetail
from tiltyard.arena.log.event_log import SOURCES, LogKind
from tiltyard.arena.log.log_columns import LogColumns, read_columns
from tiltyard.arena.log.rosters import read_roster_sync
from tiltyard.arena.maintenance.segment_manifest import SEGMENT_FILES
from tiltyard.arena.maintenance.voter_numbers import VoterNumbers
from tiltyard.arena.rating.rater_progress import log_head, read_undone_votes
from tiltyard.core.policy.state.rating_fold import MethodValues, method_from_dict, method_to_dict
from tiltyard.errors import StoreFault
from tiltyard.files.parquet_tables import Arrays
from tiltyard.postgres.connections import translate_errors


@dataclass(frozen=True, slots=True)
class SegmentRange:
    """A range of a log, and how many models and prompts were named before it."""

    arena: int
    first: int
    last: int
    models: int
    prompts: int


@dataclass(frozen=True, slots=True)
class SegmentContent:
    """The columns of each file of a segment, and how many models and prompts are named after it."""

    files: dict[str, Arrays]
    models: int
    prompts: int


def read_range(connection: Connection, wanted: SegmentRange) -> LogColumns:
    """The events of a range; raises if one is missing."""
    columns = read_columns(connection, wanted.arena, wanted.first - 1, wanted.last)
    if not np.array_equal(columns.position, np.arange(wanted.first, wanted.last + 1)):
        raise StoreFault(
            f"the log has a gap between positions {wanted.first} and {wanted.last}: it is damaged; restore a backup"
        )
    return columns


def read_content(
    connection: Connection, wanted: SegmentRange, columns: LogColumns, numbers: VoterNumbers
) -> SegmentContent:
    """The files of a segment with these events, whose voters all have a number."""
    models, prompts = columns.roster_size(wanted.models, wanted.prompts)
    roster = read_roster_sync(connection, wanted.arena)
    exclusions = _exclusions(columns)
    files = {
        "events.parquet": _events(connection, wanted, columns, numbers),
        "matchups.parquet": _matchups(connection, wanted, columns),
        "policies.parquet": _policies(columns),
        "exclusions.parquet": exclusions,
        "excluded_votes.parquet": _excluded_votes(connection, wanted, exclusions),
        "models.parquet": _names("model", roster.models, wanted.models, models),
        "prompts.parquet": _names("prompt", roster.prompts, wanted.prompts, prompts),
    }
    return SegmentContent(files, models, prompts)


def _events(
    connection: Connection, wanted: SegmentRange, columns: LogColumns, numbers: VoterNumbers
) -> Arrays:
    undone = read_undone_votes(connection, wanted.arena, wanted.first - 1, log_head(connection, wanted.arena))
    is_vote = columns.kind == LogKind.VOTE
    gone = np.isin(columns.position, np.fromiter(undone, dtype=np.int64))
    values = {"arena": wanted.arena, "after": wanted.first - 1, "upto": wanted.last}
    details = np.full((3, len(columns)), np.nan)
    for position, *stored in _read(connection, "archive_vote_details", values):
        details[:, position - wanted.first] = [np.nan if value is None else value for value in stored]
    return {
        **{
            name: getattr(columns, name) for name in SEGMENT_FILES["events.parquet"] if hasattr(columns, name)
        },
        "voter": numbers.of(columns.session),
        "undone": np.where(is_vote, gone.astype(np.int64), -1),
        **dict(zip(("shown_a", "shown_b", "pref"), details, strict=True)),
    }


def _matchups(connection: Connection, wanted: SegmentRange, columns: LogColumns) -> Arrays:
    rows: list[Sequence[Any]] = []
    begun = np.isin(columns.kind, (LogKind.SERVED, LogKind.PREFETCHED))
    for source in range(len(SOURCES)):
        serials = columns.serial[begun & (columns.source == source)]
        if len(serials):
            span = {"first": int(serials.min()), "stop": int(serials.max()) + 1}
            rows += _read(connection, "archive_matchups", {"arena": wanted.arena, "source": source, **span})
    if len(rows) != np.count_nonzero(begun):
        raise StoreFault(
            f"events {wanted.first} to {wanted.last} serve {np.count_nonzero(begun)} matchups, but the table of "
            f"matchups has {len(rows)}: the log is damaged; restore a backup"
        )
    return _transposed("matchups.parquet", rows)


def _policies(columns: LogColumns) -> Arrays:
    """Each policy in full, so that it means the same under later defaults."""
    positions = columns.position[columns.kind == LogKind.POLICY].tolist()
    methods = [method_from_dict(cast("MethodValues", columns.details[position])) for position in positions]
    texts = [json.dumps(method_to_dict(*method), sort_keys=True) for method in methods]
    return _transposed("policies.parquet", list(zip(positions, texts, strict=True)))


def _exclusions(columns: LogColumns) -> Arrays:
    rows = np.flatnonzero(np.isin(columns.kind, (LogKind.EXCLUDE, LogKind.RESTORE)))
    positions = columns.position[rows].tolist()
    numbers = [cast("ExclusionDetail", columns.details[position])["exclusion"] for position in positions]
    made = (columns.kind[rows] == LogKind.EXCLUDE).astype(np.int64).tolist()
    return _transposed("exclusions.parquet", list(zip(positions, numbers, made, strict=True)))


def _excluded_votes(connection: Connection, wanted: SegmentRange, exclusions: Arrays) -> Arrays:
    made = exclusions["exclusion"][exclusions["excluded"] == 1].tolist()
    values = {"arena": wanted.arena, "exclusions": made}
    return _transposed("excluded_votes.parquet", _read(connection, "archive_excluded_votes", values))


def _names(numbered: str, names: Sequence[str], start: int, stop: int) -> Arrays:
    rows = list(enumerate(names))[start:stop]
    return _transposed(f"{numbered}s.parquet", rows)


def _read(connection: Connection, name: str, values: Mapping[str, object]) -> list[Sequence[Any]]:
    with translate_errors("read a segment of an arena's log"):
        text = find_statement_sync(connection, name, values)
        return list(connection.execute(text, values).fetchall())


def _transposed(file: str, rows: Sequence[Sequence[Any]]) -> Arrays:
    """Rows as the columns of a file."""
    kinds = SEGMENT_FILES[file]
    types = {"text": object, "number": np.float64}
    return {
        name: np.array([row[place] for row in rows], dtype=types.get(kind, np.int64))
        for place, (name, kind) in enumerate(kinds.items())
    }
