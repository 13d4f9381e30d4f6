"""Reads and writes how far an arena is rated, and up to which position its votes are final."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import Connection

from tiltyard.arena.boards.snapshots import Snapshot, add_snapshot, notify_snapshot
from tiltyard.arena.log.buckets import fetch_row_sync, fetch_rows_sync
from tiltyard.arena.log.event_log import SOURCES
from tiltyard.arena.rating.checkpoints import StoredCheckpoint, add_checkpoint
from tiltyard.core.board.cross_check import MIN_DAYS
from tiltyard.errors import Deposed, StoreFault
from tiltyard.postgres.connections import translate_errors
from tiltyard.postgres.statements import bucket_statement, statement
from tiltyard.settings.arena_settings import ArenaSettings

#: Serials by source.
Serials = tuple[set[int], ...]


@dataclass(frozen=True, slots=True)
class RatedArena:
    arena: int
    name: str
    settings: ArenaSettings

    @property
    def least_days(self) -> int | None:
        """See `BatchRatings`: where nobody was invited, but only those near the server may vote, it is 0."""
        return (MIN_DAYS if self.settings.public_address else 0) if self.settings.public else None


@dataclass(frozen=True, slots=True)
class RaterProgress:
    """The stored progress of an arena's rater."""

    position: int
    horizon: int
    generation: int
    term: int


@dataclass(frozen=True, slots=True)
class ExclusionChange:
    """The event that excluded or restored votes."""

    position: int
    exclusion: int
    excluded: bool


@dataclass(frozen=True, slots=True)
class OpenAtPosition:
    """A matchup that had not ended at some position."""

    serial: int
    nominal: int
    lane: int


def read_rated_arenas(connection: Connection, numbers: Iterable[int]) -> list[RatedArena]:
    rows = fetch_rows_sync(connection, "raters_arenas", {"arenas": sorted(numbers)}, "read the arenas")
    return [RatedArena(arena, name, ArenaSettings.kept(settings)) for arena, name, settings in rows]


def find_unrated(connection: Connection) -> set[int]:
    """The arenas whose log is longer than what is rated."""
    with translate_errors("look for events that are not rated"):
        buckets = connection.execute(statement("raters_buckets")).fetchall()
        return {
            int(arena)
            for (bucket,) in buckets
            for (arena,) in connection.execute(
                bucket_statement("raters_unrated", bucket), {"bucket": bucket}
            ).fetchall()
        }


def read_rater_progress(connection: Connection, arena: int) -> RaterProgress:
    return RaterProgress(*_one(connection, "read how far an arena is rated", "raters_find", arena=arena))


def log_head(connection: Connection, arena: int) -> int:
    """The last position of a log; 0 if it is empty."""
    return int(_one(connection, "read an arena's log", "log_position", arena=arena)[0])


def event_time(connection: Connection, arena: int, position: int) -> datetime:
    found = _one(connection, "read an arena's log", "raters_time", arena=arena, position=position)
    at: datetime = found[0]
    return at


def read_open_at(
    connection: Connection, arena: int, source: int, *, serials: tuple[int, int], position: int
) -> list[OpenAtPosition]:
    """Matchups with serials in a half-open range that had not ended at a position."""
    first, stop = serials
    values = {"arena": arena, "source": source, "first": first, "stop": stop, "position": position}
    rows = fetch_rows_sync(connection, "raters_open", values, "read an arena's open matchups")
    return [OpenAtPosition(*row) for row in rows]


def undoable_from(
    connection: Connection, arena: int, after: int, undo_seconds: float
) -> tuple[int, float] | None:
    """The first vote after ``after`` that is young enough to be undone: its position, and for how many seconds.

    ``None`` if there is none.
    """
    values = {"arena": arena, "after": after, "undo_seconds": undo_seconds}
    row = fetch_row_sync(connection, "raters_first_undoable", values, "read which votes are final")
    return None if row is None else (int(row[0]), float(row[1]))


def claim_horizon(connection: Connection, arena: int, term: int, horizon: int) -> None:
    """Make the votes up to a position final.

    This takes the arena's lock: an undo has either committed before, or will see the new horizon.
    """
    with translate_errors("claim votes as final"), connection.transaction():
        connection.execute(statement("log_lock"), {"arena": arena})
        values = {"arena": arena, "term": term, "horizon": horizon}
        if connection.execute(statement("raters_claim"), values).rowcount != 1:
            raise _deposed_error(arena, term)


def read_undone_votes(connection: Connection, arena: int, after: int, upto: int) -> set[int]:
    """Positions of the votes that were undone by events after ``after``, up to ``upto``."""
    values = {"arena": arena, "after": after, "upto": upto}
    rows = fetch_rows_sync(connection, "raters_undone", values, "read an arena's log")
    return {position for (position,) in rows}


def commit_rated(
    connection: Connection,
    arena: int,
    before: RaterProgress,
    after: RaterProgress,
    boards: Sequence[Snapshot],
    checkpoint: StoredCheckpoint | None,
    also: Callable[[], None] = lambda: None,
) -> None:
    """Write the rater's progress, boards and a checkpoint in one transaction; raise `Deposed` if another process leads.

    A notification is sent for the newest board of each source. With a checkpoint, ``also`` writes more.
    """
    values = {
        "arena": arena,
        "term": before.term,
        "was_position": before.position,
        "was_generation": before.generation,
        "position": after.position,
        "generation": after.generation,
    }
    with translate_errors("write how far an arena is rated"), connection.transaction():
        if connection.execute(statement("raters_advance"), values).rowcount != 1:
            raise _deposed_error(arena, before.term)
        for board in boards:
            add_snapshot(connection, board)
        for board in {board.source: board for board in boards}.values():
            notify_snapshot(connection, board)
        if checkpoint is not None:
            add_checkpoint(connection, checkpoint)
            also()


def read_exclusion_changes(connection: Connection, arena: int) -> list[ExclusionChange]:
    """All exclusions and restorations in log order; the n-th starts generation n."""
    rows = fetch_rows_sync(connection, "raters_exclusions", {"arena": arena}, "read an arena's exclusions")
    changes = [ExclusionChange(excluded, exclusion, excluded=True) for exclusion, excluded, _ in rows]
    changes += [
        ExclusionChange(back, exclusion, excluded=False) for exclusion, _, back in rows if back is not None
    ]
    return sorted(changes, key=lambda change: change.position)


def read_excluded_votes(connection: Connection, arena: int, exclusions: Iterable[int]) -> Serials:
    """Serials of the votes of these exclusions, by source."""
    values = {"arena": arena, "exclusions": sorted(exclusions)}
    found: Serials = tuple(set() for _ in SOURCES)
    rows = fetch_rows_sync(connection, "raters_excluded_votes", values, "read an arena's exclusions")
    for source, serial in rows:
        found[source].add(serial)
    return found


def find_first_excluded(
    connection: Connection, arena: int, exclusions: Iterable[int]
) -> tuple[int | None, int | None]:
    """The positions at which the first vote of these exclusions counts, and at which the first of them was cast."""
    values = {"arena": arena, "exclusions": sorted(exclusions)}
    counts, cast = _one(connection, "read an arena's exclusions", "raters_first_excluded", **values)
    return counts, cast


def find_erased_from(connection: Connection, arena: int, exclusion: int) -> int | None:
    """The first event of the voter whom an exclusion erased; ``None`` if it erased nobody."""
    values = {"arena": arena, "exclusion": exclusion}
    found = _one(connection, "read an arena's exclusions", "raters_erased_from", **values)[0]
    return None if found is None else int(found)


def _one(connection: Connection, doing: str, name: str, **values: Any) -> Sequence[Any]:
    row: Sequence[Any] | None = fetch_row_sync(connection, name, values, doing)
    if row is None:
        raise StoreFault(
            f"cannot {doing}: arena {values['arena']} has no such row; it was removed or is damaged"
        )
    return row


def _deposed_error(arena: int, term: int) -> Deposed:
    return Deposed(f"another process now rates arena {arena}; term {term} has ended, and nothing was written")
