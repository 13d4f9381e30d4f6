"""The rater of one arena: folds its log, publishes boards, writes checkpoints.

It folds final events only. It writes in transactions that fail if another process leads the arena by then,
so that no event is skipped or folded twice, whichever process is killed at whatever time: the next rater
starts from a checkpoint and reaches the same bits.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial

import numpy as np
from psycopg import Connection

from tiltyard.arena.boards.snapshots import Snapshot, read_latest_position
from tiltyard.arena.log.crowd_changes import read_open_changes
from tiltyard.arena.log.event_log import HUMAN, SOURCES, LogKind
from tiltyard.arena.log.log_columns import LogColumns, read_columns
from tiltyard.arena.log.rosters import read_roster_sync
from tiltyard.arena.log.votes import count_imported
from tiltyard.arena.rating.board_publisher import BoardMoment, TimeBudget, make_snapshot, open_matchups_at
from tiltyard.arena.rating.checkpoints import StoredCheckpoint, forget_checkpoints, thin_checkpoints
from tiltyard.arena.rating.crowd_watch import RatedPlace, TellChange, WatchedCrowd
from tiltyard.arena.rating.log_replay import FoldProgress, active_exclusions, restore_progress
from tiltyard.arena.rating.rater_progress import (
    ExclusionChange,
    RatedArena,
    claim_horizon,
    commit_rated,
    event_time,
    find_erased_from,
    find_first_excluded,
    log_head,
    read_excluded_votes,
    read_exclusion_changes,
    read_rater_progress,
    read_undone_votes,
    undoable_from,
)
from tiltyard.core.policy.validity.arena_fold import ArenaFold
from tiltyard.errors import Deposed, StoreFault
from tiltyard.foundation.telemetry import BOARD_LAG_SECONDS, BOARDS, RATED_EVENTS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Seconds after the undo deadline at which a vote becomes final by this process's clock, whatever the log's
#: time: a clock that was set back must not stop an arena.
_FINALITY_GRACE_SECONDS = 1.0
#: The shortest pause before a board is tried again that there was no time for.
_BOARD_PAUSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class RaterPace:
    """How much work is done at a time."""

    #: Events of one step.
    step: int = 20_000
    #: Events, or seconds with new events, between checkpoints; and events between checkpoints while catching up.
    checkpoint_events: int = 50_000
    checkpoint_seconds: float = 300.0
    catching_up: int = 1_000_000


class ArenaRater:
    """Rates one arena during one term of leadership. After any fault it is discarded and a new one created."""

    def __init__(
        self,
        connection: Connection,
        arena: RatedArena,
        term: int,
        *,
        pace: RaterPace | None = None,
        clock: Callable[[], float] = time.monotonic,
        tell_change: TellChange | None = None,
    ) -> None:
        """Without ``tell_change``, which appends a change of the crowd to the log, the crowd is not watched."""
        self.arena = arena
        self._crowd = (
            None
            if tell_change is None
            else WatchedCrowd(connection, arena.arena, tell_change, live=arena.settings.is_live)
        )
        self.term = term
        self._connection = connection
        self._pace = RaterPace() if pace is None else pace
        self._clock = clock
        self._rated = read_rater_progress(connection, arena.arena)
        if self._rated.term != term:
            raise Deposed(f"another process now rates arena {arena.arena}; term {term} has ended")
        #: The exclusions that the fold includes, and the position it must reach before boards are published.
        self._generation = self._rated.generation
        self._target = self._rated.position
        self._excluded = self._excluded_at(self._generation)
        self._seen: deque[tuple[float, int]] = deque()
        self._allowance = TimeBudget()
        self._published_at = -np.inf
        self._checked_at = clock()
        self._progress, self._checkpointed, self._known = FoldProgress(), 0, 0
        #: When the next vote becomes final; ``None`` if no vote can be undone.
        self._final_at: float | None = None
        #: Positions of undone votes that are not folded yet.
        self._undone: set[int] = set()
        self._begin(self._restored(self._target))
        if self.position == self._target:
            self._caught_up()

    @property
    def position(self) -> int:
        """The last event that is folded."""
        return self._progress.position

    @property
    def settled(self) -> bool:
        """Whether every event that is known is folded and on a board."""
        return self.position >= self._known and not any(self._progress.news)

    @property
    def waits_for_finality(self) -> bool:
        """Whether nothing can be done before the next vote becomes final."""
        return self._final_at is not None and not any(self._progress.news)

    def pause_seconds(self) -> float | None:
        """Seconds until there is something to do without new events; ``None`` if there is nothing."""
        due = [] if self._final_at is None else [self._final_at]
        if any(self._progress.news):
            due.append(
                max(
                    self._published_at + self.arena.settings.snapshot_seconds,
                    self._clock() + _BOARD_PAUSE_SECONDS,
                )
            )
        return max(min(due) - self._clock(), 0.0) if due else None

    def following(self, source: int) -> ArenaFold:
        return self._progress.followings[source]

    def step(self) -> bool:
        """Do one step of work; return whether there is more to do."""
        if self.position < self._target:
            self._fold(self._read(self._target), show=False)
            if self.position == self._target:
                self._caught_up()
            elif self.position - self._checkpointed >= self._pace.catching_up:
                self._write([], checkpoint=True)
            return True
        self._claim()
        if self._rated.horizon > self.position:
            self._fold_final_events()
        else:
            self._commit([])
        return self._watch_crowd() or self._rated.horizon > self.position

    def finish(self) -> None:
        """Write a checkpoint if the last one is not up to date."""
        if self.position == self._target and self.position != self._checkpointed:
            self._commit([], checkpoint=True)

    # Final votes

    def _claim(self) -> None:
        """Move the horizon to the last final vote, and read which votes were undone."""
        head = log_head(self._connection, self.arena.arena)
        final, self._final_at = self._rated.horizon, None
        if head > final:
            first = undoable_from(self._connection, self.arena.arena, final, self.arena.settings.undo_seconds)
            final = head if first is None else min(first[0] - 1, head)
            if first is not None:
                self._final_at = self._clock() + min(
                    first[1], self.arena.settings.undo_seconds + _FINALITY_GRACE_SECONDS
                )
        final = max(final, self._last_final_position(head))
        if final > self._rated.horizon:
            claim_horizon(self._connection, self.arena.arena, self.term, final)
            self._rated = replace(self._rated, horizon=final)
        self._learn_undone()

    def _last_final_position(self, head: int) -> int:
        """The last position that was seen so long ago that no vote up to it can be undone."""
        now = self._clock()
        old = now - self.arena.settings.undo_seconds - _FINALITY_GRACE_SECONDS
        self._seen.append((now, head))
        while len(self._seen) > 1 and self._seen[1][0] <= old:
            self._seen.popleft()
        moment, position = self._seen[0]
        return position if moment <= old else 0

    def _learn_undone(self) -> None:
        """Read the votes that were undone by new events. The horizon must be claimed first."""
        head = log_head(self._connection, self.arena.arena)
        if head > self._known:
            self._undone |= read_undone_votes(self._connection, self.arena.arena, self._known, head)
            self._known = head

    # Folding

    def _fold_final_events(self) -> None:
        columns = self._read(self._rated.horizon)
        changes = np.flatnonzero((columns.kind == LogKind.EXCLUDE) | (columns.kind == LogKind.RESTORE))
        if len(changes) and changes[0] == 0:
            # The crowd before an exclusion is looked at with all the votes that there were.
            if not self._watch_crowd():
                self._regenerate(columns[:1])
            return
        columns = columns[: changes[0]] if len(changes) else columns
        if self._crowd is not None:
            self._crowd.take(columns.without(self._undone), self._excluded[HUMAN])
        boards = self._fold(columns)
        self._target = self.position
        self._commit(boards)

    def _watch_crowd(self) -> bool:
        """Look whether the crowd changes; return whether there are more events to look at."""
        if self._crowd is None or self.position < self._target:
            return False
        place = RatedPlace(self._generation, self.position, self._excluded[HUMAN], self._known)
        return self._crowd.catch_up(place, self._pace.step)

    def _caught_up(self) -> None:
        if self._generation != self._rated.generation:
            self._progress.news = [True] * len(SOURCES)
            self._commit([], publish=True, checkpoint=True)
            return
        place = (self._generation, self.position)
        self._progress.news = [
            read_latest_position(self._connection, self.arena.arena, source) != place
            for source in range(len(SOURCES))
        ]

    def _read(self, upto: int) -> LogColumns:
        upto = min(upto, self.position + self._pace.step)
        return read_columns(self._connection, self.arena.arena, self.position, upto)

    def _fold(self, columns: LogColumns, *, show: bool = True) -> list[Snapshot]:
        """Fold events; return the boards of the evaluations among them: the newest, and as many as there is time for.

        The newest is the board to cite, so it is made in any case. Time that it takes beyond the allowance is not taken
        from other boards.
        """
        boards: list[Snapshot] = []
        roster = partial(read_roster_sync, self._connection, self.arena.arena)
        for look in self._progress.fold(columns.without(self._undone), self._excluded, roster):
            start = self._clock()
            allowed = show and self._allowance.allows(start)
            if allowed or (show and look.newest):
                at = _EPOCH + timedelta(microseconds=look.at)
                boards.append(self._snapshot(look.source, look.position, at, evaluated=True))
            if allowed:
                self._allowance.spend(self._clock() - start)
        self._undone = {position for position in self._undone if position > self.position}
        return boards

    # Exclusions

    def _regenerate(self, row: LogColumns) -> None:
        """Votes were excluded or restored: restart from before the first of them, and fold again."""
        position, changes = int(row.position[0]), self._changes()
        if len(changes) <= self._generation or changes[self._generation].position != position:
            raise StoreFault(
                f"the log of arena {self.arena.arena} has an exclusion at {position} that the table of exclusions "
                "does not have; restore a backup"
            )
        exclusion = changes[self._generation].exclusion
        first, _ = find_first_excluded(self._connection, self.arena.arena, [exclusion])
        erased_from = find_erased_from(self._connection, self.arena.arena, exclusion)
        if erased_from is not None:
            # Those that were written since the erasure; it has deleted those before it.
            forget_checkpoints(self._connection, self.arena.arena, erased_from, self._generation)
        self._generation += 1
        self._excluded = self._excluded_at(self._generation)
        if first is not None and first <= self.position:
            self._begin(self._restored(self.position))
        else:
            self._fold(row)
        self._target = position
        if self.position == position:
            self._caught_up()

    def _changes(self) -> list[ExclusionChange]:
        return read_exclusion_changes(self._connection, self.arena.arena)

    def _excluded_at(self, generation: int) -> tuple[set[int], ...]:
        active = active_exclusions(self._changes(), generation)
        return read_excluded_votes(self._connection, self.arena.arena, active)

    def _restored(self, upto: int) -> FoldProgress:
        return restore_progress(self._connection, self.arena.arena, self._generation, upto)

    def _begin(self, progress: FoldProgress) -> None:
        self._progress = progress
        self._checkpointed = self._known = progress.position
        self._undone = set()
        self._learn_undone()

    # Writing

    def _commit(self, boards: list[Snapshot], *, publish: bool = False, checkpoint: bool = False) -> None:
        """Write the progress, with the boards and the checkpoint that are due."""
        now = self._clock()
        if publish or (
            any(self._progress.news)
            and now - self._published_at >= self.arena.settings.snapshot_seconds
            and self._allowance.allows(now)
        ):
            boards = boards + self._changed_boards()
        behind = self.position - self._checkpointed
        checkpoint = checkpoint or behind >= self._pace.checkpoint_events
        checkpoint = checkpoint or (behind > 0 and now - self._checked_at >= self._pace.checkpoint_seconds)
        if (
            boards
            or checkpoint
            or (self.position, self._generation) != (self._rated.position, self._rated.generation)
        ):
            self._write(boards, checkpoint=checkpoint)

    def _write(self, boards: list[Snapshot], *, checkpoint: bool) -> None:
        """Write in one transaction. While catching up, the stored position does not change."""
        before, there = self._rated, self.position == self._target
        after = replace(before, position=self.position, generation=self._generation) if there else before
        saved = None
        if checkpoint:
            state = self._progress.save()
            digest = ArenaFold.digest_all(state)
            saved = StoredCheckpoint(self.arena.arena, self._generation, self.position, digest, state)
        also = self._crowd.store if self._crowd is not None else lambda: None
        commit_rated(self._connection, self.arena.arena, before, after, boards, saved, also)
        self._rated = after
        RATED_EVENTS.record(max(after.position - before.position, 0))
        BOARDS.record(len(boards))
        if saved is not None:
            self._checkpointed, self._checked_at = self.position, self._clock()
            thin_checkpoints(self._connection, self.arena.arena)

    def _changed_boards(self) -> list[Snapshot]:
        """New boards of the sources that have new events."""
        if not self._progress.followings:
            return []
        at = event_time(self._connection, self.arena.arena, self.position)
        start = self._clock()
        boards = [
            self._snapshot(source, self.position, at)
            for source, news in enumerate(self._progress.news)
            if news
        ]
        self._allowance.spend(self._clock() - start)
        BOARD_LAG_SECONDS.record((datetime.now(UTC) - at).total_seconds())
        self._progress.news = [False] * len(SOURCES)
        self._published_at = self._clock()
        return boards

    def _snapshot(self, source: int, position: int, at: datetime, *, evaluated: bool = False) -> Snapshot:
        following = self.following(source)
        imported = count_imported(self._connection, self.arena.arena, source, upto=position)
        moment = BoardMoment(source, position, at, self._generation, evaluated, imported)
        opened = open_matchups_at(self._connection, self.arena.arena, source, following, position)
        changes = read_open_changes(self._connection, self.arena.arena, position)
        return make_snapshot(following, self.arena, moment, opened, self._progress.batches[source], changes)
