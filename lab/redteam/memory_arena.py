"""An arena in memory: the same functions serve, mark, watch, fold and admit as in a served one, without HTTP and a database.

Time is simulated. The log is a list of rows that the rater's own functions read as columns.
"""

from __future__ import annotations

from collections.abc import Collection
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from lab.redteam.defences import Defence
from lab.redteam.demo_content import ArenaContent
from lab.redteam.integrity_tests import LogWatch, flagged_in_log
from lab.redteam.log_board import board_of_log
from tiltyard.arena.log.event_details import CrowdChangedDetail
from tiltyard.arena.log.event_log import HUMAN, LogKind
from tiltyard.arena.log.log_columns import LogColumns
from tiltyard.arena.log.rosters import Roster
from tiltyard.arena.operators.scheduled_jobs import CHECKED_MINUTES, CHECKED_VOTE_COUNT
from tiltyard.arena.rating.log_replay import FoldProgress
from tiltyard.core.battles import Kind
from tiltyard.core.board.arena_board import ArenaBoard
from tiltyard.core.policy.matchmaking.matchmaker import choose
from tiltyard.core.policy.state.events import NO_MARK, Look, VoteMark
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.validity.arena_fold import ArenaFold
from tiltyard.settings.arena_settings import PUBLIC_AGEING_HOURS, ArenaSettings

_SECOND_MICROSECONDS = 1_000_000
_HOUR_SECONDS = 3600
#: Votes between two updates of the ratings by which pairs are chosen, and between two turns of the watch.
_RANKED_VOTES, _TURN_VOTES = 25, 20
#: A day before which nothing happens.
_FIRST_SECONDS = 20_000 * 24 * _HOUR_SECONDS
_COLUMN_NAMES = (
    "position", "at", "kind", "source", "serial", "session", "a", "b", "prompt", "outcome", "nominal", "lane", "blind",
    "free_prompt", "mark",
)  # fmt: skip


class ServedPair(NamedTuple):
    """A matchup of a session."""

    serial: int
    session: int
    a: int
    b: int
    prompt: int


class _WaitingVote(NamedTuple):
    pair: ServedPair
    kind: Kind
    seconds: float


@dataclass(frozen=True, slots=True)
class CrowdAlarm:
    """A change of the crowd that was told."""

    model: int
    position: int
    detail: CrowdChangedDetail


class MemoryArena:
    """One arena. Sessions are numbers that its voters choose."""

    def __init__(self, content: ArenaContent, defence: Defence, seed: int) -> None:
        self.content = content
        self.defence = defence
        self.random = np.random.default_rng([seed, 1])
        #: Seconds since 1970.
        self.now: float = _FIRST_SECONDS
        self.rows: list[tuple[int, ...]] = []
        self.alarms: list[CrowdAlarm] = []
        self.excluded: set[int] = set()
        #: Serials of votes that came too soon after the responses.
        self.early: set[int] = set()
        #: A fold of the log up to a position, from which boards are made.
        self._folded: tuple[bytes, int, int] | None = None
        #: The matchups of each session that ended with a vote.
        self.voted: dict[int, list[ServedPair]] = {}
        self._serving = ArenaFold(Policy(), None, content.models, content.prompts)
        self._watch = LogWatch(len(content.models))
        self._watched = self._unranked = 0
        self._told: dict[int, set[tuple[int, int]]] = {}
        self._pending: dict[int, list[ServedPair]] = {}
        self._known: set[int] = set()
        self._waiting: list[_WaitingVote] = []
        self._first_content = content
        for model in range(len(content.models)):
            if model not in content.retired:
                self._serving.standing.enable(model)
                self._append(LogKind.ENABLE, a=model)

    def copy(self, defence: Defence, seed: int) -> MemoryArena:
        """The same arena, which goes on under another defence."""
        made = deepcopy(self)
        made.defence, made.random = defence, np.random.default_rng([seed, 2])
        return made

    def enter(self, content: ArenaContent) -> None:
        """More models, with responses to every prompt."""
        before, self.content = len(self.content.models), content
        standing = self._serving.standing
        self._serving.widen(content.models, content.prompts)
        self._append(LogKind.WIDEN, a=len(content.models), prompt=len(content.prompts))
        for model in range(before, len(content.models)):
            for prompt in (prompt for number, prompt in content.responses if number == model):
                standing.respond(model, prompt)
                self._append(LogKind.RESPOND, a=model, prompt=prompt)
            standing.enable(model)
            self._append(LogKind.ENABLE, a=model)
        self._rank()

    # Voters

    def serve(self, session: int) -> ServedPair:
        """The next matchup of a session."""
        standing = self._serving.standing
        told = sorted(self._told.get(session, ()))
        choice = choose(standing, self.random, session=session, told=told)
        serial = standing.serve(
            choice.left,
            choice.right,
            choice.prompt,
            lane=choice.lane,
            nominal=choice.nominal,
            session=session,
        )
        pair = ServedPair(serial, session, choice.left, choice.right, choice.prompt)
        self._append(LogKind.SERVED, pair, nominal=int(choice.nominal), lane=int(choice.lane))
        return pair

    def skip(self, pair: ServedPair) -> None:
        self._serving.standing.skip()
        self._append(LogKind.SKIP, pair)

    def vote(self, pair: ServedPair, kind: Kind, seconds: float) -> int:
        """A vote so many seconds after both responses were shown; returns its mark."""
        self.now += seconds
        if Look(seconds, self.characters(pair)).mark() != NO_MARK:
            self.early.add(pair.serial)
        cells = {(pair.a, pair.prompt), (pair.b, pair.prompt)}
        blind = not self.defence.blind or not cells & self._told.get(pair.session, set())
        mark = self._mark(pair) if blind else NO_MARK
        self._append(LogKind.VOTE, pair, outcome=int(kind), blind=int(blind), mark=mark)
        if blind and mark == NO_MARK:
            self._known.add(pair.session)
            self._count(pair, kind)
        else:
            self._serving.standing.skip()
            if mark == VoteMark.WAITING:
                self._waiting.append(_WaitingVote(pair, kind, self.now))
        self.voted.setdefault(pair.session, []).append(pair)
        self._pending.setdefault(pair.session, []).append(pair)
        if len(self._pending[pair.session]) >= ArenaSettings().session_votes:
            self.finish(pair.session)
        self._unranked += 1
        if self._unranked >= _RANKED_VOTES:
            self._rank()
        return mark

    def finish(self, session: int) -> list[ServedPair]:
        """Reveal the names of a session's votes."""
        revealed = self._pending.pop(session, [])
        told = self._told.setdefault(session, set())
        for pair in revealed:
            told |= {(pair.a, pair.prompt), (pair.b, pair.prompt)}
        return revealed

    def characters(self, pair: ServedPair) -> int:
        """Of both responses."""
        return self.content.characters(pair.a, pair.prompt) + self.content.characters(pair.b, pair.prompt)

    def _mark(self, pair: ServedPair) -> int:
        if self.defence.shown and pair.serial in self.early:
            return VoteMark.EARLY
        return VoteMark.WAITING if self.defence.ageing and pair.session not in self._known else NO_MARK

    def _count(self, pair: ServedPair, kind: Kind) -> None:
        self._serving.standing.vote(pair.a, pair.b, pair.prompt, kind, pair.session)
        self._serving.rater.vote(pair.a, pair.b, kind)

    def _rank(self) -> None:
        standing = self._serving.standing
        standing.rank(self._serving.rater.strengths(standing.enabled))
        self._unranked = 0

    # Operators and scheduled jobs

    @property
    def waiting(self) -> int:
        """Votes that wait and are not excluded."""
        return sum(vote.pair.serial not in self.excluded for vote in self._waiting)

    def waiting_sessions(self) -> list[int]:
        """The session of each vote that waits."""
        return [vote.pair.session for vote in self._waiting]

    def admit_due(self, *, explained: bool = False) -> int:
        """Admit what has waited long enough, as the scheduled job does; nothing while a change is to be explained."""
        if self.alarms and not explained:
            return 0
        spans: dict[int, list[float]] = {}
        for vote in self._waiting:
            spans.setdefault(vote.pair.session, []).append(vote.seconds)
        due = {
            session
            for session, times in spans.items()
            if session in self._known
            or times[0] <= self.now - PUBLIC_AGEING_HOURS * _HOUR_SECONDS
            or (len(times) >= CHECKED_VOTE_COUNT and times[-1] - times[0] >= CHECKED_MINUTES * 60)
        }
        admitted = [vote for vote in self._waiting if vote.pair.session in due]
        self._waiting = [vote for vote in self._waiting if vote.pair.session not in due]
        for vote in admitted:
            self._append(LogKind.ADMIT, vote.pair, outcome=int(vote.kind), blind=1)
            if vote.pair.serial not in self.excluded:
                self._count(vote.pair, vote.kind)
        self._known |= due
        self._rank()
        return len(admitted)

    def exclude(self, sessions: Collection[int]) -> int:
        """Exclude all votes of sessions; returns how many."""
        serials = {pair.serial for session in sessions for pair in self.voted.get(session, ())}
        self.excluded |= serials
        return len(serials)

    def named_sessions(self) -> set[int]:
        """Sessions that the alarms name, and those that went on in the same direction since then."""
        named: set[int] = set()
        for alarm in self.alarms:
            named |= {*alarm.detail["sessions"]}
            columns = self.columns(alarm.detail["until"])
            first = columns.a == alarm.model
            rows = (
                (columns.kind == LogKind.VOTE) & (columns.blind != 0) & (first | (columns.b == alarm.model))
            )
            rows &= np.isin(columns.mark, (NO_MARK, VoteMark.WAITING)) & (columns.outcome < Kind.TIE)
            won = first == (columns.outcome == Kind.WIN_A)
            named |= {*columns.session[rows & (won == (alarm.detail["shift"] > 0.0))].tolist()}
        return named

    def watch(self, *, due: bool = False) -> None:
        """Let the watch see what is new, every few votes or if it is due now."""
        if not self.defence.watch or (not due and self._new_votes() < _TURN_VOTES):
            return
        told = self._watch.follow(self.columns(self._watched), self.excluded)
        self._watched = len(self.rows)
        known = {alarm.model for alarm in self.alarms}
        self.alarms += [
            CrowdAlarm(model, len(self.rows), detail) for model, detail in told.items() if model not in known
        ]

    def follow_history(self) -> None:
        """Let the watch learn from everything so far, and tell nothing of it."""
        self._watch.follow(self.columns(self._watched))
        self._watched = len(self.rows)

    def _new_votes(self) -> int:
        return sum(row[2] == LogKind.VOTE for row in self.rows[self._watched :])

    # What the log says

    def columns(self, start: int = 0, stop: int | None = None) -> LogColumns:
        """Rows of the log as columns."""
        table = np.array(self.rows[start:stop], dtype=np.int64).reshape(-1, len(_COLUMN_NAMES))
        return LogColumns(**dict(zip(_COLUMN_NAMES, table.T, strict=True)), details={})

    def columns_under(self, defence: Defence, start: int = 0, stop: int | None = None) -> LogColumns:
        """The same rows as they would be if votes were marked by another defence; ageing cannot be changed."""
        columns = self.columns(start, stop)
        votes = columns.kind == LogKind.VOTE
        blind = columns.blind if defence.blind else np.where(votes, 1, columns.blind)
        early = votes & np.isin(columns.serial, list(self.early)) & (columns.mark == NO_MARK)
        mark = np.where(early, VoteMark.EARLY, columns.mark) if defence.shown else columns.mark
        return replace(columns, blind=blind, mark=mark)

    def board(
        self, dropped: Collection[int] = (), position: int | None = None, defence: Defence | None = None
    ) -> ArenaBoard:
        """The official board at a position, without some votes, and perhaps with the marks of another defence."""
        progress, start = self._progress(dropped)
        roster = Roster(self.content.models, self.content.prompts)
        columns = self.columns_under(self.defence if defence is None else defence, start, position)
        return board_of_log(progress, columns, (set(dropped), set()), lambda: roster)

    def keep_fold(self) -> None:
        """Fold the log so far once for all boards."""
        progress, _ = self._progress(())
        for _ in progress.fold(self.columns(), (set(), set()), _no_roster):
            pass
        self._folded = progress.save(), len(self.rows), self._serving.standing.window.served

    def _progress(self, dropped: Collection[int]) -> tuple[FoldProgress, int]:
        """Where the fold of a board begins, and after how many rows: none of the dropped votes may be in it."""
        if self._folded is not None and min(dropped, default=self._folded[2]) >= self._folded[2]:
            saved, position, _ = self._folded
            return FoldProgress.restore(saved, position), position
        names = (self._first_content.models, self._first_content.prompts)
        return FoldProgress([ArenaFold(Policy(), None, *names) for _ in range(2)]), 0

    def flagged_sessions(self, defence: Defence) -> set[int]:
        """Sessions that the operator's page lists as unlike the others."""
        return flagged_in_log(self.columns_under(defence), len(self.content.models))

    def _append(self, kind: LogKind, pair: ServedPair | None = None, **fields: int) -> None:
        values = {
            "position": len(self.rows) + 1,
            "at": int(self.now * _SECOND_MICROSECONDS),
            "kind": int(kind),
            "source": -1 if pair is None else HUMAN,
            "free_prompt": 0,
            "mark": NO_MARK,
        }
        values |= {} if pair is None else pair._asdict()
        values |= fields
        self.rows.append(tuple(values.get(name, -1) for name in _COLUMN_NAMES))


def _no_roster() -> Roster:
    raise AssertionError("history has no models that join")
