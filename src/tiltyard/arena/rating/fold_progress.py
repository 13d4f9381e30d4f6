"""Both sources of an arena, folded up to a position of its log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tiltyard.arena.log.event_log import SOURCES, LogKind
from tiltyard.arena.log.log_columns import LogColumns
from tiltyard.arena.log.rosters import Roster
from tiltyard.core.policy.validity.arena_fold import ArenaFold
from tiltyard.core.policy.validity.method_document import method_from_dict
from tiltyard.errors import StoreFault

__all__ = ["FoldProgress", "RuleEvaluation"]

#: The last evaluations that are kept whole; older ones ever more rarely.
_WHOLE_EVALUATION_COUNT = 400


@dataclass(frozen=True, slots=True)
class RuleEvaluation:
    """The rules of one source were looked at here: its `ArenaFold` stands exactly at this event."""

    source: int
    position: int
    #: Microseconds since 1970.
    at: int


class FoldProgress:
    """What the log says up to ``position``. ``followings`` are by source; there are none before the first policy."""

    def __init__(self, followings: Sequence[ArenaFold] = (), position: int = 0) -> None:
        self.followings = list(followings)
        self.position = position
        #: Whether each source has seen an event since somebody last cleared this.
        self.news = [False] * len(SOURCES)

    def fold(
        self,
        columns: LogColumns,
        dropped: Sequence[Collection[int]],
        roster: Callable[[], Roster],
    ) -> Iterator[RuleEvaluation]:
        """The next events. Votes of ``dropped`` serials, by source, are folded as skips.

        Stops at each evaluation, with its source exactly there. It must be gone through to the end.
        """
        places = np.arange(self.position + 1, self.position + 1 + len(columns))
        if not np.array_equal(columns.position, places):
            raise StoreFault(
                f"the log has a hole after position {self.position}, which never happens by itself; restore a backup"
            )
        start = 0
        for row in np.flatnonzero(columns.kind >= LogKind.POLICY).tolist():
            yield from self._fold_run(columns[start:row], dropped)
            self._change(columns, row, roster)
            start = row + 1
        yield from self._fold_run(columns[start:], dropped)
        if len(columns):
            self.position = int(columns.position[-1])

    def _fold_run(self, columns: LogColumns, dropped: Sequence[Collection[int]]) -> Iterator[RuleEvaluation]:
        """Events between two changes of policy or size."""
        for source, following in enumerate(self.followings):
            events = columns.events(source, dropped[source])
            if not len(events):
                continue
            self.news[source] = True
            rows = columns.rows_of_source(source)
            start = 0
            for stop in following.looks(events).tolist():
                following.fold(events[start:stop])
                row = rows[stop - 1]
                yield RuleEvaluation(source, int(columns.position[row]), int(columns.at[row]))
                start = stop
            following.fold(events[start:])

    def _change(self, columns: LogColumns, row: int, roster: Callable[[], Roster]) -> None:
        """Another policy, or more models and prompts."""
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
        """What was saved at this position."""
        return cls(ArenaFold.restore_all(saved), position)
