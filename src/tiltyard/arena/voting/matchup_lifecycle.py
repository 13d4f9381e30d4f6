"""Decides the requests of voters, given the arena's state and the batch that is being written.

The functions run under the arena's lock, when all earlier events are folded. `NOT_IN_MEMORY` means that the
state does not have the matchup, and the caller must read it from the tables.

Each open matchup takes memory in the process that decides. A matchup that was prefetched waits a few minutes to be
shown, and a voter has few of them; one that was shown waits for its vote, usually for hours.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal
from uuid import UUID

import numpy as np
import numpy.typing as npt

from tiltyard.arena.log.event_details import ServedDetail, SkipDetail, UndoDetail
from tiltyard.arena.log.event_log import (
    HUMAN,
    LogBatch,
    LogKind,
    LogRow,
    MatchupRecord,
    OpenMatchup,
    PendingNames,
)
from tiltyard.arena.voting.arena_state import ArenaState, UndoableVote, VoterKnowledge
from tiltyard.arena.voting.matchup_ids import new_matchup_id
from tiltyard.arena.voting.name_reveal import (
    check_reveal_allowed,
    end_full_session,
    finish_session,
    reveal_names,
    withheld_cells,
)
from tiltyard.arena.voting.sent_responses import look_mark
from tiltyard.arena.voting.voter_requests import EndedMatchup, OfferedMatchup, SentVote, Voter
from tiltyard.core.battles import Kind
from tiltyard.core.policy.matchmaking.matchmaker import Choice, choose
from tiltyard.core.policy.state.events import NO_FREE_PROMPT, NO_MARK, VoteMark, unrated_reason
from tiltyard.errors import Busy, Closed, Conflict, Expired, Paused

#: A reopened matchup stays open at least this long, or for the arena's ``expiry_seconds`` if that is shorter.
REOPENED_SECONDS = 300.0
_GIVEN_UP_FLAGS = {"exposure": 1, "session": 2, "blind": 4}


class _Lookup(enum.Enum):
    LOOK = enum.auto()


NOT_IN_MEMORY: Final = _Lookup.LOOK
NotInMemory = Literal[_Lookup.LOOK]


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """What a new matchup is drawn with, and from: ``judgeable`` has the prompts that the voter can judge."""

    rng: np.random.Generator
    #: ``None`` for all prompts.
    judgeable: npt.NDArray[np.int64] | None = None
    #: Models that cannot answer at present, and the number of the prompt that the voter wrote: in live arenas.
    resting: tuple[int, ...] = ()
    free_prompt: int = NO_FREE_PROMPT

    def mask(self, state: ArenaState) -> npt.NDArray[np.bool_] | None:
        """By prompt of the state, whether the voter can judge it."""
        if self.judgeable is None:
            return None
        found = np.zeros(state.n_prompts, dtype=bool)
        found[self.judgeable[self.judgeable < state.n_prompts]] = True
        return found

    def detail(self, voter: Voter) -> ServedDetail | None:
        """What the log keeps of it: the choice was made among the rest."""
        kept: ServedDetail = {} if self.judgeable is None else voter.declared.detail() or {}
        if self.resting:
            kept = {**kept, "resting": list(self.resting)}
        return kept or None


def offer(
    state: ArenaState, batch: LogBatch, voter: Voter, arena: str, draw: Draw, *, ahead: bool
) -> OfferedMatchup:
    """The voter's matchup to look at now: one that is open, shown if it was prefetched, or a new one.

    With ``ahead``, a new one that is prefetched, to be shown next.
    """
    _check_cached(state)
    _end_unfit(state, batch, voter, draw)
    opened = state.open_matchups_of(voter.source, voter.session, batch.now)
    shown = [one for one in opened if not one.unseen]
    unseen = [one for one in opened if one.unseen]
    if len(shown) >= OPEN_MATCHUPS_PER_VOTER_LIMIT or (shown and not ahead):
        return to_offered_matchup(shown[-1] if ahead else shown[0], arena)
    if not ahead:
        make_room_for_shown(state, batch, voter)
        if unseen:
            return to_offered_matchup(_show(state, batch, unseen[0]), arena)
    return to_offered_matchup(serve_new(state, batch, voter, opened, draw, ahead=ahead), arena, new=True)


def _check_cached(state: ArenaState) -> None:
    """Raise `Conflict` in a live arena: nothing can be shown there before its voter has written a prompt."""
    if state.settings.is_live:
        raise Conflict("in this arena voters write the prompts: send one to begin a battle")


def _end_unfit(state: ArenaState, batch: LogBatch, voter: Voter, draw: Draw) -> None:
    """End the open matchups whose prompts the voter has since said not to be able to judge."""
    mask = draw.mask(state)
    if mask is not None:
        for one in state.open_matchups_of(voter.source, voter.session, batch.now):
            if not mask[one.prompt]:
                end_unanswered(state, batch, one)


def look_ahead(
    state: ArenaState,
    batch: LogBatch,
    voter: Voter,
    arena: str,
    draw: Draw,
    *,
    shown: UUID | None,
) -> OfferedMatchup:
    """The matchup to load while the voter looks at the one that is ``shown``: one that waits, or a new one.

    That the voter looks at it is recorded, unless the arena is too crowded: then a vote will do so.
    """
    _check_cached(state)
    if shown is not None:
        with suppress(Busy, Expired):
            show(state, batch, voter, shown, arena)
    _end_unfit(state, batch, voter, draw)
    opened = state.open_matchups_of(voter.source, voter.session, batch.now)
    waiting = [one for one in opened if one.matchup != shown]
    if waiting:
        return to_offered_matchup(waiting[0], arena)
    return offer(state, batch, voter, arena, draw, ahead=True)


def serve_new(
    state: ArenaState,
    batch: LogBatch,
    voter: Voter,
    opened: list[OpenMatchup],
    draw: Draw,
    *,
    ahead: bool,
) -> OpenMatchup:
    """Choose a matchup, and serve or prefetch it; `Paused` if the arena serves none."""
    if not state.settings.serves:
        raise Paused("voting in this arena is paused or has ended: no new matchups; the board stays")
    unseen = [one for one in opened if one.unseen]
    rater = state.raters.of(voter.source, voter.session)
    if rater is not None:
        choice = rater.next_choice(state.responses, opened)
    else:
        choice = choose(
            state.standings[voter.source],
            draw.rng,
            session=voter.session,
            told=withheld_cells(state, voter, opened),
            waiting=[(one.a, one.b, one.prompt) for one in unseen],
            judgeable=draw.mask(state),
            resting=[model for model in draw.resting if model < state.n_models],
        )
    if ahead:
        make_room_for_unseen(state, batch, unseen)
    one = _staged(state, batch, voter, choice, draw, ahead=ahead)
    state.next_serial[voter.source] += 1
    state.hold(one)
    if not ahead:
        state.count_shown(one)
    state.position = batch.serve(
        one,
        reason=choice.reason,
        propensity=choice.propensity,
        given_up=sum(_GIVEN_UP_FLAGS[rule] for rule in choice.given_up),
        detail=draw.detail(voter),
    )
    return one


def _staged(
    state: ArenaState, batch: LogBatch, voter: Voter, choice: Choice, draw: Draw, *, ahead: bool
) -> OpenMatchup:
    cells, settings = state.responses[:, choice.prompt], state.settings
    seconds = min(settings.unseen_seconds, settings.expiry_seconds) if ahead else settings.expiry_seconds
    return OpenMatchup(
        matchup=new_matchup_id(state.shard, batch.arena),
        source=voter.source,
        serial=state.next_serial[voter.source],
        session=voter.session,
        a=choice.left,
        b=choice.right,
        prompt=choice.prompt,
        response_a=int(cells[choice.left]),
        response_b=int(cells[choice.right]),
        nominal=int(choice.nominal),
        lane=int(choice.lane),
        served_at=batch.now,
        expires_at=batch.now + timedelta(seconds=seconds),
        unseen=ahead,
        free_prompt=draw.free_prompt,
        shown_at=None if ahead else batch.now,
    )


def show(
    state: ArenaState, batch: LogBatch, voter: Voter, matchup: UUID, arena: str
) -> OfferedMatchup | NotInMemory:
    """Record that a prefetched matchup is shown: it is an exposure from now on. One that was shown stays as it is.

    If the voter has too many other matchups on show, the oldest of them expires.
    """
    one = _mine(state, batch, voter, matchup)
    if one is None:
        return NOT_IN_MEMORY
    if one.unseen:
        make_room_for_shown(state, batch, voter)
        opened = state.open_matchups_of(voter.source, voter.session, batch.now)
        shown = [other for other in opened if not other.unseen]
        for other in shown[: max(len(shown) - OPEN_MATCHUPS_PER_VOTER_LIMIT + 1, 0)]:
            end_unanswered(state, batch, other)
        one = _show(state, batch, one)
    return to_offered_matchup(one, arena)


def _show(state: ArenaState, batch: LogBatch, one: OpenMatchup) -> OpenMatchup:
    """Record that a matchup is shown, if it was not; return it as it is then."""
    if not one.unseen:
        return one
    expires_at = batch.now + timedelta(seconds=state.settings.expiry_seconds)
    position = batch.show(one, expires_at)
    state.fold(replace(_row(batch, position, LogKind.SHOWN, one), expires_at=expires_at))
    return state.open[one.matchup]


def vote(
    state: ArenaState,
    batch: LogBatch,
    voter: Voter,
    cast: SentVote,
    at: datetime,
) -> EndedMatchup | NotInMemory:
    """Vote on an open matchup; ``at`` is when the vote arrived.

    The vote is blind if the voter knows neither name now; what counts is the time of the vote, not of serving. Who
    says to have recognized a model, or was told by an answer who wrote it, knows a name.
    The last vote of a session reveals the names of all its votes. Who votes on a prefetched matchup has seen it.
    """
    kind, ballot, names = cast.kind, cast.ballot, cast.reveal
    if not state.settings.accepts_votes:
        raise Closed("voting in this arena has ended; the board stays")
    one = _mine(state, batch, voter, cast.matchup)
    if one is None:
        return NOT_IN_MEMORY
    if one.ballot != ballot:
        raise wrong_ballot_error(ballot, one.ballot)
    _check_panel(state, voter)
    if names:
        check_reveal_allowed(state, voter)
    # Live answers could be read long after their matchup was served.
    looked = replace(one, shown_at=None) if state.settings.is_live else one
    mark = NO_MARK if cast.sent is None else look_mark(looked, cast.sent, at, cast.detail)
    one = _show(state, batch, one)
    knowledge = state.revealed.of(voter.session)
    recognized = cast.named or (cast.detail is not None and cast.detail.get("recognized", False))
    blind = knowledge.is_blind(one) and not recognized
    if mark == NO_MARK and blind and _must_wait(state, voter, knowledge):
        mark = VoteMark.WAITING
    position = batch.vote(one, int(kind), blind=blind, mark=mark, detail=cast.detail)
    row = _row(batch, position, LogKind.VOTE, one)
    state.fold(replace(row, outcome=int(kind), blind=blind, mark=mark))
    if names:
        reveal_names(state, batch, voter, [PendingNames.of(one)])
    names |= end_full_session(state, batch, voter)
    return EndedMatchup(
        matchup=cast.matchup,
        kind=LogKind.VOTE,
        outcome=kind,
        position=position,
        at=batch.now,
        undo_until=None if names else undo_deadline(state, batch.now),
        revealed=names,
        ballot=ballot,
        blind=blind,
        unrated=unrated_reason(blind=blind, mark=mark),
    )


def _must_wait(state: ArenaState, voter: Voter, knowledge: VoterKnowledge) -> bool:
    """Whether a person's votes wait, because the person is new and nobody vouches for them. Raters of a panel were asked to vote."""
    return (
        state.new_voters_wait
        and voter.source == HUMAN
        and not voter.trusted
        and not knowledge.is_known
        and state.raters.of(voter.source, voter.session) is None
    )


def skip(
    state: ArenaState, batch: LogBatch, voter: Voter, matchup: UUID, detail: SkipDetail | None = None
) -> EndedMatchup | NotInMemory:
    """Skip an open matchup; ``detail`` says why."""
    one = _mine(state, batch, voter, matchup)
    if one is None:
        return NOT_IN_MEMORY
    one = _show(state, batch, one)
    position = batch.end(
        LogKind.SKIP, one.source, one.serial, session=one.session, ballot=one.ballot, detail=detail
    )
    state.fold(_row(batch, position, LogKind.SKIP, one))
    return EndedMatchup(matchup, LogKind.SKIP, None, position, batch.now, ballot=one.ballot)


def undo(
    state: ArenaState, batch: LogBatch, voter: Voter, matchup: UUID, *, ballot: int = 0
) -> EndedMatchup | NotInMemory:
    """Undo the vote on a ballot and open the next ballot. Raises if the vote is final: revealed, too old or rated."""
    fresh = state.voted.get(matchup)
    if fresh is None or _stranger(fresh.opened, voter):
        return NOT_IN_MEMORY
    one = fresh.opened
    if one.ballot != ballot:
        raise wrong_ballot_error(ballot, one.ballot)
    _check_panel(state, voter)
    if fresh.revealed:
        raise Closed("this vote is final: its names have been revealed")
    until = undo_deadline(state, fresh.at)
    if until is None or batch.now >= until or fresh.position <= batch.horizon:
        raise Closed("this vote is final: the time to undo it has passed")
    _release(state, batch, fresh)
    position = _reopen(state, batch, fresh)
    return EndedMatchup(matchup, LogKind.UNDO, Kind(fresh.kind), position, batch.now, ballot=ballot + 1)


def reveal(state: ArenaState, batch: LogBatch, voter: Voter, found: MatchupRecord) -> None:
    """Reveal the names of a vote that was not undone."""
    check_reveal_allowed(state, voter)
    reveal_names(state, batch, voter, [PendingNames.of(found)])


def finish(state: ArenaState, batch: LogBatch, voter: Voter) -> int:
    """End a session and return the number of votes whose names are revealed.

    Open matchups with a response whose name is known by then expire.
    """
    revealed = finish_session(state, batch, voter)
    names = state.revealed.of(voter.session)
    for one in state.open_matchups_of(voter.source, voter.session, batch.now):
        if not names.is_blind(one):
            end_unanswered(state, batch, one)
    return revealed


def expire_due(state: ArenaState, batch: LogBatch) -> None:
    """Expire the matchups whose time has passed."""
    for one in state.due(batch.now):
        end_unanswered(state, batch, one)


def to_offered_matchup(one: OpenMatchup, arena: str, *, new: bool = False) -> OfferedMatchup:
    """Convert an open matchup for its voter."""
    return OfferedMatchup(
        matchup=one.matchup,
        arena=arena,
        prompt=one.prompt,
        response_a=one.response_a,
        response_b=one.response_b,
        served_at=one.served_at,
        expires_at=one.expires_at,
        ballot=one.ballot,
        new=new,
    )


def matchup_expired_error() -> Expired:
    return Expired("this matchup has expired; request another one")


def wrong_ballot_error(ballot: int, now: int) -> Closed:
    """The error for a vote or undo with the wrong ballot number: it was sent before another undo."""
    return Closed(f"ballot {ballot} of this matchup is closed; the current one is ballot {now}")


def undo_deadline(state: ArenaState, at: datetime) -> datetime | None:
    """Until when a vote cast ``at`` this time can be undone; ``None`` if votes cannot be undone."""
    seconds = state.settings.undo_seconds
    return at + timedelta(seconds=seconds) if seconds else None


def _mine(state: ArenaState, batch: LogBatch, voter: Voter, matchup: UUID) -> OpenMatchup | None:
    """The voter's open matchup, or ``None``. Expires it and raises if its time has passed."""
    one = state.open.get(matchup)
    if one is None or _stranger(one, voter):
        return None
    if one.expires_at <= batch.now:
        end_unanswered(state, batch, one)
        raise matchup_expired_error()
    return one


def _reopen(state: ArenaState, batch: LogBatch, fresh: UndoableVote) -> int:
    """Append the undo, reopen the matchup and return the undo's position.

    If one of its responses was withdrawn meanwhile, the matchup expires at once.
    """
    one = fresh.opened
    least = timedelta(seconds=min(REOPENED_SECONDS, state.settings.expiry_seconds))
    expires_at = max(one.expires_at, batch.now + least)
    ballot = one.ballot + 1
    position = batch.undo(
        one.source, one.serial, one.session, vote=fresh.position, ballot=ballot, expires_at=expires_at
    )
    detail: UndoDetail = {
        "vote": fresh.position,
        "ballot": ballot,
        "expires_at": expires_at.isoformat(),
    }
    state.fold(replace(_row(batch, position, LogKind.UNDO, one), detail=detail))
    cells = state.responses[[one.a, one.b], one.prompt]
    if cells.tolist() != [one.response_a, one.response_b]:
        end_unanswered(state, batch, state.open[one.matchup])
    return position


def _release(state: ArenaState, batch: LogBatch, fresh: UndoableVote) -> None:
    """End matchups that wait to be shown, and those above the limit once the vote's is reopened."""
    one = fresh.opened
    others = state.open_matchups_of(one.source, one.session, batch.now)
    unseen = [other for other in others if other.unseen]
    shown = [other for other in others if not other.unseen]
    for other in (*unseen, *shown[OPEN_MATCHUPS_PER_VOTER_LIMIT - 1 :]):
        end_unanswered(state, batch, other)


def _check_panel(state: ArenaState, voter: Voter) -> None:
    """Raise `Closed` for a rater whose panel is closed: its figures are final."""
    rater = state.raters.of(voter.source, voter.session)
    if rater is not None and not rater.is_open:
        raise Closed("this panel is closed; its votes are final")


def _stranger(one: OpenMatchup, voter: Voter) -> bool:
    return (one.source, one.session) != (voter.source, voter.session)


def _row(batch: LogBatch, position: int, kind: LogKind, one: OpenMatchup) -> LogRow:
    return LogRow(position, batch.now, int(kind), one.source, one.serial)


#: Open matchups that one voter is shown at a time; with one more, the oldest expires.
OPEN_MATCHUPS_PER_VOTER_LIMIT = 2
#: Prefetched matchups that wait to be shown to one voter; with one more, the oldest is released.
UNSEEN_MATCHUPS_PER_VOTER_LIMIT = 2
#: Open matchups in an arena that were shown. With one more, a person's oldest expires early, if it was shown long enough ago.
OPEN_MATCHUP_LIMIT = 200_000
#: A shown matchup never expires early within this time. If none is older, people get no new one.
CROWDED_SECONDS = 600.0
#: Prefetched matchups in an arena that wait to be shown; with one more, the oldest is released.
UNSEEN_MATCHUP_LIMIT = 100_000


def end_unanswered(state: ArenaState, batch: LogBatch, one: OpenMatchup) -> None:
    """End an open matchup without an answer. One that was not shown is released, and was no exposure."""
    kind = LogKind.RELEASED if one.unseen else LogKind.EXPIRE
    position = batch.end(kind, one.source, one.serial, session=one.session, ballot=one.ballot)
    state.fold(LogRow(position, batch.now, int(kind), one.source, one.serial))


def make_room_for_shown(state: ArenaState, batch: LogBatch, voter: Voter) -> None:
    """Expire the oldest matchups of an arena that has too many, so that another can be shown; raise if they are too new."""
    while voter.source == HUMAN and state.shown_count >= OPEN_MATCHUP_LIMIT:
        oldest = state.oldest_shown(HUMAN)
        left = 0.0 if oldest is None else (oldest.expires_at - batch.now).total_seconds()
        if oldest is None or state.settings.expiry_seconds - left < CROWDED_SECONDS:
            raise Busy("this arena has too many open matchups; try again later", retry_after=30)
        end_unanswered(state, batch, oldest)


def make_room_for_unseen(state: ArenaState, batch: LogBatch, unseen: Sequence[OpenMatchup]) -> None:
    """Release the oldest of a voter's matchups that wait to be shown, and of the arena's, so that one can be added."""
    for one in unseen[: max(len(unseen) - UNSEEN_MATCHUPS_PER_VOTER_LIMIT + 1, 0)]:
        end_unanswered(state, batch, one)
    while len(state.unseen) >= UNSEEN_MATCHUP_LIMIT:
        end_unanswered(state, batch, state.oldest_unseen())
