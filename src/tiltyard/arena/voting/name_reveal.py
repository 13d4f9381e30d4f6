"""Reveals the names of models: after each vote, at the end of a session, or never.

Like those of `matchup_lifecycle`, the functions work on the arena's state and the batch that is being written.
"""

from __future__ import annotations

from collections.abc import Iterable

from tiltyard.arena.log.event_log import HUMAN, LogBatch, LogKind, LogRow, OpenMatchup, PendingNames
from tiltyard.arena.voting.arena_state import ArenaState
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.errors import Closed
from tiltyard.settings.arena_settings import Reveal


def reveal_for(state: ArenaState, voter: Voter) -> Reveal:
    """When a voter sees names: as the arena says, but never for raters of an expert panel."""
    rater = state.raters.of(voter.source, voter.session)
    return state.settings.reveal if rater is None else "never"


def check_reveal_allowed(state: ArenaState, voter: Voter) -> None:
    """Raise `Closed` if people cannot see the names of a single vote in this arena."""
    settings, reveal = state.settings, reveal_for(state, voter)
    if voter.source != HUMAN or reveal == "vote":
        return
    if reveal == "never":
        raise _never_revealed_error()
    raise Closed(
        f"this arena reveals the names of all your votes together: after {settings.session_votes} votes, or when you "
        "finish"
    )


def reveal_names(state: ArenaState, batch: LogBatch, voter: Voter, votes: Iterable[PendingNames]) -> None:
    """Record in the log that the names of these votes are revealed to the voter, before they are shown."""
    for one in votes:
        position = batch.reveal(voter.source, one.serial, voter.session)
        state.fold(
            LogRow(
                position,
                batch.now,
                int(LogKind.REVEAL),
                voter.source,
                one.serial,
                voter.session,
                one.a,
                one.b,
                one.prompt,
                response_a=one.response_a,
                response_b=one.response_b,
                free_prompt=one.free_prompt,
            )
        )


def end_full_session(state: ArenaState, batch: LogBatch, voter: Voter) -> bool:
    """Reveal the names if the voter's session is full; return whether they were revealed."""
    settings, pending = state.settings, state.revealed.of(voter.session).pending
    full = reveal_for(state, voter) == "session" and len(pending) >= settings.session_votes
    if not full or voter.source != HUMAN:
        return False
    reveal_names(state, batch, voter, list(pending.values()))
    return True


def finish_session(state: ArenaState, batch: LogBatch, voter: Voter) -> int:
    """Reveal the names of all votes that are not revealed yet; return their number."""
    if voter.source != HUMAN:
        raise Closed("the sessions of judges do not end; request the names of each vote")
    if reveal_for(state, voter) == "never":
        raise _never_revealed_error()
    pending = list(state.revealed.of(voter.session).pending.values())
    reveal_names(state, batch, voter, pending)
    return len(pending)


def withheld_cells(state: ArenaState, voter: Voter, opened: list[OpenMatchup]) -> list[tuple[int, int]]:
    """Model and prompt of the responses whose names the voter knows, or will know when the next vote is cast.

    A matchup may be served ahead, while another one is open. If names are revealed before the next vote, those of
    the open matchup will be known by then, and so will those of the votes that are revealed with it: all votes of
    the session, or the last one. The answers of a live battle are never served again.
    """
    if state.settings.is_live:
        return []
    names = state.revealed.of(voter.session)
    known = dict(names.revealed)
    if _tells_before_next(state, voter, len(names.pending) + len(opened)):
        pending = list(names.pending.values())
        together = pending if state.settings.reveal == "session" else pending[-1:]
        near: list[OpenMatchup | PendingNames] = [*opened, *together]
        for one in near:
            known[one.response_a] = (one.a, one.prompt)
            known[one.response_b] = (one.b, one.prompt)
    return [cell for response, cell in known.items() if state.responses[cell] == response]


def _tells_before_next(state: ArenaState, voter: Voter, votes: int) -> bool:
    """Whether, after this many unrevealed votes, names are revealed before the next vote."""
    if voter.source != HUMAN or reveal_for(state, voter) == "never":
        return False
    return state.settings.reveal == "vote" or votes >= state.settings.session_votes


def _never_revealed_error() -> Closed:
    return Closed("this arena never reveals names")
