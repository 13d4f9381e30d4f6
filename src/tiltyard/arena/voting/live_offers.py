"""Live battles in the voting queue: a matchup for a prompt that its voter wrote, when it may be voted on, how it fails.

Like those of `matchup_lifecycle`, the functions run under the arena's lock. Who answers what, and what it costs, is in
`tiltyard.arena.live`.
"""

from __future__ import annotations

from uuid import UUID

from tiltyard.arena.log.buckets import fetch_row
from tiltyard.arena.log.event_details import VoidDetail
from tiltyard.arena.log.event_log import LogBatch, LogKind, LogRow
from tiltyard.arena.voting.arena_state import ArenaState
from tiltyard.arena.voting.matchup_lifecycle import Draw, make_room_for_shown, serve_new, to_offered_matchup
from tiltyard.arena.voting.sent_responses import SentResponse
from tiltyard.arena.voting.voter_requests import OfferedMatchup, SentVote, Voter
from tiltyard.core.policy.state.events import NO_FREE_PROMPT
from tiltyard.errors import BadOption, Closed, Conflict, OpenBattle


def offer_live(state: ArenaState, batch: LogBatch, voter: Voter, arena: str, draw: Draw) -> OfferedMatchup:
    """A new matchup for a prompt of the voter, who must have answered the one before: `OpenBattle` otherwise."""
    if not state.settings.is_live:
        raise Conflict("this arena compares stored responses; voters cannot write prompts in it")
    mask = draw.mask(state)
    if mask is None or not mask.any() or draw.free_prompt == NO_FREE_PROMPT:
        raise BadOption("a live battle needs one of the arena's categories and the number of its prompt")
    opened = state.open_matchups_of(voter.source, voter.session, batch.now)
    if opened:
        raise OpenBattle(
            "you have a battle without a vote: vote on it or skip it, then send the next prompt",
            matchup=str(opened[0].matchup),
        )
    make_room_for_shown(state, batch, voter)
    return to_offered_matchup(serve_new(state, batch, voter, opened, draw, ahead=False), arena, new=True)


def end_void(state: ArenaState, batch: LogBatch, matchup: UUID, reason: str) -> bool:
    """Expire a battle in which an answer failed; return whether it was open."""
    one = state.open.get(matchup)
    if one is None:
        return False
    detail: VoidDetail = {"void": reason}
    position = batch.end(
        LogKind.EXPIRE, one.source, one.serial, session=one.session, ballot=one.ballot, detail=detail
    )
    state.fold(LogRow(position, batch.now, int(LogKind.EXPIRE), one.source, one.serial))
    return True


async def read_live_vote(batch: LogBatch, cast: SentVote, *, checks_shown: bool) -> SentVote:
    """The vote with what is known of its battle. Nothing can change that before the batch ends.

    Raises `Closed` unless both answers are complete.
    """
    values = {"arena": batch.arena, "matchup": cast.matchup}
    row = await fetch_row(batch.connection, "live_votable", values)
    if row is None or not row[0]:
        if row is not None and row[1]:
            raise Closed("this battle is void: an answer failed; begin a new one")
        raise Closed("both answers must be complete before the vote; wait for them, or stop them")
    _, _, named, shown_at, *characters = row
    a, b = (SentResponse(shown_at, number or 0) for number in characters)
    return cast._replace(named=named, sent=(a, b) if checks_shown else None)
