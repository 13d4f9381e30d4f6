"""Fold an arena's log up to a position: from its first event, or from the last checkpoint that can be used."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence

from psycopg import Connection

from tiltyard.arena.log.log_columns import read_columns
from tiltyard.arena.log.rosters import read_roster_sync
from tiltyard.arena.rating.checkpoints import STATE_VERSION, list_checkpoints, read_checkpoint
from tiltyard.arena.rating.fold_progress import FoldProgress
from tiltyard.arena.rating.rater_progress import (
    ExclusionChange,
    find_first_excluded,
    log_head,
    read_excluded_votes,
    read_exclusion_changes,
    read_undone_votes,
)
from tiltyard.core.policy.validity.arena_fold import ArenaFold
from tiltyard.errors import BadOption

_LOG = logging.getLogger(__name__)
_CHUNK_ROWS = 200_000


def replay_log(connection: Connection, arena: int, upto: int, generation: int) -> dict[int, ArenaFold]:
    """The fold of each source up to a position, with the first ``generation`` exclusions and restorations applied.

    It is the result that a rater must have. Up to the horizon, later events do not change it.
    """
    progress = FoldProgress()
    fold_until(connection, arena, progress, upto, generation)
    return dict(enumerate(progress.followings))


def fold_until(
    connection: Connection, arena: int, progress: FoldProgress, upto: int, generation: int
) -> None:
    """Fold the events after ``progress`` up to a position."""
    active = active_exclusions(read_exclusion_changes(connection, arena), generation)
    excluded = read_excluded_votes(connection, arena, active)
    undone = read_undone_votes(connection, arena, progress.position, log_head(connection, arena))
    while progress.position < upto:
        columns = read_columns(
            connection, arena, progress.position, min(upto, progress.position + _CHUNK_ROWS)
        )
        deque(
            progress.fold(columns.without(undone), excluded, lambda: read_roster_sync(connection, arena)),
            maxlen=0,
        )


def restore_progress(connection: Connection, arena: int, generation: int, upto: int) -> FoldProgress:
    """The last checkpoint up to ``upto`` whose votes are not affected by other exclusions than this generation's."""
    changes = read_exclusion_changes(connection, arena)
    for place in list_checkpoints(connection, arena):
        if place.version != STATE_VERSION or place.position > upto:
            continue
        if not has_same_votes(connection, arena, changes, (generation, place.generation), place.position):
            continue
        try:
            saved = read_checkpoint(connection, arena, place)
            return FoldProgress.restore(saved.state, place.position)
        except BadOption as error:
            _LOG.warning("checkpoint of arena %s at %s: %s", arena, place.position, error)
    return FoldProgress()


def has_same_votes(
    connection: Connection,
    arena: int,
    changes: Sequence[ExclusionChange],
    generations: tuple[int, int],
    position: int,
) -> bool:
    """Whether two generations exclude the same votes up to a position."""
    one, other = (active_exclusions(changes, generation) for generation in generations)
    first = find_first_excluded(connection, arena, one ^ other) if one != other else None
    return first is None or first > position


def active_exclusions(changes: Sequence[ExclusionChange], generation: int) -> frozenset[int]:
    """The active exclusions after the first ``generation`` changes."""
    active: set[int] = set()
    for change in changes[:generation]:
        (active.add if change.excluded else active.discard)(change.exclusion)
    return frozenset(active)
