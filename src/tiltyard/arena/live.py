"""What one process knows of an arena: counts of both sources, open matchups, votes that may be undone.

It is folded from the log, row by row, and can be thrown away at any time. Served matchups count at
once; a vote counts when it can no longer be taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, takewhile
from uuid import UUID

import numpy as np
import numpy.typing as npt

from tiltyard.settings.arena import ArenaSettings
from tiltyard.standing.events import Events
from tiltyard.standing.policy import Lane
from tiltyard.standing.state import Standing
from tiltyard.standing.strengths import Strengths
from tiltyard.store.log import SOURCES, LogKind, LogRow, OpenMatchup
from tiltyard.validity.method import method_from_dict

__all__ = ["FreshVote", "Live"]

Ints = npt.NDArray[np.int64]

_REMEMBERED = 20_000
_RESPONSES = (LogKind.RESPOND, LogKind.WITHDRAW)


@dataclass(slots=True)
class FreshVote:
    """A vote that can still be taken back, unless its names were shown."""

    opened: OpenMatchup
    position: int
    at: datetime
    kind: int
    revealed: bool = False


class Live:
    """One arena in memory. `fold` takes the log's rows one after another, from `position` on."""

    def __init__(self, settings: ArenaSettings, standings: Sequence[Standing], position: int) -> None:
        self.settings = settings
        #: By source.
        self.standings = tuple(standings)
        self.position = position
        #: Which response each cell of model and prompt has; 0 for none.
        self.responses: Ints = np.zeros((self.n_models, self.n_prompts), dtype=np.int64)
        #: Open matchups, the one served first first; and those of each voter.
        self.open: dict[UUID, OpenMatchup] = {}
        self.held: dict[tuple[int, int], list[UUID]] = {}
        self._by_serial: dict[tuple[int, int], UUID] = {}
        #: Votes that are not counted yet, oldest first, by source and serial; and their matchups.
        self.fresh: dict[tuple[int, int], FreshVote] = {}
        self.voted: dict[UUID, FreshVote] = {}
        #: Votes that were counted here, the last thousands: an undo of one of these comes too late for us.
        self._counted: dict[tuple[int, int], None] = {}
        #: Excluded votes that come after the point from which this was folded.
        self.dropped: tuple[set[int], ...] = tuple(set() for _ in SOURCES)
        #: Whether something happened that only a new start from the log can take in.
        self.stale = False

    @property
    def n_models(self) -> int:
        return len(self.standings[0].models)

    @property
    def n_prompts(self) -> int:
        return len(self.standings[0].prompts)

    def widen(self, models: Sequence[str], prompts: Sequence[str]) -> None:
        """Room for more models and prompts."""
        for standing in self.standings:
            standing.widen(models, prompts)
        more = (self.n_models - self.responses.shape[0], self.n_prompts - self.responses.shape[1])
        self.responses = np.pad(self.responses, ((0, more[0]), (0, more[1])))

    def rank(self, source: int, strengths: Strengths) -> None:
        """Ratings of a snapshot, which may know fewer models than the log does by now."""
        if len(strengths.rating) <= self.n_models:
            self.standings[source].rank(strengths.widened(self.n_models))

    def fold(self, row: LogRow) -> None:
        """The next event of voters, or a policy. `fold_roster` takes those of models and responses, and the
        caller those of `LogKind.WIDEN`, which need names.
        """
        self.position = row.position
        _FOLDS[row.kind](self, row)

    def fold_roster(self, rows: Sequence[LogRow]) -> None:
        """Many events in a row that concern models and responses alone, at once."""
        events = Events.of([{"event": row.kind, "a": row.a, "prompt": max(row.prompt, 0)} for row in rows])
        for standing in self.standings:
            standing.fold(events)
        for row in rows:
            if row.kind in _RESPONSES:
                self.responses[row.a, row.prompt] = row.serial if row.kind == LogKind.RESPOND else 0
        self.position = rows[-1].position

    def settle(self, now: datetime, horizon: int) -> None:
        """Count the votes that nobody can take back any more: by their age, or because they are rated."""
        grace = timedelta(seconds=self.settings.undo_seconds)
        while self.fresh:
            key = next(iter(self.fresh))
            vote = self.fresh[key]
            if not vote.revealed and vote.position > horizon and vote.at + grace > now:
                return
            self._count(key, vote)

    def opened_by(self, source: int, session: int, now: datetime) -> list[OpenMatchup]:
        """The open matchups of a voter that have not run out."""
        found = (self.open[one] for one in self.held.get((source, session), ()))
        return [one for one in found if one.expires_at > now]

    def due(self, now: datetime, most: int = 2000) -> list[OpenMatchup]:
        """Open matchups that have run out, oldest first, as far as they stand in front."""
        return list(islice(takewhile(lambda one: one.expires_at <= now, self.open.values()), most))

    def hold(self, one: OpenMatchup) -> None:
        """A matchup was staged for its voter; counts have it already."""
        self.open[one.matchup] = one
        self.held.setdefault((one.source, one.session), []).append(one.matchup)
        self._by_serial[one.source, one.serial] = one.matchup

    def _served(self, row: LogRow) -> None:
        assert row.matchup is not None
        assert row.expires_at is not None
        standing = self.standings[row.source]
        served = standing.serve(
            row.a, row.b, row.prompt, lane=Lane(row.lane), nominal=Lane(row.nominal), session=row.session
        )
        self.stale |= served != row.serial
        self.hold(
            OpenMatchup(
                matchup=row.matchup,
                source=row.source,
                serial=row.serial,
                session=row.session,
                a=row.a,
                b=row.b,
                prompt=row.prompt,
                response_a=row.response_a,
                response_b=row.response_b,
                served_at=row.at,
                expires_at=row.expires_at,
            )
        )

    def _close(self, row: LogRow) -> OpenMatchup | None:
        matchup = self._by_serial.pop((row.source, row.serial), None)
        if matchup is None:
            self.stale = True
            return None
        one = self.open.pop(matchup)
        held = self.held[one.source, one.session]
        held.remove(matchup)
        if not held:
            del self.held[one.source, one.session]
        return one

    def _vote(self, row: LogRow) -> None:
        one = self._close(row)
        if one is None:
            return
        if one.serial in self.dropped[one.source]:
            self.standings[one.source].skip()
            return
        vote = FreshVote(one, row.position, row.at, row.outcome)
        self.fresh[one.source, one.serial] = vote
        self.voted[one.matchup] = vote

    def _count(self, key: tuple[int, int], vote: FreshVote) -> None:
        del self.fresh[key]
        del self.voted[vote.opened.matchup]
        one = vote.opened
        self.standings[one.source].vote(one.a, one.b, one.prompt, vote.kind)
        self._counted[key] = None
        if len(self._counted) > _REMEMBERED:
            del self._counted[next(iter(self._counted))]

    def _undo(self, row: LogRow) -> None:
        key = (row.source, row.serial)
        vote = self.fresh.pop(key, None)
        if vote is None:
            # Counted here, though it could be taken back: somebody's clock went backward. Otherwise what
            # we started from knew of the undo.
            self.stale |= key in self._counted
            return
        del self.voted[vote.opened.matchup]
        self.standings[row.source].skip()

    def _reveal(self, row: LogRow) -> None:
        vote = self.fresh.get((row.source, row.serial))
        if vote is not None:
            vote.revealed = True

    def _skip(self, row: LogRow) -> None:
        if self._close(row) is not None:
            self.standings[row.source].skip()

    def _expire(self, row: LogRow) -> None:
        one = self._close(row)
        if one is not None:
            self.standings[one.source].expire(one.serial)

    def _policy(self, row: LogRow) -> None:
        assert row.detail is not None
        policy, _ = method_from_dict(row.detail)
        for standing in self.standings:
            standing.under(policy)

    def _later(self, row: LogRow) -> None:
        """Exclusions: the rater recomputes, and its next checkpoint is what this starts from anew."""


_FOLDS: dict[int, Callable[[Live, LogRow], None]] = {
    LogKind.SERVED: Live._served,  # noqa: SLF001
    LogKind.VOTE: Live._vote,  # noqa: SLF001
    LogKind.SKIP: Live._skip,  # noqa: SLF001
    LogKind.EXPIRE: Live._expire,  # noqa: SLF001
    LogKind.UNDO: Live._undo,  # noqa: SLF001
    LogKind.REVEAL: Live._reveal,  # noqa: SLF001
    LogKind.EXCLUDE: Live._later,  # noqa: SLF001
    LogKind.RESTORE: Live._later,  # noqa: SLF001
    LogKind.POLICY: Live._policy,  # noqa: SLF001
}
