"""How many matchups may be open in an arena, and which of them end when there are more.

Each open matchup takes memory in the process that decides. A matchup that was prefetched waits a few minutes to be
shown, and a voter has few of them; one that was shown waits for its vote, usually for hours.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiltyard.arena.log.event_log import HUMAN, LogBatch, LogKind, LogRow, OpenMatchup
from tiltyard.arena.voting.arena_state import ArenaState
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.errors import Busy

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
