"""An arena's log folded again from its first event: what a rater must have come to."""

from __future__ import annotations

from collections import deque

from tiltyard.arena.log.columns import read_columns
from tiltyard.arena.log.rosters import roster_of
from tiltyard.arena.rating.progress import Progress
from tiltyard.arena.rating.rater import active_exclusions
from tiltyard.arena.rating.raters import (
    Connection,
    excluded_votes,
    exclusion_changes,
    log_head,
    undone_between,
)
from tiltyard.core.policy.validity.arena_fold import ArenaFold

__all__ = ["replay_from_zero"]

_ROWS = 200_000


def replay_from_zero(connection: Connection, arena: int, upto: int, generation: int) -> dict[int, ArenaFold]:
    """Each source at a position, knowing the first ``generation`` exclusions and restorations.

    Up to the horizon nothing that comes later changes it.
    """
    active = active_exclusions(exclusion_changes(connection, arena), generation)
    excluded = excluded_votes(connection, arena, active)
    undone = undone_between(connection, arena, 0, log_head(connection, arena))
    progress = Progress()
    while progress.position < upto:
        columns = read_columns(connection, arena, progress.position, min(upto, progress.position + _ROWS))
        deque(
            progress.fold(columns.without(undone), excluded, lambda: roster_of(connection, arena)), maxlen=0
        )
    return dict(enumerate(progress.followings))
