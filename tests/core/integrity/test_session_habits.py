"""Which sessions skip, hurry or keep time unlike people."""

from dataclasses import fields, replace

import numpy as np
import pytest

from support.simulated_sessions import MODELS, joined, shown
from tiltyard.core.integrity.session_groups import ShownMatchups, find_habits
from tiltyard.core.integrity.voter_tests import VoterTest

PEOPLE = shown(150, 30)
LAST = MODELS - 1


def only(part):
    """The one sign among people and these sessions."""
    (sign,) = find_habits(joined(PEOPLE, part), MODELS)
    return sign


def test_nobody_is_flagged_without_evidence():
    assert find_habits(shown(0, 0), MODELS) == find_habits(PEOPLE, MODELS) == []
    assert find_habits(shown(300, 12, seed=3, skip=0.5), MODELS) == []
    disliked = (PEOPLE.a == 0) | (PEOPLE.b == 0)
    people = replace(PEOPLE, voted=PEOPLE.voted & ~(disliked & (np.arange(len(disliked)) % 2 == 0)))
    assert find_habits(people, MODELS) == []
    one = shown(1, 40, seed=7, first=1000)
    for voted in (np.ones(40, dtype=bool), np.zeros(40, dtype=bool)):
        assert find_habits(joined(PEOPLE, replace(one, voted=voted)), MODELS) == []
    one = shown(1, 30, seed=9, skip=0.0, first=1000, seconds=np.full(30, 0.02))
    assert find_habits(joined(PEOPLE, one), MODELS) == []


def test_who_skips_one_model_is_flagged_with_the_numbers():
    one = shown(1, 60, seed=5, first=1000)
    has = (one.a == LAST) | (one.b == LAST)
    sign = only(replace(one, voted=~has))
    assert (sign.session, sign.test, sign.model, sign.votes) == (1000, VoterTest.SKIPS, LAST, 60)
    assert sign.deviations > 4.0
    counted = sign.counted
    assert (counted.found, counted.among) == (has.sum(), has.sum())
    assert (counted.other_found, counted.other_among) == (0, 60 - has.sum())


def test_a_few_sessions_that_choose_one_model_are_flagged_and_none_of_them_alone():
    """The attack: ten admissions with six votes each, who skip whatever the target is not in."""
    crowd = shown(10, 18, seed=6, first=1000)
    # Every third matchup is one with the target.
    has = np.arange(180) % 3 == 0
    a, b = crowd.a % LAST, (crowd.a + 1) % LAST
    crowd = replace(crowd, a=np.where(has, LAST, a), b=b, voted=has)
    people = shown(80, 12, skip=0.05)
    signs = find_habits(joined(people, crowd), MODELS)
    assert {sign.session for sign in signs} == {*range(1000, 1010)}
    assert {(sign.test, sign.model) for sign in signs} == {(VoterTest.SKIPS, LAST)}
    assert all(sign.deviations < 0.0 for sign in signs)
    alone = crowd.session == 1000
    one = ShownMatchups(*(getattr(crowd, field.name)[alone] for field in fields(crowd)))
    assert find_habits(joined(people, one), MODELS) == []


@pytest.mark.parametrize(("hasty", "is_found"), [(20, True), (14, True), (5, False)])
def test_who_votes_without_a_look_is_flagged(hasty, is_found):
    one = shown(1, 20, seed=8, skip=0.0, first=1000)
    signs = find_habits(joined(PEOPLE, replace(one, hasty=np.arange(20) < hasty)), MODELS)
    assert [(sign.test, sign.counted.found, sign.counted.among) for sign in signs] == (
        [(VoterTest.HASTY, hasty, 20)] if is_found else []
    )


@pytest.mark.parametrize(
    ("jitter", "each", "is_found"), [(0.01, 10, True), (0.3, 40, True), (0.3, 10, False)]
)
def test_times_that_hardly_vary_are_flagged(jitter, each, is_found):
    random = np.random.default_rng(9)
    seconds = 2.0 * (1.0 + random.uniform(-jitter, jitter, each))
    signs = find_habits(joined(PEOPLE, shown(1, each, seed=9, skip=0.0, first=1000, seconds=seconds)), MODELS)
    assert [sign.test for sign in signs] == [VoterTest.REGULAR] * is_found
    for sign in signs:
        assert sign.counted.seconds == pytest.approx(2.0, rel=0.1)
        assert sign.counted.spread < 0.25


def test_a_prefetched_matchup_takes_the_time_since_the_vote_before():
    """It is served while the one before is open."""
    seconds = np.full(30, 3.0)
    one = shown(1, 30, seed=9, skip=0.0, first=1000, seconds=seconds)
    ahead = replace(one, served=one.served - np.arange(30) % 7)
    assert only(ahead).counted.spread < 0.001
