"""When names are told, and that they are: after each vote, at the end of a session, or never.

Functions of the arena in memory and the batch that is being written, as in `deciding`.
"""

from __future__ import annotations

from collections.abc import Iterable

from tiltyard.arena.log.event_log import HUMAN, LogBatch, LogKind, LogRow, OpenMatchup, PendingNames
from tiltyard.arena.voting.arena_state import ArenaState
from tiltyard.arena.voting.voter_requests import SessionProgress, Voter
from tiltyard.errors import Closed
from tiltyard.settings.arena_settings import ArenaSettings

__all__ = [
    "check_reveal_allowed",
    "end_full_session",
    "finish_session",
    "reveal_names",
    "session_progress",
    "withheld_cells",
]


def check_reveal_allowed(settings: ArenaSettings, voter: Voter) -> None:
    """Refuse names of one vote where people are told those of a whole session, or none."""
    if voter.source != HUMAN or settings.reveal == "vote":
        return
    if settings.reveal == "never":
        raise _never_revealed_error()
    raise Closed(
        f"this arena tells the names of all your votes together: after {settings.session_votes} votes, or when you "
        "finish"
    )


def reveal_names(live: ArenaState, batch: LogBatch, voter: Voter, votes: Iterable[PendingNames]) -> None:
    """The voter is told the names of these votes: that is noted before anybody sees them."""
    for one in votes:
        position = batch.reveal(voter.source, one.serial, voter.session)
        live.fold(
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
            )
        )


def end_full_session(live: ArenaState, batch: LogBatch, voter: Voter) -> bool:
    """Tell the names if the voter has as many votes as a session has; whether they were told."""
    settings, pending = live.settings, live.told.of(voter.session).pending
    full = settings.reveal == "session" and len(pending) >= settings.session_votes
    if not full or voter.source != HUMAN:
        return False
    reveal_names(live, batch, voter, list(pending.values()))
    return True


def finish_session(live: ArenaState, batch: LogBatch, voter: Voter) -> int:
    """Tell the names of all votes since the last time; how many votes these are."""
    if voter.source != HUMAN:
        raise Closed("a judge has no sessions that end: ask for the names of each vote")
    if live.settings.reveal == "never":
        raise _never_revealed_error()
    pending = list(live.told.of(voter.session).pending.values())
    reveal_names(live, batch, voter, pending)
    return len(pending)


def session_progress(live: ArenaState, voter: Voter) -> SessionProgress:
    """How many votes wait for their names, and after how many they are told."""
    settings = live.settings
    return SessionProgress(
        len(live.told.of(voter.session).pending),
        settings.session_votes if settings.reveal == "session" else None,
    )


def withheld_cells(live: ArenaState, voter: Voter, opened: list[OpenMatchup]) -> list[tuple[int, int]]:
    """Model and prompt of the responses that are not blind to a voter, or will not be when the next vote is cast.

    A matchup is served ahead while another one waits for its vote: where names are told before the next vote,
    those of the waiting one are as good as told, and so are those of the votes that are told with it: all of the
    session, or the last one.
    """
    names = live.told.of(voter.session)
    known = dict(names.told)
    if _tells_before_next(live, voter, len(names.pending) + len(opened)):
        pending = list(names.pending.values())
        together = pending if live.settings.reveal == "session" else pending[-1:]
        near: list[OpenMatchup | PendingNames] = [*opened, *together]
        for one in near:
            known[one.response_a] = (one.a, one.prompt)
            known[one.response_b] = (one.b, one.prompt)
    return [cell for response, cell in known.items() if live.responses[cell] == response]


def _tells_before_next(live: ArenaState, voter: Voter, votes: int) -> bool:
    """Whether names are told before another matchup is voted on, after so many votes."""
    if voter.source != HUMAN or live.settings.reveal == "never":
        return False
    return live.settings.reveal == "vote" or votes >= live.settings.session_votes


def _never_revealed_error() -> Closed:
    return Closed("this arena tells no names")
