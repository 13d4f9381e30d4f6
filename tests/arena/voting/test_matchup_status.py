"""What is told of a matchup that only the tables know."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from tiltyard.arena.log.event_log import HUMAN, LogKind, MatchupRecord
from tiltyard.arena.voting.matchup_status import repeat_ending
from tiltyard.core.battles import Kind
from tiltyard.errors import Expired, StoreFault

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def served(**ending):
    nothing = dict.fromkeys(("kind", "outcome", "position", "at", "revealed_at", "undone"))
    return MatchupRecord(
        arena=1,
        source=HUMAN,
        serial=0,
        session=1,
        **dict.fromkeys(("a", "b", "prompt", "response_a", "response_b", "nominal", "lane"), 0),
        reason="",
        served_at=NOON,
        expires_at=NOON + timedelta(hours=2),
        **nothing | ending,
    )


@pytest.mark.parametrize(("hours", "error"), [(1, StoreFault), (2, Expired), (72, Expired)])
def test_one_that_no_event_has_ended_runs_out_by_the_clock(hours, error):
    now = NOON + timedelta(hours=hours)
    for kind, outcome in ((LogKind.VOTE, Kind.TIE), (LogKind.SKIP, None)):
        with pytest.raises(error):
            repeat_ending(uuid4(), served(), None, now, kind, outcome)


def test_the_same_vote_again_is_told_as_before_however_late():
    voted = served(kind=LogKind.VOTE, outcome=int(Kind.TIE), position=9, at=NOON, revealed_at=NOON)
    told = repeat_ending(uuid4(), voted, None, NOON + timedelta(days=3), LogKind.VOTE, Kind.TIE)
    assert told.position == 9
