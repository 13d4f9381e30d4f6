"""Carry arenas over to a new version of the state of a fold, while raters of the version before publish boards."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from psycopg import Connection

from tiltyard.arena.log.buckets import fetch_row_sync, fetch_rows_sync
from tiltyard.arena.rating.checkpoints import STATE_VERSION, StoredCheckpoint, add_checkpoint
from tiltyard.arena.rating.log_replay import fold_until, restore_progress
from tiltyard.arena.rating.rater_progress import read_exclusion_changes, read_rater_progress
from tiltyard.core.policy.validity.arena_fold import ArenaFold
from tiltyard.postgres.connections import is_broken, translate_errors

_LOG = logging.getLogger(__name__)
#: So many events are replayed within a minute by whoever takes an arena over.
QUICK_EVENTS = 100_000
#: Events between two checkpoints of a replay, which resumes at the last one.
_CHECKPOINT_EVENTS = 200_000
#: Between two looks at what is left to do.
_LOOK_SECONDS = 1.0


def carry_over(connection: Connection, on_chunk: Callable[[], None], is_over: Callable[[], bool]) -> None:
    """Write checkpoints of this version for the arenas of which another version has checkpoints further on.

    That goes on as long as raters run: without them nobody is waited for, and whoever takes an arena over replays it.
    """
    failed: set[int] = set()

    def ended() -> bool:
        return is_over() or not _raters_run(connection)

    while not ended():
        values = {"version": STATE_VERSION, "events": QUICK_EVENTS}
        rows = fetch_rows_sync(connection, "checkpoints_behind", values, "read the checkpoints")
        behind = [int(arena) for (arena,) in rows if arena not in failed]
        if not behind:
            _LOG.info("all arenas are carried over to this version")
            return
        # Short logs first; one that has grown meanwhile comes again.
        for arena in behind:
            try:
                _replay(connection, arena, on_chunk, ended)
            except Exception:
                if is_broken(connection):
                    raise
                failed.add(arena)
                _LOG.exception("replaying arena %s failed; it is replayed when this process leads it", arena)
        on_chunk()
        time.sleep(_LOOK_SECONDS)


def _raters_run(connection: Connection) -> bool:
    row = fetch_row_sync(connection, "processes_running", {"role": "rater"}, "read which raters run")
    return row is not None and bool(row[0])


def _replay(
    connection: Connection, arena: int, on_chunk: Callable[[], None], ended: Callable[[], bool]
) -> None:
    """Fold an arena nearly as far as it is rated: the last position has the checkpoint of the other version."""
    rated = read_rater_progress(connection, arena)
    if len(read_exclusion_changes(connection, arena)) > rated.generation:
        return
    last = rated.position - 1
    progress = restore_progress(connection, arena, rated.generation, rated.position)
    _LOG.info("replaying arena %s from position %s to %s", arena, progress.position, last)
    while progress.position < last and not ended():
        upto = min(progress.position + _CHECKPOINT_EVENTS, last)
        fold_until(connection, arena, progress, upto, rated.generation, on_chunk)
        state = progress.save()
        with translate_errors("write a checkpoint"), connection.transaction():
            # A voter who was erased since is in no checkpoint that is written now.
            if len(read_exclusion_changes(connection, arena)) > rated.generation:
                return
            digest = ArenaFold.digest_all(state)
            add_checkpoint(connection, StoredCheckpoint(arena, rated.generation, upto, digest, state))
