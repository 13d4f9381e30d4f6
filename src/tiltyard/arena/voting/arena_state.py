"""The state of an arena in memory: counts of both sources, open matchups, votes that can be undone.

It is folded from the log, row by row, and can be discarded and rebuilt at any time. A matchup counts when it is
shown, a vote when it can no longer be undone. An undo reopens its matchup.

The work lists of an arena's expert panels in memory: which item a rater is asked about next.

Lists are read from the tables and followed vote by vote. Following the same event twice changes nothing, so that it
does not matter which events the tables had already.

A cache of what voters know: the responses whose model names were revealed to them, and votes still unrevealed.

A vote is blind if the name of neither response was revealed to its voter. The tables have all of it; a process
keeps it for the most recent voters and folds the log into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain, islice, takewhile
from uuid import UUID

import numpy as np

from tiltyard.arena.log.event_details import erased_serials, undo_detail
from tiltyard.arena.log.event_log import (
    HUMAN,
    SOURCES,
    LogKind,
    LogRow,
    OpenMatchup,
    PendingNames,
    ToldResponse,
)
from tiltyard.arena.log.log_connection import PanelRows
from tiltyard.core.judging.panel_assignment import PanelItem
from tiltyard.core.policy.matchmaking.matchmaker import Choice
from tiltyard.core.policy.state.events import NO_FREE_PROMPT, NO_MARK, Events, VoteMark, unrated_reason
from tiltyard.core.policy.state.policy import Lane
from tiltyard.core.policy.state.rating_fold import method_from_dict
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.state.strengths import Strengths
from tiltyard.errors import NoMatchup
from tiltyard.foundation.arrays import Ints
from tiltyard.settings.arena_settings import MAX_SESSION_VOTES, ArenaSettings

#: Why a panel's matchups were chosen.
PANEL_REASON = "expert panel"
#: A skipped item comes back once, after all others; skipped again, it stays without this rater's vote.
_SKIP_LIMIT = 2


@dataclass(slots=True)
class RaterList:
    """One rater's items in order, with whether sides are exchanged; and which of them were answered."""

    is_open: bool
    tasks: dict[PanelItem, bool] = field(default_factory=dict)
    voted: set[PanelItem] = field(default_factory=set)
    #: By item, the serials of the matchups that the rater skipped.
    skipped: dict[PanelItem, set[int]] = field(default_factory=dict)

    def next_choice(self, responses: Ints, opened: Iterable[OpenMatchup]) -> Choice:
        """The next item that is neither answered nor open nor withdrawn, as a choice of matchmaking.

        It counts as exploration: nothing that is known of the models had a part in choosing it.
        """
        if not self.is_open:
            raise NoMatchup("this panel is closed; thank you for your votes")
        held = {_item_of(one) for one in opened}
        left = [
            item
            for item in self.tasks
            if item not in held
            and item not in self.voted
            and len(self.skipped.get(item, ())) < _SKIP_LIMIT
            and responses[item.one, item.prompt]
            and responses[item.other, item.prompt]
        ]
        if not left:
            raise NoMatchup("your list is finished; thank you for your votes")
        item = min(left, key=lambda item: len(self.skipped.get(item, ())))
        sides = (item.other, item.one) if self.tasks[item] else (item.one, item.other)
        return Choice(*sides, item.prompt, Lane.EXPLORATION, Lane.EXPLORATION, PANEL_REASON, 1.0)


class RaterLists:
    """The lists of all raters of an arena, by session."""

    def __init__(self, rows: PanelRows | None = None) -> None:
        self._lists: dict[int, RaterList] = {}
        if rows is None:
            return
        self._lists = {session: RaterList(is_open) for session, is_open in rows.raters.items()}
        for task in rows.tasks:
            self._lists[task.session].tasks[task.item] = task.exchanged
        for answer in rows.answers:
            item = PanelItem(answer.prompt, *sorted((answer.a, answer.b)))
            if answer.kind == 1:
                self._lists[answer.session].voted.add(item)
            else:
                self._lists[answer.session].skipped.setdefault(item, set()).add(answer.serial)

    def of(self, source: int, session: int) -> RaterList | None:
        """The list of a rater; ``None`` for a voter who is in no panel."""
        return self._lists.get(session) if source == HUMAN else None

    def vote(self, one: OpenMatchup) -> None:
        found = self.of(one.source, one.session)
        if found is not None:
            found.voted.add(_item_of(one))

    def undo(self, one: OpenMatchup) -> None:
        found = self.of(one.source, one.session)
        if found is not None:
            found.voted.discard(_item_of(one))

    def skip(self, one: OpenMatchup) -> None:
        found = self.of(one.source, one.session)
        if found is not None:
            found.skipped.setdefault(_item_of(one), set()).add(one.serial)


def _item_of(one: OpenMatchup) -> PanelItem:
    return PanelItem(one.prompt, *sorted((one.a, one.b)))


_RESPONSES = (LogKind.RESPOND, LogKind.WITHDRAW)


@dataclass(slots=True)
class UndoableVote:
    """A vote that is not counted yet; it can be undone unless its names were revealed."""

    opened: OpenMatchup
    position: int
    at: datetime
    kind: int
    revealed: bool = False
    #: Whether the voter knew neither name. A vote that is not blind is never rated.
    blind: bool = True
    #: Its `VoteMark`; 0 for none.
    mark: int = NO_MARK

    @property
    def is_rated(self) -> bool:
        """Whether nothing speaks against the vote."""
        return unrated_reason(blind=self.blind, mark=self.mark) is None


class ArenaState:
    """One arena in memory. `fold` takes the rows of the log in order, starting after `position`."""

    def __init__(self, settings: ArenaSettings, standings: Sequence[Standing], position: int) -> None:
        self.settings = settings
        #: The shard in the ids of new matchups.
        self.shard = 0
        #: By source.
        self.standings = tuple(standings)
        self.position = position
        #: The number of the response in each cell of model and prompt; 0 for none.
        self.responses: Ints = np.zeros((self.n_models, self.n_prompts), dtype=np.int64)
        #: By source: the serial of the next matchup.
        self.next_serial = [0] * len(SOURCES)
        #: Open matchups; and the ids of each voter's, in the order of serving.
        self.open: dict[UUID, OpenMatchup] = {}
        self.held: dict[tuple[int, int], list[UUID]] = {}
        #: The same in parts: prefetched and not shown; shown, by source (both in the order of expiry); and reopened.
        self.unseen: dict[UUID, None] = {}
        self._shown: tuple[dict[UUID, None], ...] = tuple({} for _ in SOURCES)
        self._reopened: set[UUID] = set()
        self._by_serial: dict[tuple[int, int], UUID] = {}
        #: Votes that are not counted yet, oldest first, by source and serial; and the same by matchup.
        self.fresh: dict[tuple[int, int], UndoableVote] = {}
        self.voted: dict[UUID, UndoableVote] = {}
        #: The names revealed to recent voters of this process.
        self.revealed = RevealedNames()
        #: Whether votes of new voters wait before they count.
        self.new_voters_wait = False
        #: The work lists of raters in expert panels.
        self.raters = RaterLists()
        #: Excluded votes after the checkpoint that this was loaded from, by source.
        self.dropped: tuple[set[int], ...] = tuple(set() for _ in SOURCES)
        #: Whether the state must be reloaded, because of an event that cannot be folded.
        self.stale = False

    @property
    def n_models(self) -> int:
        return len(self.standings[0].models)

    @property
    def n_prompts(self) -> int:
        return len(self.standings[0].prompts)

    def widen(self, models: Sequence[str], prompts: Sequence[str]) -> None:
        """Make room for more models and prompts."""
        for standing in self.standings:
            standing.widen(models, prompts)
        more = (self.n_models - self.responses.shape[0], self.n_prompts - self.responses.shape[1])
        self.responses = np.pad(self.responses, ((0, more[0]), (0, more[1])))

    def rank(self, source: int, strengths: Strengths) -> None:
        """Use the ratings of a snapshot, which may have fewer models than the log by now."""
        if len(strengths.rating) <= self.n_models:
            self.standings[source].rank(strengths.widened(self.n_models))

    def fold(self, row: LogRow) -> None:
        """Fold the next row: an event of a voter, an exclusion or a policy.

        Events of models and responses go to `fold_roster`. The caller handles `LogKind.WIDEN`, which needs names.
        """
        self.position = row.position
        _FOLDS[row.kind](self, row)

    def fold_roster(self, rows: Sequence[LogRow]) -> None:
        """Fold a run of consecutive events of models and responses at once."""
        events = Events.of([{"event": row.kind, "a": row.a, "prompt": max(row.prompt, 0)} for row in rows])
        for standing in self.standings:
            standing.fold(events)
        for row in rows:
            if row.kind in _RESPONSES:
                self.responses[row.a, row.prompt] = row.serial if row.kind == LogKind.RESPOND else 0
        self.position = rows[-1].position

    def let_new_voters_wait(self, wait: bool) -> None:
        """From now on votes of new voters wait, or not. Who is new is read again."""
        if wait and not self.new_voters_wait:
            self.revealed = RevealedNames()
        self.new_voters_wait = wait

    def settle(self, now: datetime, horizon: int) -> None:
        """Count the votes that can no longer be undone: they are too old, rated already, or their names were revealed."""
        grace = timedelta(seconds=self.settings.undo_seconds)
        while self.fresh:
            key = next(iter(self.fresh))
            vote = self.fresh[key]
            if not vote.revealed and vote.position > horizon and vote.at + grace > now:
                return
            self._count(key, vote)

    def open_matchups_of(self, source: int, session: int, now: datetime) -> list[OpenMatchup]:
        """The open matchups of a voter that have not expired."""
        found = (self.open[one] for one in self.held.get((source, session), ()))
        return [one for one in found if one.expires_at > now]

    def due(self, now: datetime, most: int = 2000) -> list[OpenMatchup]:
        """Open matchups that have expired, at most a number of them."""
        parts = (
            takewhile(lambda one: one.expires_at <= now, map(self.open.__getitem__, part))
            for part in (self.unseen, *self._shown)
        )
        reopened = (self.open[matchup] for matchup in self._reopened)
        late = (one for one in reopened if one.expires_at <= now)
        return list(islice(chain(*parts, late), most))

    @property
    def shown_count(self) -> int:
        """Open matchups without those that wait to be shown."""
        return len(self.open) - len(self.unseen)

    def oldest_unseen(self) -> OpenMatchup:
        """The matchup that has waited longest to be shown."""
        return self.open[next(iter(self.unseen))]

    def oldest_shown(self, source: int) -> OpenMatchup | None:
        """The open matchup of a source that was shown first, apart from reopened ones; ``None`` without one."""
        return self.open[next(iter(self._shown[source]))] if self._shown[source] else None

    def hold(self, one: OpenMatchup) -> None:
        """Add an open matchup. If it was shown, the counts already include it."""
        self.open[one.matchup] = one
        self._by_serial[one.source, one.serial] = one.matchup
        held = self.held.setdefault((one.source, one.session), [])
        held.append(one.matchup)
        held.sort(key=lambda matchup: self.open[matchup].serial)
        if one.ballot:
            self._reopened.add(one.matchup)
        elif one.unseen:
            self.unseen[one.matchup] = None
            self.standings[one.source].reserve(one.a, one.b, one.prompt, Lane(one.lane))
        else:
            self._shown[one.source][one.matchup] = None

    def count_shown(self, one: OpenMatchup) -> None:
        """Count the exposures of a matchup that is shown now."""
        self.standings[one.source].serve(
            one.a,
            one.b,
            one.prompt,
            lane=Lane(one.lane),
            nominal=Lane(one.nominal),
            session=one.session,
            serial=one.serial,
        )

    def _served(self, row: LogRow) -> None:
        assert row.matchup is not None
        assert row.expires_at is not None
        self.stale |= row.serial != self.next_serial[row.source]
        self.next_serial[row.source] = row.serial + 1
        unseen = row.kind == LogKind.PREFETCHED
        one = OpenMatchup(
            matchup=row.matchup,
            source=row.source,
            serial=row.serial,
            session=row.session,
            a=row.a,
            b=row.b,
            prompt=row.prompt,
            response_a=row.response_a,
            response_b=row.response_b,
            nominal=row.nominal,
            lane=row.lane,
            served_at=row.at,
            expires_at=row.expires_at,
            unseen=unseen,
            free_prompt=row.free_prompt,
            shown_at=None if unseen else row.at,
        )
        self.hold(one)
        if not unseen:
            self.count_shown(one)

    def _show(self, row: LogRow) -> None:
        assert row.expires_at is not None
        matchup = self._by_serial.get((row.source, row.serial))
        if matchup is None:
            self.stale = True
            return
        one = self.open[matchup]
        self.count_shown(one)
        # The tables from which the open matchups were loaded may have it as shown, and even as reopened, already.
        if one.unseen:
            self._leave_unseen(one)
            self.open[matchup] = replace(one, unseen=False, expires_at=row.expires_at, shown_at=row.at)
            self._shown[one.source][matchup] = None

    def _leave_unseen(self, one: OpenMatchup) -> None:
        del self.unseen[one.matchup]
        self.standings[one.source].unreserve(one.a, one.b, one.prompt, Lane(one.lane))

    def _close(self, row: LogRow) -> OpenMatchup | None:
        matchup = self._by_serial.pop((row.source, row.serial), None)
        if matchup is None:
            self.stale = True
            return None
        one = self.open.pop(matchup)
        self._reopened.discard(matchup)
        self._shown[one.source].pop(matchup, None)
        if one.unseen:
            self._leave_unseen(one)
        held = self.held[one.source, one.session]
        held.remove(matchup)
        if not held:
            del self.held[one.source, one.session]
        return one

    def _vote(self, row: LogRow) -> None:
        one = self._close(row)
        if one is None:
            return
        vote = UndoableVote(one, row.position, row.at, row.outcome, blind=row.blind, mark=row.mark)
        # Nobody can undo an imported vote, as if its names were revealed.
        vote.revealed = row.mark == VoteMark.IMPORTED
        self.raters.vote(one)
        names = self.revealed.find(one.session)
        if names is not None and one.source == HUMAN:
            names.vote(one)
        self.fresh[one.source, one.serial] = vote
        self.voted[one.matchup] = vote

    def _count(self, key: tuple[int, int], vote: UndoableVote) -> None:
        del self.fresh[key]
        del self.voted[vote.opened.matchup]
        one = vote.opened
        if one.serial in self.dropped[one.source] or not vote.is_rated:
            self.standings[one.source].skip()
        else:
            self.standings[one.source].vote(one.a, one.b, one.prompt, vote.kind, free_prompt=one.free_prompt)

    def _admit(self, row: LogRow) -> None:
        """A vote that waited counts now; it was counted as a skip when it was final."""
        names = self.revealed.find(row.session)
        if names is not None:
            names.is_known = True
        if row.serial not in self.dropped[row.source]:
            self.standings[row.source].vote(
                row.a, row.b, row.prompt, row.outcome, free_prompt=row.free_prompt
            )

    def _undo(self, row: LogRow) -> None:
        key = (row.source, row.serial)
        vote = self.fresh.pop(key, None)
        if vote is not None:
            one = vote.opened
            del self.voted[one.matchup]
        elif key in self._by_serial:
            # The tables from which the open matchups were loaded had the undo already.
            one = self.open[self._by_serial[key]]
            self._close(row)
        else:
            # Counted here although it could still be undone: a clock went backward.
            self.stale = True
            return
        names = self.revealed.find(one.session)
        if names is not None:
            names.undo(one.serial)
        self.raters.undo(one)
        undo = undo_detail(row.detail)
        expires_at = datetime.fromisoformat(undo["expires_at"])
        self.hold(replace(one, ballot=undo["ballot"], expires_at=expires_at))

    def _reveal(self, row: LogRow) -> None:
        names = self.revealed.find(row.session)
        if names is not None:
            names.tell(row)
        vote = self.fresh.get((row.source, row.serial))
        if vote is not None:
            vote.revealed = True

    def _skip(self, row: LogRow) -> None:
        one = self._close(row)
        if one is not None:
            self.raters.skip(one)
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

    def _exclude(self, row: LogRow) -> None:
        """Ignore an exclusion, until a snapshot of the new generation makes this state reload.

        If a voter was erased, what this process remembers of voters is read again. The votes in its detail are nobody's
        now, so that nobody undoes them.
        """
        serials = erased_serials(row.detail)
        if serials is None:
            return
        self.revealed = RevealedNames()
        for serial in serials:
            vote = self.fresh.get((HUMAN, serial))
            if vote is not None:
                vote.revealed = True

    def _crowd_changed(self, _: LogRow) -> None:
        """Who is known is read again: those who changed the crowd wait."""
        self.revealed = RevealedNames()

    def _later(self, row: LogRow) -> None:
        """Ignore what concerns boards, and what was removed."""


_FOLDS: dict[int, Callable[[ArenaState, LogRow], object]] = {
    LogKind.SERVED: ArenaState._served,  # noqa: SLF001
    LogKind.VOTE: ArenaState._vote,  # noqa: SLF001
    LogKind.SKIP: ArenaState._skip,  # noqa: SLF001
    LogKind.EXPIRE: ArenaState._expire,  # noqa: SLF001
    LogKind.UNDO: ArenaState._undo,  # noqa: SLF001
    LogKind.REVEAL: ArenaState._reveal,  # noqa: SLF001
    LogKind.EXCLUDE: ArenaState._exclude,  # noqa: SLF001
    LogKind.RESTORE: ArenaState._later,  # noqa: SLF001
    LogKind.POLICY: ArenaState._policy,  # noqa: SLF001
    LogKind.PREFETCHED: ArenaState._served,  # noqa: SLF001
    LogKind.SHOWN: ArenaState._show,  # noqa: SLF001
    # It was never shown: no count has it.
    LogKind.RELEASED: ArenaState._close,  # noqa: SLF001
    LogKind.ADMIT: ArenaState._admit,  # noqa: SLF001
    LogKind.REMOVED: ArenaState._later,  # noqa: SLF001
    LogKind.CROWD_CHANGED: ArenaState._crowd_changed,  # noqa: SLF001
    LogKind.CROWD_EXPLAINED: ArenaState._crowd_changed,  # noqa: SLF001
}


#: Voters that a process remembers: many more than one batch has.
CACHED_SESSION_LIMIT = 1_000


@dataclass(slots=True)
class VoterKnowledge:
    """The names that were revealed to one voter."""

    #: Model and prompt of every response whose name the voter knows.
    revealed: dict[int, tuple[int, int]] = field(default_factory=dict)
    #: A person's votes whose names are not revealed yet, oldest first, by serial; as many as a session can have.
    pending: dict[int, PendingNames] = field(default_factory=dict)
    #: Whether a vote of theirs is rated, so that the next ones need not wait.
    is_known: bool = False

    def is_blind(self, one: OpenMatchup) -> bool:
        """Whether the voter knows neither name of a matchup."""
        return one.response_a not in self.revealed and one.response_b not in self.revealed

    def vote(self, one: OpenMatchup) -> None:
        """Add a vote whose names are not revealed yet."""
        self.pending[one.serial] = PendingNames.of(one)
        if len(self.pending) > MAX_SESSION_VOTES:
            del self.pending[next(iter(self.pending))]

    def undo(self, serial: int) -> None:
        """Remove a vote that was undone."""
        self.pending.pop(serial, None)

    def tell(self, row: LogRow) -> None:
        """Note that the names of a matchup were revealed. The answers of a live battle are shown only once."""
        if row.free_prompt == NO_FREE_PROMPT:
            self.revealed[row.response_a] = (row.a, row.prompt)
            self.revealed[row.response_b] = (row.b, row.prompt)
        self.pending.pop(row.serial, None)


class RevealedNames:
    """What the voters of one arena know, by session; the least recently used are dropped."""

    def __init__(self) -> None:
        self._known: dict[int, VoterKnowledge] = {}

    def __contains__(self, session: int) -> bool:
        return session in self._known

    def of(self, session: int) -> VoterKnowledge:
        """What a voter knows; the voter must have been added by `remember`."""
        known = self._known[session] = self._known.pop(session)
        return known

    def find(self, session: int) -> VoterKnowledge | None:
        """What a voter knows; ``None`` if the voter is not in the cache."""
        return self._known.get(session)

    def remember(
        self, session: int, revealed: Iterable[ToldResponse], pending: Iterable[PendingNames]
    ) -> None:
        """Add a voter, with what was read from the tables."""
        self._known[session] = VoterKnowledge(
            {one.response: (one.model, one.prompt) for one in revealed}, {one.serial: one for one in pending}
        )
        if len(self._known) > CACHED_SESSION_LIMIT:
            del self._known[next(iter(self._known))]
