"""What a process remembers of the matchups that it served: when both responses were sent, and since when they are shown."""

from uuid import uuid4

import pytest

from tiltyard.arena.voting import deliveries
from tiltyard.arena.voting.deliveries import Deliveries
from tiltyard.core.policy.state.vote_marks import NO_MARK, VoteMark

ONE = uuid4()


class _Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return _Clock()


@pytest.fixture
def known(clock):
    """A matchup that is shown since it was served."""
    found = Deliveries(clock)
    found.begin(ONE, shown=clock.now)
    return found


def test_a_response_that_was_not_sent_is_unseen(known, clock):
    assert known.mark(ONE, clock.now + 60, None) == VoteMark.UNSEEN
    known.send(ONE, 500, None)
    assert known.mark(ONE, clock.now + 60, None) == VoteMark.UNSEEN
    known.send(ONE, None, 500)
    assert known.mark(ONE, clock.now + 60, None) == NO_MARK


def test_the_time_runs_from_when_the_second_response_was_sent_first(known, clock):
    known.send(ONE, 500, None)
    clock.now += 60
    known.send(ONE, 500, 500)
    assert known.mark(ONE, clock.now + 1.1, None) == VoteMark.EARLY
    assert known.mark(ONE, clock.now + 1.3, None) == NO_MARK
    clock.now += 5
    known.send(ONE, 500, 500)
    assert known.mark(ONE, clock.now, None) == NO_MARK


def test_a_prefetched_matchup_is_looked_at_from_when_it_is_shown(clock):
    known = Deliveries(clock)
    known.begin(ONE, shown=None)
    known.send(ONE, 0, 0)
    # Nobody has said that it is shown: it may be since it was sent.
    assert known.mark(ONE, clock.now + 60, None) == NO_MARK
    known.show(ONE, clock.now + 60)
    known.show(ONE, clock.now + 90)
    assert known.mark(ONE, clock.now + 60.5, None) == VoteMark.EARLY
    assert known.mark(ONE, clock.now + 61.5, None) == NO_MARK


def test_what_the_browser_reports_can_only_shorten_the_look(known, clock):
    known.send(ONE, 0, 0)
    assert known.mark(ONE, clock.now + 60, {"shown": {"a": 0.4, "b": 0.1}}) == VoteMark.EARLY
    assert known.mark(ONE, clock.now + 60, {"shown": {"a": 4.0, "b": 0.1}}) == NO_MARK
    assert known.mark(ONE, clock.now, {"shown": {"a": 60.0, "b": 60.0}}) == VoteMark.EARLY
    assert known.mark(ONE, clock.now + 60, {"recognized": True}) == NO_MARK


def test_nothing_is_held_against_votes_on_what_another_process_served(clock, monkeypatch):
    monkeypatch.setattr(deliveries, "_KNOWN_MATCHUP_LIMIT", 2)
    known, served = Deliveries(clock), [uuid4() for _ in range(3)]
    assert known.mark(ONE, clock.now, None) == NO_MARK
    known.show(ONE, clock.now)
    known.send(ONE, 1, 1)
    assert len(known) == 0
    for one in served:
        known.begin(one, shown=clock.now)
    marks = [known.mark(one, clock.now, None) for one in served]
    assert marks == [NO_MARK, VoteMark.UNSEEN, VoteMark.UNSEEN], "the oldest is forgotten"
