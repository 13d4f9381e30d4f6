"""Fold an arena's log up to a position: from its first event, or from the last checkpoint that can be used."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from psycopg import Connection

from tiltyard.arena.log.event_log import HUMAN, SOURCES, LogKind
from tiltyard.arena.log.log_columns import LogColumns, read_columns
from tiltyard.arena.log.rosters import Roster, read_roster_sync
from tiltyard.arena.rating.checkpoints import STATE_VERSION, list_checkpoints, read_checkpoint
from tiltyard.arena.rating.rater_progress import (
    ExclusionChange,
    find_first_excluded,
    log_head,
    read_excluded_votes,
    read_exclusion_changes,
    read_undone_votes,
)
from tiltyard.core.board.cross_check import BatchHistory
from tiltyard.core.policy.state.rating_fold import method_from_dict
from tiltyard.core.policy.validity.arena_fold import ArenaFold
from tiltyard.errors import BadOption, StoreFault

_LOG = logging.getLogger(__name__)
_CHUNK_ROWS = 50_000


def fold_until(
    connection: Connection,
    arena: int,
    progress: FoldProgress,
    upto: int,
    generation: int,
    on_chunk: Callable[[], None] = lambda: None,
) -> None:
    """Fold the events after ``progress`` up to a position; ``on_chunk`` is called from time to time."""
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
        on_chunk()


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
    first = find_first_excluded(connection, arena, one ^ other)[0] if one != other else None
    return first is None or first > position


def active_exclusions(changes: Sequence[ExclusionChange], generation: int) -> frozenset[int]:
    """The active exclusions after the first ``generation`` changes."""
    active: set[int] = set()
    for change in changes[:generation]:
        (active.add if change.excluded else active.discard)(change.exclusion)
    return frozenset(active)


#: The latest evaluations that are all kept; older ones are thinned out.
_WHOLE_EVALUATION_COUNT = 400


@dataclass(frozen=True, slots=True)
class RuleEvaluation:
    """An evaluation of the rules of one source, whose `ArenaFold` is exactly at this event."""

    source: int
    position: int
    #: Microseconds since 1970.
    at: int
    #: Whether it is the last of its source among the events that are folded at once.
    newest: bool


class FoldProgress:
    """The folds of an arena up to ``position``. ``followings`` is by source, and empty before the first policy."""

    def __init__(self, followings: Sequence[ArenaFold] = (), position: int = 0) -> None:
        self.followings = list(followings)
        self.position = position
        #: Batch ratings of each source that boards have needed.
        self.batches = [BatchHistory() for _ in SOURCES]
        #: Whether each source has new events since the caller last cleared this.
        self.news = [False] * len(SOURCES)

    def fold(
        self,
        columns: LogColumns,
        dropped: Sequence[Collection[int]],
        roster: Callable[[], Roster],
    ) -> Iterator[RuleEvaluation]:
        """Fold the next events. Votes with ``dropped`` serials, by source, are folded as skips.

        Yields at each evaluation, with its source folded exactly up to it. The iterator must be exhausted.
        """
        places = np.arange(self.position + 1, self.position + 1 + len(columns))
        if not np.array_equal(columns.position, places):
            raise StoreFault(
                f"the log has a gap after position {self.position}: it is damaged; restore a backup"
            )
        start = 0
        for row in np.flatnonzero(np.isin(columns.kind, (LogKind.POLICY, LogKind.WIDEN))).tolist():
            yield from self._fold_run(columns[start:row], dropped)
            self._change(columns, row, roster)
            start = row + 1
        yield from self._fold_run(columns[start:], dropped)
        if len(columns):
            self.position = int(columns.position[-1])
        # A change of the crowd changes the board of people, whatever is folded.
        self.news[HUMAN] |= bool(
            np.isin(columns.kind, (LogKind.CROWD_CHANGED, LogKind.CROWD_EXPLAINED)).any()
        )

    def _fold_run(self, columns: LogColumns, dropped: Sequence[Collection[int]]) -> Iterator[RuleEvaluation]:
        """Fold events between two changes of policy or size."""
        for source, following in enumerate(self.followings):
            events = columns.events(source, dropped[source])
            if not len(events):
                continue
            self.news[source] = True
            rows = columns.rows_of_source(source)
            for stop, newest in following.fold_evaluations(events):
                row = rows[stop - 1]
                yield RuleEvaluation(source, int(columns.position[row]), int(columns.at[row]), newest=newest)

    def _change(self, columns: LogColumns, row: int, roster: Callable[[], Roster]) -> None:
        """Apply a new policy, or make room for more models and prompts."""
        position = int(columns.position[row])
        if columns.kind[row] == LogKind.POLICY:
            policy, settings = method_from_dict(columns.details[position])
            for following in self.followings:
                following.under(policy)
            if not self.followings:
                self.followings = [
                    ArenaFold(policy, settings, whole=_WHOLE_EVALUATION_COUNT) for _ in SOURCES
                ]
        else:
            names, models, prompts = roster(), int(columns.a[row]), int(columns.prompt[row])
            for following in self.followings:
                following.widen(names.models[:models], names.prompts[:prompts])
        self.news = [True] * len(SOURCES)

    def save(self) -> bytes:
        """Both sources as bytes."""
        return ArenaFold.save_all(self.followings)

    @classmethod
    def restore(cls, saved: bytes, position: int) -> FoldProgress:
        """Restore what `save` returned at this position."""
        return cls(ArenaFold.restore_all(saved), position)
