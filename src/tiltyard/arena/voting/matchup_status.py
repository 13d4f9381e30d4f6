"""Replies about a matchup that was read from the tables: whether it is open, how it ended, which models it showed."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from tiltyard.arena.log.event_log import LogKind, MatchupRecord
from tiltyard.arena.voting.arena_state import ArenaState
from tiltyard.arena.voting.matchup_lifecycle import matchup_expired_error, undo_deadline, wrong_ballot_error
from tiltyard.arena.voting.voter_requests import (
    EndedMatchup,
    OfferedMatchup,
    RevealedMatchup,
    ReviewedMatchup,
    State,
)
from tiltyard.core.battles import Kind
from tiltyard.core.battles.outcome import DECISIVE, SPELLED
from tiltyard.core.policy.state.pair_counts import pair_key
from tiltyard.core.policy.state.policy import Lane
from tiltyard.core.policy.validity.pair_floors import floor_of, votes_to_floor
from tiltyard.core.policy.validity.rules import decisive_share
from tiltyard.errors import Closed, StoreFault

_STATES: dict[int, State] = {
    LogKind.VOTE: "voted",
    LogKind.SKIP: "skipped",
    LogKind.EXPIRE: "expired",
    LogKind.RELEASED: "expired",
}
_UNANSWERED = (LogKind.EXPIRE, LogKind.RELEASED)


def require_open_matchup(
    matchup: UUID, arena: str, found: MatchupRecord, now: datetime, *, voted: bool
) -> OfferedMatchup:
    """A matchup that is open or, with ``voted``, has a vote that was not undone; raises otherwise."""
    looked_at = voted and _stands(found)
    if found.kind in _UNANSWERED or ((found.is_open or looked_at) and found.expires_at <= now):
        raise matchup_expired_error()
    if not found.is_open and not looked_at:
        raise Closed("this matchup has ended; request another one")
    return OfferedMatchup(
        matchup=matchup,
        arena=arena,
        prompt=found.prompt,
        response_a=found.response_a,
        response_b=found.response_b,
        served_at=found.served_at,
        expires_at=found.expires_at,
        ballot=found.ballot,
    )


def review_matchup(
    matchup: UUID, arena: str, found: MatchupRecord, now: datetime, undo_seconds: float
) -> ReviewedMatchup:
    """The current state of a voter's own matchup."""
    state = _state(found, now)
    voted = state == "voted" and found.at is not None and found.outcome is not None
    until = None
    if voted and found.revealed_at is None and found.at is not None:
        until = found.at + timedelta(seconds=undo_seconds)
    left = 0.0 if until is None else max(0.0, (until - now).total_seconds())
    visible = state in {"open", "voted"} and found.expires_at > now
    return ReviewedMatchup(
        matchup=matchup,
        arena=arena,
        state=state,
        prompt=found.prompt,
        responses=(found.response_a, found.response_b) if visible else None,
        expires_at=found.expires_at,
        outcome=None if found.outcome is None or found.is_open else Kind(found.outcome),
        undo_until=until if left else None,
        left=left,
        revealed=found.revealed_at is not None,
        ballot=found.ballot,
        blind=found.blind,
        unrated=found.unrated,
    )


def repeat_ending(
    matchup: UUID,
    found: MatchupRecord,
    state: ArenaState | None,
    now: datetime,
    kind: LogKind,
    outcome: Kind | None,
    ballot: int | None = None,
) -> EndedMatchup:
    """The reply to a repeated vote or skip: the same as the first time. Raises if the matchup ended differently.

    ``ballot`` is given for a vote.
    """
    if found.kind in _UNANSWERED or (found.is_open and found.expires_at <= now):
        raise matchup_expired_error()
    if ballot is not None and ballot != found.ballot:
        raise wrong_ballot_error(ballot, found.ballot)
    if found.is_open or found.position is None or found.at is None:
        raise StoreFault("this server has not loaded this matchup yet; try again in a moment")
    if found.kind != kind or found.outcome != (None if outcome is None else int(outcome)):
        how = "was skipped" if found.kind == LogKind.SKIP else "has a different vote"
        raise Closed(f"this matchup {how}; it cannot be changed")
    revealed = found.revealed_at is not None
    until = None if state is None or revealed else undo_deadline(state, found.at)
    return EndedMatchup(
        matchup=matchup,
        kind=kind,
        outcome=outcome,
        position=found.position,
        at=found.at,
        undo_until=until if kind == LogKind.VOTE else None,
        revealed=revealed,
        ballot=found.ballot,
        blind=found.blind,
        unrated=found.unrated,
    )


def repeat_undo(matchup: UUID, found: MatchupRecord, ballot: int) -> EndedMatchup:
    """The reply to a repeated undo: the same as the first time. Raises if the vote on this ballot cannot be undone."""
    if found.ballot == ballot + 1 and found.undone is not None:
        assert found.outcome is not None
        assert found.at is not None
        return EndedMatchup(
            matchup, LogKind.UNDO, Kind(found.outcome), found.undone, found.at, ballot=found.ballot
        )
    if found.ballot != ballot:
        raise wrong_ballot_error(ballot, found.ballot)
    if not _stands(found):
        raise Closed("this matchup has no vote that could be undone")
    raise Closed("this vote is final: the time to undo it has passed, or its names have been revealed")


def reveal_matchup(matchup: UUID, found: MatchupRecord, state: ArenaState | None) -> RevealedMatchup:
    """The names of both models, and why they were matched."""
    if state is None or found.outcome is None or found.position is None:
        raise StoreFault("the arena is being loaded; try again in a moment")
    standing = state.standings[found.source]
    decisive, floor = pair_progress(state, found.source, found.a, found.b)
    return RevealedMatchup(
        matchup=matchup,
        model_a=standing.models[found.a],
        model_b=standing.models[found.b],
        prompt=standing.prompts[found.prompt],
        outcome=Kind(found.outcome),
        lane=Lane(found.lane).name.lower(),
        reason=found.reason,
        position=found.position,
        decisive=decisive,
        floor=floor,
        missing=votes_missing(state, found.source, found.a, found.b),
        blind=found.blind,
        unrated=found.unrated,
    )


def pair_progress(state: ArenaState, source: int, one: int, other: int) -> tuple[int, int]:
    """Final decisive votes between two models, and how many they need."""
    standing = state.standings[source]
    counted = int(standing.meetings.decisive[one, other])
    return counted + _shown_fresh(state, source).get(pair_key(one, other), 0), standing.policy.adjacent_votes


def votes_missing(state: ArenaState, source: int, one: int, other: int) -> int | None:
    """About how many more votes the policy wants between two models; ``None`` if it no longer seeks them out."""
    standing = state.standings[source]
    floor, fresh = floor_of(standing, one, other), _shown_fresh(state, source).get(pair_key(one, other), 0)
    votes = floor.votes + fresh
    met = floor.prompts_needed > 0 and votes >= floor.votes_needed and floor.prompts >= floor.prompts_needed
    share = decisive_share(standing)
    # Before the first vote is counted nothing is known of ties.
    overall = 1.0 if math.isnan(share) else share
    wanted = votes_to_floor(replace(floor, votes=votes, attempts=floor.attempts + fresh, met=met), overall)
    return math.ceil(wanted) if math.isfinite(wanted) else None


def _shown_fresh(state: ArenaState, source: int) -> dict[int, int]:
    """Decisive votes by pair that are final because their names were revealed, but not counted yet."""
    found: dict[int, int] = {}
    for vote in state.fresh.values():
        one = vote.opened
        counts = vote.revealed and vote.is_rated and one.source == source
        counts &= one.serial not in state.dropped[source]
        if counts and SPELLED[Kind(vote.kind)][0] in DECISIVE:
            pair = pair_key(one.a, one.b)
            found[pair] = found.get(pair, 0) + 1
    return found


def _stands(found: MatchupRecord) -> bool:
    return found.kind == LogKind.VOTE and found.undone is None


def _state(found: MatchupRecord, now: datetime) -> State:
    if found.kind is None or found.is_open:
        return "open" if found.expires_at > now else "expired"
    return _STATES[found.kind]
