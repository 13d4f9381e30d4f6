"""What a session's votes say together, once the names are told."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from tiltyard.arena.voting.personal_boards import RecentVote, SessionReveal


def vote(model_a, model_b, outcome, *, agrees=None):
    at = datetime(2026, 11, 19, tzinfo=UTC)
    return RecentVote(UUID(int=0), at, model_a, model_b, "p", outcome, agrees, close=False, blind=True)


def test_a_session_in_short():
    votes = (
        vote("x", "y", "model_a", agrees=True),
        vote("z", "x", "model_b", agrees=False),
        vote("y", "z", "model_a"),
        vote("x", "z", "tie"),
        vote("z", "y", "both_bad"),
    )
    told = SessionReveal.of(votes)
    assert told.preferred == (("x", 2, 3), ("y", 1, 3))
    assert (told.agreement.agreed, told.agreement.decisive) == (1, 2)
    assert told.surprising == (votes[1],)


@pytest.mark.parametrize("votes", [(), (vote("x", "y", "tie"),)], ids=["none", "a tie"])
def test_a_session_that_prefers_nothing(votes):
    told = SessionReveal.of(votes)
    assert (told.preferred, told.agreement.decisive, told.surprising) == ((), 0, ())
