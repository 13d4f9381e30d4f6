"""Why a vote is not rated, and how long a look at two responses takes at least."""

from typing import get_args

import pytest

from tiltyard.core.policy.state.events import (
    NO_MARK,
    Look,
    Unrated,
    VoteMark,
    least_look_seconds,
    unrated_reason,
)


@pytest.mark.parametrize(
    ("characters", "seconds"), [(0, 1.0), (2_000, 1.4), (10_000, 3.0), (10**9, 3.0)], ids=str
)
def test_a_look_takes_longer_at_longer_responses_up_to_a_limit(characters, seconds):
    assert least_look_seconds(characters) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("look", "mark"),
    [
        (Look(None, 0), VoteMark.UNSEEN),
        (Look(None, 0, 60.0), VoteMark.UNSEEN),
        (Look(0.0, 0), VoteMark.EARLY),
        (Look(1.3, 2_000), VoteMark.EARLY),
        (Look(1.5, 2_000), NO_MARK),
        # The browser says how long a response was on screen: it can only shorten the time.
        (Look(60.0, 2_000, 1.3), VoteMark.EARLY),
        (Look(60.0, 2_000, 1.5), NO_MARK),
        (Look(0.5, 2_000, 60.0), VoteMark.EARLY),
    ],
)
def test_a_vote_is_marked_if_a_response_was_not_sent_or_the_look_was_too_short(look, mark):
    assert look.mark() == mark


def test_a_vote_has_one_reason_not_to_be_rated():
    assert unrated_reason(blind=True, mark=NO_MARK) is None
    assert unrated_reason(blind=False, mark=VoteMark.EARLY) == "not-blind"
    assert unrated_reason(blind=True, mark=VoteMark.IMPORTED) is None
    reasons = [unrated_reason(blind=True, mark=mark) for mark in VoteMark if mark is not VoteMark.IMPORTED]
    assert ["not-blind", *reasons] == list(get_args(Unrated))
