"""Replays an arena's log from its archived segments alone: the state that a rater has, and its boards."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from tiltyard.arena.boards.snapshots import Snapshot
from tiltyard.arena.log.crowd_changes import OpenChange
from tiltyard.arena.log.event_details import EventDetail
from tiltyard.arena.log.event_log import HUMAN, SOURCES, LogKind
from tiltyard.arena.log.log_columns import LogColumns
from tiltyard.arena.log.rosters import Roster
from tiltyard.arena.maintenance.segment_manifest import SEGMENT_FILES, ArchivedSegment, read_archive
from tiltyard.arena.rating.board_publisher import BoardMoment, make_snapshot
from tiltyard.arena.rating.log_replay import FoldProgress, active_exclusions
from tiltyard.arena.rating.rater_progress import ExclusionChange, OpenAtPosition, RatedArena
from tiltyard.core.battles import KIND_COUNT
from tiltyard.core.policy.validity.arena_fold import ArenaFold
from tiltyard.errors import BadOption, BrokenArtifact, StoreFault, UnreadableFile
from tiltyard.files.parquet_tables import Arrays, read_arrays
from tiltyard.settings.arena_settings import ArenaSettings

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Kinds that begin a matchup, and that end one.
_BEGIN_KINDS = (LogKind.SERVED, LogKind.PREFETCHED)
_END_KINDS = (LogKind.VOTE, LogKind.SKIP, LogKind.EXPIRE, LogKind.RELEASED)


@dataclass(frozen=True, slots=True)
class ReplayedArchive:
    """Both sources of an arena, folded from its segments up to a position."""

    arena: str
    position: int
    at: datetime
    #: How many exclusions and restorations were applied.
    generation: int
    followings: tuple[ArenaFold, ...]
    #: Matchups that were open at the position, by source.
    opened: tuple[tuple[OpenAtPosition, ...], ...]
    #: Changes of the crowd that were not explained at the position.
    changes: tuple[OpenChange, ...]
    #: Votes that were imported, by source.
    imported: tuple[int, ...]

    def board(self, source: int, settings: ArenaSettings) -> Snapshot:
        """The board of one source, as the rater of an arena with these settings publishes it."""
        following = self.followings[source]
        counted = set(following.standing.window.serials().tolist())
        opened = [one for one in self.opened[source] if one.serial in counted]
        moment = BoardMoment(source, self.position, self.at, self.generation, imported=self.imported[source])
        arena = RatedArena(0, self.arena, settings)
        return make_snapshot(following, arena, moment, opened, changes=self.changes)


def read_segment(segment: ArchivedSegment, name: str) -> Arrays:
    """The columns of one file of a segment."""
    try:
        return read_arrays(segment.folder / name, dict(SEGMENT_FILES[name]))
    except UnreadableFile as error:
        raise BrokenArtifact(str(error)) from None


def replay_archive(
    archive: Path, *, upto: int | None = None, generation: int | None = None, head: str | None = None
) -> ReplayedArchive:
    """Fold an archive up to a position, with the first ``generation`` exclusions and restorations applied.

    By default all of it, with the exclusions and restorations that it holds up to there. ``head``: see `read_archive`.
    Raises `BrokenArtifact` if the archive is not intact. One segment is in memory at a time.
    """
    segments = read_archive(archive, head=head)
    final = segments[-1].manifest.last
    upto = final if upto is None else upto
    if not 1 <= upto <= final:
        raise BadOption(f"{archive}: holds positions 1 to {final}; {upto} is not among them")
    changes = _read_changes(segments)
    generation = sum(change.position <= upto for change in changes) if generation is None else generation
    excluded = _read_excluded_votes(segments, active_exclusions(changes, generation))
    roster = Roster(
        *(tuple(_joined(segments, f"{kind}s.parquet")["name"].tolist()) for kind in ("model", "prompt"))
    )
    progress, at, imported = FoldProgress(), 0, 0
    opened: tuple[dict[int, OpenAtPosition], ...] = tuple({} for _ in SOURCES)
    changed: dict[int, OpenChange] = {}
    for segment in segments:
        if segment.manifest.first > upto:
            break
        columns = _read_columns(segment)[: upto + 1 - segment.manifest.first]
        try:
            deque(progress.fold(columns, excluded, lambda: roster), maxlen=0)
        except (ArithmeticError, LookupError, TypeError, ValueError, BadOption, StoreFault) as error:
            raise BrokenArtifact(f"{segment.folder}: its events cannot be replayed: {error}") from None
        if progress.position != min(upto, segment.manifest.last):
            raise BrokenArtifact(
                f"{segment.folder}: ends at position {progress.position}; its manifest is wrong"
            )
        _follow_open(opened, columns)
        _follow_changes(changed, columns)
        imported += columns.imported(dropped=excluded[HUMAN])
        at = int(columns.at[-1])
    return ReplayedArchive(
        arena=segments[-1].manifest.arena,
        position=progress.position,
        at=_EPOCH + timedelta(microseconds=at),
        generation=generation,
        followings=tuple(progress.followings),
        opened=tuple(tuple(each.values()) for each in opened),
        changes=tuple(changed.values()),
        imported=(imported, 0),
    )


def _read_columns(segment: ArchivedSegment) -> LogColumns:
    """The events of a segment; votes that were undone are marked, so that they are not folded."""
    events, policies = read_segment(segment, "events.parquet"), read_segment(segment, "policies.parquet")
    try:
        details: dict[int, EventDetail] = {
            position: json.loads(policy)
            for position, policy in zip(*(policies[name].tolist() for name in policies), strict=True)
        }
    except (TypeError, ValueError) as error:
        raise BrokenArtifact(f"{segment.folder / 'policies.parquet'}: not JSON ({error})") from None
    known = {"kind": list(LogKind), "source": range(-1, len(SOURCES)), "outcome": range(-1, KIND_COUNT)}
    for name, values in known.items():
        if not np.isin(events[name], values).all():
            raise BrokenArtifact(f"{segment.folder / 'events.parquet'}: has events of an unknown {name}")
    columns = LogColumns(
        **{name: events[name] for name in events if name in LogColumns.__slots__},
        session=events["voter"],
        details=details,
    )
    return columns.without(set(events["position"][events["undone"] == 1].tolist()))


def _read_changes(segments: Sequence[ArchivedSegment]) -> list[ExclusionChange]:
    """All exclusions and restorations in log order; the n-th starts generation n."""
    columns = _joined(segments, "exclusions.parquet")
    rows = zip(*(columns[name].tolist() for name in columns), strict=True)
    return [ExclusionChange(position, number, excluded=excluded == 1) for position, number, excluded in rows]


def _read_excluded_votes(
    segments: Sequence[ArchivedSegment], exclusions: Collection[int]
) -> tuple[set[int], ...]:
    columns = _joined(segments, "excluded_votes.parquet")
    chosen = np.isin(columns["exclusion"], list(exclusions))
    return tuple(
        set(columns["serial"][chosen & (columns["source"] == source)].tolist())
        for source in range(len(SOURCES))
    )


def _joined(segments: Sequence[ArchivedSegment], name: str) -> Arrays:
    parts = [read_segment(segment, name) for segment in segments]
    return {column: np.concatenate([part[column] for part in parts]) for column in SEGMENT_FILES[name]}


def _follow_changes(changed: dict[int, OpenChange], columns: LogColumns) -> None:
    """Update the changes of the crowd that are not explained, by model."""
    for row in np.flatnonzero(columns.kind >= LogKind.CROWD_CHANGED).tolist():
        model = int(columns.a[row])
        changed.pop(model, None)
        if columns.kind[row] == LogKind.CROWD_CHANGED:
            changed[model] = OpenChange(int(columns.position[row]), model, int(columns.prompt[row]))


def _follow_open(opened: Sequence[dict[int, OpenAtPosition]], columns: LogColumns) -> None:
    for source, known in enumerate(opened):
        own = columns.source == source
        rows = np.flatnonzero(own & np.isin(columns.kind, _BEGIN_KINDS))
        begun = (getattr(columns, name)[rows].tolist() for name in ("serial", "nominal", "lane"))
        known.update({serial: OpenAtPosition(serial, *lanes) for serial, *lanes in zip(*begun, strict=True)})
        for serial in columns.serial[own & np.isin(columns.kind, _END_KINDS)].tolist():
            known.pop(serial, None)
