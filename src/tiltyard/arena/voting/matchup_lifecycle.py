"""Decides the requests of voters, given the arena's state and the batch that is being written.

The functions run under the arena's lock, when all earlier events are folded. `NOT_IN_MEMORY` means that the
state does not have the matchup, and the caller must read it from the tables.
"""

from __future__ import annotations

import enum
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import Final, Literal
from uuid import UUID

import numpy as np

from tiltyard.arena.log.event_details import UndoDetail
from tiltyard.arena.log.event_log import (
    HUMAN,
    LogBatch,
    LogKind,
    LogRow,
    MatchupRecord,
    OpenMatchup,
    PendingNames,
    ServedMatchup,
)
from tiltyard.arena.voting.arena_state import ArenaState, UndoableVote
from tiltyard.arena.voting.matchup_ids import format_matchup_id, new_matchup_id
from tiltyard.arena.voting.name_reveal import (
    check_reveal_allowed,
    end_full_session,
    finish_session,
    reveal_names,
    withheld_cells,
)
from tiltyard.arena.voting.voter_requests import EndedMatchup, OfferedMatchup, SentVote, Voter
from tiltyard.core.battles import Kind
from tiltyard.core.policy.matchmaking.choice import Choice
from tiltyard.core.policy.matchmaking.matchmaker import choose
from tiltyard.errors import Busy, Closed, Expired

__all__ = [
    "NOT_IN_MEMORY",
    "OPEN_MATCHUPS_PER_VOTER_LIMIT",
    "OPEN_MATCHUP_LIMIT",
    "REOPENED_SECONDS",
    "NotInMemory",
    "expire_due",
    "finish",
    "matchup_expired_error",
    "offer",
    "reveal",
    "skip",
    "to_offered_matchup",
    "undo",
    "undo_deadline",
    "vote",
    "wrong_ballot_error",
]

#: Open matchups that one voter may have.
OPEN_MATCHUPS_PER_VOTER_LIMIT = 2
#: Open matchups in an arena above which people get no new one: each takes memory in every process.
OPEN_MATCHUP_LIMIT = 200_000
#: A reopened matchup stays open at least this long, or for the arena's ``expiry_seconds`` if that is shorter.
REOPENED_SECONDS = 300.0
_GIVEN_UP_FLAGS = {"exposure": 1, "session": 2, "blind": 4}
#: Fields that `OpenMatchup` and `ServedMatchup` have in common.
_SHARED = tuple(one.name for one in fields(OpenMatchup) if one.name not in {"served_at", "ballot"})


class _Lookup(enum.Enum):
    LOOK = enum.auto()


NOT_IN_MEMORY: Final = _Lookup.LOOK
NotInMemory = Literal[_Lookup.LOOK]


def offer(
    state: ArenaState, batch: LogBatch, voter: Voter, arena: str, rng: np.random.Generator, *, ahead: bool
) -> OfferedMatchup:
    """The voter's open matchup, or a new one; with ``ahead``, a second one."""
    opened = state.open_matchups_of(voter.source, voter.session, batch.now)
    if opened and (not ahead or len(opened) >= OPEN_MATCHUPS_PER_VOTER_LIMIT):
        one = opened[-1] if ahead else opened[0]
        _mark_shown(state, one, ahead=ahead)
        return to_offered_matchup(one, arena)
    if voter.source == HUMAN and len(state.open) >= OPEN_MATCHUP_LIMIT:
        raise Busy("this arena has too many open matchups; try again later", retry_after=30)
    standing = state.standings[voter.source]
    withheld = withheld_cells(state, voter, opened)
    choice = choose(standing, rng, session=voter.session, told=withheld)
    one = _staged(state, batch, voter, choice)
    standing.serve(one.a, one.b, one.prompt, lane=choice.lane, nominal=choice.nominal, session=voter.session)
    state.hold(one)
    _mark_shown(state, one, ahead=ahead)
    state.position = batch.serve(
        ServedMatchup(
            **{name: getattr(one, name) for name in _SHARED},
            nominal=int(choice.nominal),
            lane=int(choice.lane),
            reason=choice.reason,
            propensity=choice.propensity,
            given_up=sum(_GIVEN_UP_FLAGS[rule] for rule in choice.given_up),
        )
    )
    return to_offered_matchup(one, arena, new=True)


def _staged(state: ArenaState, batch: LogBatch, voter: Voter, choice: Choice) -> OpenMatchup:
    """A new open matchup with the responses of the chosen models."""
    cells = state.responses[:, choice.prompt]
    return OpenMatchup(
        matchup=new_matchup_id(batch.arena),
        source=voter.source,
        serial=state.standings[voter.source].window.served,
        session=voter.session,
        a=choice.left,
        b=choice.right,
        prompt=choice.prompt,
        response_a=int(cells[choice.left]),
        response_b=int(cells[choice.right]),
        served_at=batch.now,
        expires_at=batch.now + timedelta(seconds=state.settings.expiry_seconds),
    )


def vote(
    state: ArenaState,
    batch: LogBatch,
    voter: Voter,
    cast: SentVote,
) -> EndedMatchup | NotInMemory:
    """Vote on an open matchup.

    The vote is blind if the voter knows neither name now; what counts is the time of the vote, not of serving.
    The last vote of a session reveals the names of all its votes.
    """
    kind, ballot, names = cast.kind, cast.ballot, cast.reveal
    one = _mine(state, batch, voter, cast.matchup)
    if one is None:
        return NOT_IN_MEMORY
    if one.ballot != ballot:
        raise wrong_ballot_error(ballot, one.ballot)
    if names:
        check_reveal_allowed(state.settings, voter)
    blind = state.revealed.of(voter.session).is_blind(one)
    position = batch.vote(one, int(kind), blind=blind, detail=cast.detail)
    row = _row(batch, position, LogKind.VOTE, one)
    state.fold(replace(row, outcome=int(kind), blind=blind))
    if names:
        reveal_names(state, batch, voter, [PendingNames.of(one)])
    names |= end_full_session(state, batch, voter)
    return EndedMatchup(
        matchup=format_matchup_id(cast.matchup),
        kind=LogKind.VOTE,
        outcome=kind,
        position=position,
        at=batch.now,
        undo_until=None if names else undo_deadline(state, batch.now),
        revealed=names,
        ballot=ballot,
        blind=blind,
    )


def skip(state: ArenaState, batch: LogBatch, voter: Voter, matchup: UUID) -> EndedMatchup | NotInMemory:
    """Skip an open matchup."""
    one = _mine(state, batch, voter, matchup)
    if one is None:
        return NOT_IN_MEMORY
    position = batch.end(LogKind.SKIP, one.source, one.serial, session=one.session, ballot=one.ballot)
    state.fold(_row(batch, position, LogKind.SKIP, one))
    return EndedMatchup(
        format_matchup_id(matchup), LogKind.SKIP, None, position, batch.now, ballot=one.ballot
    )


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
    if fresh.revealed:
        raise Closed("this vote is final: its names have been revealed")
    until = undo_deadline(state, fresh.at)
    if until is None or batch.now >= until or fresh.position <= batch.horizon:
        raise Closed("this vote is final: the time to undo it has passed")
    _release(state, batch, fresh)
    position = _reopen(state, batch, fresh)
    return EndedMatchup(
        format_matchup_id(matchup), LogKind.UNDO, Kind(fresh.kind), position, batch.now, ballot=ballot + 1
    )


def reveal(state: ArenaState, batch: LogBatch, voter: Voter, found: MatchupRecord) -> None:
    """Reveal the names of a vote that was not undone."""
    check_reveal_allowed(state.settings, voter)
    reveal_names(state, batch, voter, [PendingNames.of(found)])


def finish(state: ArenaState, batch: LogBatch, voter: Voter) -> int:
    """End a session and return the number of votes whose names are revealed.

    Open matchups with a response whose name is known by then expire.
    """
    revealed = finish_session(state, batch, voter)
    names = state.revealed.of(voter.session)
    for one in state.open_matchups_of(voter.source, voter.session, batch.now):
        if not names.is_blind(one):
            _expire(state, batch, one)
    return revealed


def expire_due(state: ArenaState, batch: LogBatch) -> None:
    """Expire the matchups whose time has passed."""
    for one in state.due(batch.now):
        _expire(state, batch, one)


def to_offered_matchup(one: OpenMatchup, arena: str, *, new: bool = False) -> OfferedMatchup:
    """Convert an open matchup for its voter."""
    return OfferedMatchup(
        matchup=format_matchup_id(one.matchup),
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
    """The error for a matchup that has expired."""
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
        _expire(state, batch, one)
        raise matchup_expired_error()
    return one


def _expire(state: ArenaState, batch: LogBatch, one: OpenMatchup) -> None:
    position = batch.end(LogKind.EXPIRE, one.source, one.serial, session=one.session, ballot=one.ballot)
    state.fold(_row(batch, position, LogKind.EXPIRE, one))


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
    state.mark_shown(one.matchup)
    cells = state.responses[[one.a, one.b], one.prompt]
    if cells.tolist() != [one.response_a, one.response_b]:
        _expire(state, batch, state.open[one.matchup])
    return position


def _release(state: ArenaState, batch: LogBatch, fresh: UndoableVote) -> None:
    """Expire matchups that were served ahead and not seen, and those above the limit once the vote's is reopened.

    A matchup counts as seen if it was served after the vote, or if this process knows that it was shown.
    """
    one = fresh.opened
    others = state.open_matchups_of(one.source, one.session, batch.now)
    unseen = [other for other in others if other.served_at <= fresh.at and other.matchup not in state.shown]
    seen = [other for other in others if other not in unseen]
    for other in (*unseen, *seen[OPEN_MATCHUPS_PER_VOTER_LIMIT - 1 :]):
        _expire(state, batch, other)


def _mark_shown(state: ArenaState, one: OpenMatchup, *, ahead: bool) -> None:
    if not ahead:
        state.mark_shown(one.matchup)


def _stranger(one: OpenMatchup, voter: Voter) -> bool:
    return (one.source, one.session) != (voter.source, voter.session)


def _row(batch: LogBatch, position: int, kind: LogKind, one: OpenMatchup) -> LogRow:
    return LogRow(position, batch.now, int(kind), one.source, one.serial)
