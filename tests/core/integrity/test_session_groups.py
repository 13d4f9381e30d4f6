"""Sessions that act together: at the same intervals, or for the same model."""

import numpy as np
import pytest

from support.simulated_sessions import MODELS, joined, shown, voted
from tiltyard.core.integrity.session_groups import find_groups_in_step, find_groups_together
from tiltyard.core.integrity.voter_tests import SessionVotes, VoterTest

PEOPLE = shown(400, 12)
LAST = MODELS - 1
COLUMNS = ("session", "a", "b", "score")


def program(sessions, each, *, noise, first=1000, seed=4, pace=3.0):
    """Sessions that repeat the same pauses; each pause is off by up to so many seconds."""
    random = np.random.default_rng(seed)
    pauses = pace * random.uniform(0.5, 1.5, each)
    seconds = np.tile(pauses, sessions) + random.uniform(-noise, noise, sessions * each)
    return shown(sessions, each, seed=seed, skip=0.0, first=first, seconds=seconds)


def test_people_and_few_sessions_are_not_in_step():
    assert find_groups_in_step(PEOPLE) == []
    for part in (program(2, 8, noise=0.0), program(20, 5, noise=0.0), program(20, 8, noise=1.0)):
        assert find_groups_in_step(joined(PEOPLE, part)) == []
    assert find_groups_in_step(program(20, 8, noise=0.0, pace=0.1)) == []
    assert find_groups_in_step(shown(0, 0)) == []
    assert find_groups_in_step(shown(1, 3)) == []


def test_sessions_with_the_same_pauses_are_one_group():
    two = joined(PEOPLE, program(20, 8, noise=0.02), program(5, 9, noise=0.0, first=2000, seed=5))
    groups = find_groups_in_step(two)
    assert [group.test for group in groups] == [VoterTest.IN_STEP] * 2
    assert groups[0].sessions == tuple(range(1000, 1020))
    assert groups[1].sessions == tuple(range(2000, 2005))


def with_group(people, sessions, each, *, wins):
    """These votes and those of a group on the last model, or the first, against all others."""
    random = np.random.default_rng(11)
    model, n = (LAST if wins else 0), sessions * each
    other = random.integers(1, MODELS - 1, size=n)
    left = random.random(n) < 0.5
    score = np.where(left == wins, 1.0, 0.0)
    return SessionVotes(
        np.append(people.session, 5000 + np.repeat(np.arange(sessions), each)),
        np.append(people.a, np.where(left, model, other)),
        np.append(people.b, np.where(left, other, model)),
        np.append(people.score, score),
    )


@pytest.mark.parametrize("wins", [True, False])
def test_many_sessions_for_one_model_are_a_group_and_each_alone_is_not(wins):
    people = voted(1500, 12)
    assert find_groups_together(people, MODELS) == []
    (group,) = find_groups_together(with_group(people, 60, 3, wins=wins), MODELS)
    assert (group.test, group.model, group.wins) == (VoterTest.TOGETHER, LAST if wins else 0, wins)
    members = np.array(group.sessions)
    assert (members >= 5000).sum() >= 35
    assert (members < 5000).mean() < 0.3
    assert (members < 5000).sum() <= 0.006 * 1500 + 5
    assert len(members) > 1.2 * group.expected
    assert group.deviations > 4.5
    assert find_groups_together(with_group(people, 4, 3, wins=wins), MODELS) == []


@pytest.mark.parametrize(
    ("sessions", "each", "wins"), [(10, 6, True), (10, 6, False), (10, 14, True), (6, 10, True)]
)
def test_a_few_admissions_in_a_small_arena_are_a_group(sessions, each, wins):
    """The attack: ten invitations with six votes each gained eight ranks among a thousand votes, unnoticed."""
    people = voted(80, 12)
    (group,) = find_groups_together(with_group(people, sessions, each, wins=wins), MODELS)
    assert (group.model, group.wins) == (LAST if wins else 0, wins)
    members = np.array(group.sessions)
    assert (members >= 5000).sum() >= 0.7 * sessions
    assert (members < 5000).sum() <= 1


def test_opponents_of_an_attack_that_moved_ratings_are_no_group():
    for seed in range(20):
        crowded = with_group(voted(80, 12, seed), 10, 40, wins=True)
        assert [group for group in find_groups_together(crowded, MODELS) if min(group.sessions) < 5000] == []


def test_fans_of_one_model_are_no_group():
    """Thirty people come by a link and like the last model: three times the odds that others give it."""
    people = voted(80, 12)
    fans = voted(30, 12, seed=5, first=5000, liked=LAST, more=1.1)
    both = SessionVotes(*(np.append(getattr(people, name), getattr(fans, name)) for name in COLUMNS))
    assert find_groups_together(both, MODELS) == []


def test_no_votes_are_no_group():
    empty = np.zeros(0, np.int64)
    assert find_groups_together(SessionVotes(empty, empty, empty, np.zeros(0)), MODELS) == []
