"""Replay an arena's log from its first event: the result that a rater must have."""

from __future__ import annotations

from collections import deque

from tiltyard.arena.log.log_columns import read_columns
from tiltyard.arena.log.rosters import read_roster_sync
from tiltyard.arena.rating.arena_rater import active_exclusions
from tiltyard.arena.rating.fold_progress import FoldProgress
from tiltyard.arena.rating.rater_progress import (
    Connection,
    log_head,
    read_excluded_votes,
    read_exclusion_changes,
    read_undone_votes,
)
from tiltyard.core.policy.validity.arena_fold import ArenaFold

__all__ = ["replay_log"]

_CHUNK_ROWS = 200_000


def replay_log(connection: Connection, arena: int, upto: int, generation: int) -> dict[int, ArenaFold]:
    """The fold of each source up to a position, with the first ``generation`` exclusions and restorations applied.

    Up to the horizon, later events do not change the result.
    """
    active = active_exclusions(read_exclusion_changes(connection, arena), generation)
    excluded = read_excluded_votes(connection, arena, active)
    undone = read_undone_votes(connection, arena, 0, log_head(connection, arena))
    progress = FoldProgress()
    while progress.position < upto:
        columns = read_columns(
            connection, arena, progress.position, min(upto, progress.position + _CHUNK_ROWS)
        )
        deque(
            progress.fold(columns.without(undone), excluded, lambda: read_roster_sync(connection, arena)),
            maxlen=0,
        )
    return dict(enumerate(progress.followings))
