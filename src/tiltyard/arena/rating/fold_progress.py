"""Both sources of an arena, folded up to a position of its log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tiltyard.arena.log.event_log import HUMAN, SOURCES, LogKind
from tiltyard.arena.log.log_columns import LogColumns
from tiltyard.arena.log.rosters import Roster
from tiltyard.core.board.cross_check import BatchHistory
from tiltyard.core.policy.state.rating_fold import method_from_dict
from tiltyard.core.policy.validity.arena_fold import ArenaFold
from tiltyard.errors import StoreFault

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
            start, stops = 0, following.looks(events).tolist()
            for stop in stops:
                following.fold(events[start:stop])
                row = rows[stop - 1]
                position, at = int(columns.position[row]), int(columns.at[row])
                yield RuleEvaluation(source, position, at, newest=stop == stops[-1])
                start = stop
            following.fold(events[start:])

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
