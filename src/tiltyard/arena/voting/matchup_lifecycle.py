"""What becomes of each ask: functions of the arena in memory and the batch that is being written.

They run under the arena's lock, with every event before them folded. `NOT_IN_MEMORY` says that the arena in
memory does not hold the matchup: the tables must be asked.
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
from tiltyard.arena.voting.session_end import (
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

#: Open matchups that a voter may have.
OPEN_MATCHUPS_PER_VOTER_LIMIT = 2
#: Open matchups of an arena from which on people get no new one: each takes memory in every process.
OPEN_MATCHUP_LIMIT = 200_000
#: How long a reopened matchup waits at least, or as long as any does where an arena's matchups wait for less.
REOPENED_SECONDS = 300.0
_GIVEN_UP_FLAGS = {"exposure": 1, "session": 2, "blind": 4}
#: What a matchup has in memory and in its row alike.
_SHARED = tuple(one.name for one in fields(OpenMatchup) if one.name not in {"served_at", "ballot"})


class _Lookup(enum.Enum):
    LOOK = enum.auto()


NOT_IN_MEMORY: Final = _Lookup.LOOK
NotInMemory = Literal[_Lookup.LOOK]


def offer(
    live: ArenaState, batch: LogBatch, voter: Voter, arena: str, rng: np.random.Generator, *, ahead: bool
) -> OfferedMatchup:
    """The matchup that the voter has before it, or a new one; ahead, a second one."""
    opened = live.open_matchups_of(voter.source, voter.session, batch.now)
    if opened and (not ahead or len(opened) >= OPEN_MATCHUPS_PER_VOTER_LIMIT):
        one = opened[-1] if ahead else opened[0]
        _mark_shown(live, one, ahead=ahead)
        return to_offered_matchup(one, arena)
    if voter.source == HUMAN and len(live.open) >= OPEN_MATCHUP_LIMIT:
        raise Busy("this arena waits for as many votes as it can; ask again in a while", retry_after=30)
    standing = live.standings[voter.source]
    told = withheld_cells(live, voter, opened)
    choice = choose(standing, rng, session=voter.session, told=told)
    one = _staged(live, batch, voter, choice)
    standing.serve(one.a, one.b, one.prompt, lane=choice.lane, nominal=choice.nominal, session=voter.session)
    live.hold(one)
    _mark_shown(live, one, ahead=ahead)
    live.position = batch.serve(
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


def _staged(live: ArenaState, batch: LogBatch, voter: Voter, choice: Choice) -> OpenMatchup:
    """The chosen matchup with the responses that it shows."""
    cells = live.responses[:, choice.prompt]
    return OpenMatchup(
        matchup=new_matchup_id(batch.arena),
        source=voter.source,
        serial=live.standings[voter.source].window.served,
        session=voter.session,
        a=choice.left,
        b=choice.right,
        prompt=choice.prompt,
        response_a=int(cells[choice.left]),
        response_b=int(cells[choice.right]),
        served_at=batch.now,
        expires_at=batch.now + timedelta(seconds=live.settings.expiry_seconds),
    )


def vote(
    live: ArenaState,
    batch: LogBatch,
    voter: Voter,
    cast: SentVote,
) -> EndedMatchup | NotInMemory:
    """Settle an open matchup.

    The vote is blind if the voter has been told neither name by now: the matchup may have been served before.
    If it is the last of a session, the names of all its votes are told.
    """
    kind, ballot, names = cast.kind, cast.ballot, cast.reveal
    one = _mine(live, batch, voter, cast.matchup)
    if one is None:
        return NOT_IN_MEMORY
    if one.ballot != ballot:
        raise wrong_ballot_error(ballot, one.ballot)
    if names:
        check_reveal_allowed(live.settings, voter)
    blind = live.told.of(voter.session).is_blind(one)
    position = batch.vote(one, int(kind), blind=blind, detail=cast.detail)
    row = _row(batch, position, LogKind.VOTE, one)
    live.fold(replace(row, outcome=int(kind), blind=blind))
    if names:
        reveal_names(live, batch, voter, [PendingNames.of(one)])
    names |= end_full_session(live, batch, voter)
    return EndedMatchup(
        matchup=format_matchup_id(cast.matchup),
        kind=LogKind.VOTE,
        outcome=kind,
        position=position,
        at=batch.now,
        undo_until=None if names else undo_deadline(live, batch.now),
        revealed=names,
        ballot=ballot,
        blind=blind,
    )


def skip(live: ArenaState, batch: LogBatch, voter: Voter, matchup: UUID) -> EndedMatchup | NotInMemory:
    """Pass an open matchup over."""
    one = _mine(live, batch, voter, matchup)
    if one is None:
        return NOT_IN_MEMORY
    position = batch.end(LogKind.SKIP, one.source, one.serial, session=one.session, ballot=one.ballot)
    live.fold(_row(batch, position, LogKind.SKIP, one))
    return EndedMatchup(
        format_matchup_id(matchup), LogKind.SKIP, None, position, batch.now, ballot=one.ballot
    )


def undo(
    live: ArenaState, batch: LogBatch, voter: Voter, matchup: UUID, *, ballot: int = 0
) -> EndedMatchup | NotInMemory:
    """Undo the vote on a ballot, if it is fresh: neither shown, nor old, nor rated. The next ballot is open then."""
    fresh = live.voted.get(matchup)
    if fresh is None or _stranger(fresh.opened, voter):
        return NOT_IN_MEMORY
    one = fresh.opened
    if one.ballot != ballot:
        raise wrong_ballot_error(ballot, one.ballot)
    if fresh.revealed:
        raise Closed("this vote is final: the names were shown")
    until = undo_deadline(live, fresh.at)
    if until is None or batch.now >= until or fresh.position <= batch.horizon:
        raise Closed("this vote is final: the time to take it back has passed")
    _release(live, batch, fresh)
    position = _reopen(live, batch, fresh)
    return EndedMatchup(
        format_matchup_id(matchup), LogKind.UNDO, Kind(fresh.kind), position, batch.now, ballot=ballot + 1
    )


def reveal(live: ArenaState, batch: LogBatch, voter: Voter, found: MatchupRecord) -> None:
    """The names of a vote that stands are shown."""
    check_reveal_allowed(live.settings, voter)
    reveal_names(live, batch, voter, [PendingNames.of(found)])


def finish(live: ArenaState, batch: LogBatch, voter: Voter) -> int:
    """End a session: how many votes' names are told. Open matchups with a response that was named end with it."""
    told = finish_session(live, batch, voter)
    names = live.told.of(voter.session)
    for one in live.open_matchups_of(voter.source, voter.session, batch.now):
        if not names.is_blind(one):
            _expire(live, batch, one)
    return told


def expire_due(live: ArenaState, batch: LogBatch) -> None:
    """End what nobody answered in time."""
    for one in live.due(batch.now):
        _expire(live, batch, one)


def to_offered_matchup(one: OpenMatchup, arena: str, *, new: bool = False) -> OfferedMatchup:
    """An open matchup as it is handed on."""
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
    """What is told of a matchup whose time has passed."""
    return Expired("this matchup was not answered in time; ask for another one")


def wrong_ballot_error(ballot: int, now: int) -> Closed:
    """What is told of a vote or an undo that was sent before an undo, or names no ballot after one."""
    return Closed(
        f"ballot {ballot} of this matchup is not open: its vote was undone; ballot {now} is the one that counts now"
    )


def undo_deadline(live: ArenaState, at: datetime) -> datetime | None:
    """Until when a vote of this moment can be taken back."""
    seconds = live.settings.undo_seconds
    return at + timedelta(seconds=seconds) if seconds else None


def _mine(live: ArenaState, batch: LogBatch, voter: Voter, matchup: UUID) -> OpenMatchup | None:
    """The voter's open matchup; one that has run out is ended."""
    one = live.open.get(matchup)
    if one is None or _stranger(one, voter):
        return None
    if one.expires_at <= batch.now:
        _expire(live, batch, one)
        raise matchup_expired_error()
    return one


def _expire(live: ArenaState, batch: LogBatch, one: OpenMatchup) -> None:
    position = batch.end(LogKind.EXPIRE, one.source, one.serial, session=one.session, ballot=one.ballot)
    live.fold(_row(batch, position, LogKind.EXPIRE, one))


def _reopen(live: ArenaState, batch: LogBatch, fresh: UndoableVote) -> int:
    """Append the undo and return its position. The matchup is open again; if a response in it was withdrawn
    meanwhile, it ends at once.
    """
    one = fresh.opened
    least = timedelta(seconds=min(REOPENED_SECONDS, live.settings.expiry_seconds))
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
    live.fold(replace(_row(batch, position, LogKind.UNDO, one), detail=detail))
    live.mark_shown(one.matchup)
    cells = live.responses[[one.a, one.b], one.prompt]
    if cells.tolist() != [one.response_a, one.response_b]:
        _expire(live, batch, live.open[one.matchup])
    return position


def _release(live: ArenaState, batch: LogBatch, fresh: UndoableVote) -> None:
    """End what the voter was served ahead and has not seen, and what would be one too many with the reopened one.

    What was served after the vote counts as seen, and so does what this process knows to be shown.
    """
    one = fresh.opened
    others = live.open_matchups_of(one.source, one.session, batch.now)
    unseen = [other for other in others if other.served_at <= fresh.at and other.matchup not in live.shown]
    seen = [other for other in others if other not in unseen]
    for other in (*unseen, *seen[OPEN_MATCHUPS_PER_VOTER_LIMIT - 1 :]):
        _expire(live, batch, other)


def _mark_shown(live: ArenaState, one: OpenMatchup, *, ahead: bool) -> None:
    if not ahead:
        live.mark_shown(one.matchup)


def _stranger(one: OpenMatchup, voter: Voter) -> bool:
    return (one.source, one.session) != (voter.source, voter.session)


def _row(batch: LogBatch, position: int, kind: LogKind, one: OpenMatchup) -> LogRow:
    return LogRow(position, batch.now, int(kind), one.source, one.serial)
