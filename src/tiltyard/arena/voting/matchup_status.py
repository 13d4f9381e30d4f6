"""What is told of a matchup that the tables know: whether it is open still, how it ended, who stood in it."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from tiltyard.arena.log.event_log import LogKind, MatchupRecord
from tiltyard.arena.voting.arena_state import ArenaState
from tiltyard.arena.voting.matchup_ids import format_matchup_id
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
from tiltyard.core.policy.state.pair_counts import pair_key, unpack_pair_key
from tiltyard.core.policy.state.policy import Lane
from tiltyard.errors import Closed, StoreFault

__all__ = [
    "count_settled_pairs",
    "pair_progress",
    "repeat_ending",
    "repeat_undo",
    "require_open_matchup",
    "reveal_matchup",
    "review_matchup",
]

_STATES: dict[int, State] = {LogKind.VOTE: "voted", LogKind.SKIP: "skipped", LogKind.EXPIRE: "expired"}


def require_open_matchup(
    matchup: str, arena: str, found: MatchupRecord, now: datetime, *, voted: bool
) -> OfferedMatchup:
    """A matchup that has not ended; or, with ``voted``, has ended by a vote that stands."""
    looked_at = voted and _stands(found)
    if found.kind == LogKind.EXPIRE or ((found.is_open or looked_at) and found.expires_at <= now):
        raise matchup_expired_error()
    if not found.is_open and not looked_at:
        raise Closed("this matchup has ended; ask for another one")
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
    matchup: str, arena: str, found: MatchupRecord, now: datetime, undo_seconds: float
) -> ReviewedMatchup:
    """A voter's own matchup as it is at this moment."""
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
    )


def repeat_ending(
    matchup: UUID,
    found: MatchupRecord,
    live: ArenaState | None,
    now: datetime,
    kind: LogKind,
    outcome: Kind | None,
    ballot: int | None = None,
) -> EndedMatchup:
    """A matchup that has ended already: the same once more, or a refusal. A vote names its ballot."""
    if found.kind == LogKind.EXPIRE or (found.is_open and found.expires_at <= now):
        raise matchup_expired_error()
    if ballot is not None and ballot != found.ballot:
        raise wrong_ballot_error(ballot, found.ballot)
    if found.is_open or found.position is None or found.at is None:
        raise StoreFault("this matchup is not known here yet; ask again in a moment")
    if found.kind != kind or found.outcome != (None if outcome is None else int(outcome)):
        how = "skipped" if found.kind == LogKind.SKIP else "voted on otherwise"
        raise Closed(f"this matchup was {how}; it takes no other vote")
    revealed = found.revealed_at is not None
    until = None if live is None or revealed else undo_deadline(live, found.at)
    return EndedMatchup(
        matchup=format_matchup_id(matchup),
        kind=kind,
        outcome=outcome,
        position=found.position,
        at=found.at,
        undo_until=until if kind == LogKind.VOTE else None,
        revealed=revealed,
        ballot=found.ballot,
        blind=found.blind,
    )


def repeat_undo(matchup: str, found: MatchupRecord, ballot: int) -> EndedMatchup:
    """A vote that was undone already: the same once more; or why the vote on this ballot cannot be undone."""
    if found.ballot == ballot + 1 and found.undone is not None:
        assert found.outcome is not None
        assert found.at is not None
        return EndedMatchup(
            matchup, LogKind.UNDO, Kind(found.outcome), found.undone, found.at, ballot=found.ballot
        )
    if found.ballot != ballot:
        raise wrong_ballot_error(ballot, found.ballot)
    if not _stands(found):
        raise Closed("there is no vote to take back on this matchup")
    raise Closed("this vote is final: the time to take it back has passed, or the names were shown")


def reveal_matchup(matchup: str, found: MatchupRecord, live: ArenaState | None) -> RevealedMatchup:
    """Who stood on which side, and why these two met."""
    if live is None or found.outcome is None or found.position is None:
        raise StoreFault("the arena is being loaded; ask again in a moment")
    standing = live.standings[found.source]
    decisive, floor = pair_progress(live, found.source, found.a, found.b)
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
        blind=found.blind,
    )


def pair_progress(live: ArenaState, source: int, one: int, other: int) -> tuple[int, int]:
    """Decisive votes of two models that can no longer be undone, and how many they need."""
    standing = live.standings[source]
    counted = int(standing.meetings.decisive[one, other])
    return counted + _shown_fresh(live, source).get(pair_key(one, other), 0), standing.policy.adjacent_votes


def count_settled_pairs(live: ArenaState, source: int, pairs: list[int]) -> int:
    """How many of these pairs, each a `pair_key`, have as many decisive votes as they need."""
    standing, fresh = live.standings[source], _shown_fresh(live, source)
    counts = (int(standing.meetings.decisive[unpack_pair_key(pair)]) + fresh.get(pair, 0) for pair in pairs)
    return sum(count >= standing.policy.adjacent_votes for count in counts)


def _shown_fresh(live: ArenaState, source: int) -> dict[int, int]:
    """Decisive votes by pair that are final, because their names were shown, and not counted yet."""
    found: dict[int, int] = {}
    for vote in live.fresh.values():
        one = vote.opened
        counts = vote.revealed and vote.blind and one.source == source
        counts &= one.serial not in live.dropped[source]
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
