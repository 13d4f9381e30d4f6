"""Marks of proven order in worlds of known truth: small studies of those that are run by name."""

from dataclasses import replace

import numpy as np
import pytest

from lab.mark_trials import (
    FalseMarks,
    FalseMarksSettings,
    MarkVotesSettings,
    _prompts,
    _tallies,
    false_mark_rates,
    false_marks_in_world,
    mark_power,
    votes_until_proven,
)
from tiltyard.core.policy.validity.order_marks import LIKE_THESE, THESE
from tiltyard.core.policy.validity.order_test import OrderTest
from tiltyard.errors import BadOption
from tiltyard.simulation.worlds import draw_world


@pytest.mark.parametrize("chosen", ["uniform", "round-robin", "skewed"])
def test_false_marks_are_rare_however_prompts_are_chosen(chosen):
    settings = FalseMarksSettings(30, 1.0, models=4, votes=3000, peeks=60, chosen=chosen)
    found = [false_marks_in_world(settings, seed) for seed in range(10)]
    rates = false_mark_rates(found)
    assert rates.these.value <= 1 / 10
    assert rates.like_these.value <= 2 / 10
    assert sum(world.these_marked for world in found) > 10


def test_models_equal_on_every_prompt_are_seldom_told_apart():
    settings = FalseMarksSettings(20, 0.5, models=2, votes=2000, peeks=50, same_effects=True)
    found = [false_marks_in_world(settings, seed) for seed in range(40)]
    rates = false_mark_rates(found)
    assert max(rates.these.value, rates.like_these.value) <= 5 / 40


def test_what_holds_on_these_prompts_is_often_false_of_their_population():
    settings = FalseMarksSettings(12, 1.0, models=2, votes=6000, peeks=30)
    found = [false_marks_in_world(settings, seed) for seed in range(15)]
    rates = false_mark_rates(found)
    assert rates.these_of_population.value >= 0.4
    assert rates.these.value <= 1 / 15


def test_the_same_seed_gives_the_same_world():
    settings = FalseMarksSettings(10, 0.5, models=4, votes=500, peeks=5)
    one, other = (false_marks_in_world(settings, 3) for _ in range(2))
    assert one == other
    assert isinstance(one, FalseMarks)


def test_a_wider_gap_is_proven_sooner_and_a_larger_family_later():
    near = mark_power(range(9), 60.0, THESE)
    far = mark_power(range(9), 160.0, THESE, chosen="round-robin")
    strict = mark_power(range(9), 160.0, THESE, family=190)
    assert far.votes.value < near.votes.value
    assert far.votes.value < strict.votes.value
    assert near.never == far.never == 0


def test_a_pair_that_is_never_marked_is_counted_as_such():
    assert votes_until_proven(MarkVotesSettings(0.0, LIKE_THESE, most=200, every=50), 0) is None
    wide = MarkVotesSettings(400.0, THESE, every=10, prompts=20)
    easy = votes_until_proven(wide, 1, OrderTest(gap=80.0))
    assert easy is not None
    assert easy % 10 == 0


def test_tallies_count_every_vote_for_the_model_that_won_it():
    world = draw_world(3, 8, np.random.default_rng(1), strength_sd=0.0, effect_sd=0.0)
    world = replace(world, strength=np.array([6.0, 0.0, -6.0]), ties=0.2, both_bad=0.1)
    looks = list(_tallies(world, 3000, 10, "uniform", np.random.default_rng(2)))
    assert [int(tally.sum()) for tally in looks] == list(range(300, 3001, 300))
    low_wins, high_wins, ties, both_bad = looks[-1].sum(axis=0)
    assert high_wins < 0.02 * low_wins
    assert ties / 3000 == pytest.approx(0.2, abs=0.03)
    assert both_bad / 3000 == pytest.approx(0.1, abs=0.03)


def test_in_turn_each_pair_meets_on_every_prompt_before_it_meets_on_one_again():
    rng = np.random.default_rng(5)
    pair = rng.integers(0, 3, 200)
    prompt = _prompts(pair, 7, "round-robin", rng)
    for one in range(3):
        met = prompt[pair == one]
        for first in range(0, len(met) - 7, 7):
            assert sorted(met[first : first + 7]) == list(range(7))


def test_skewed_prompts_are_unequal_and_unknown_ways_are_refused():
    rng = np.random.default_rng(6)
    pair = np.zeros(4000, dtype=np.int64)
    often = np.bincount(_prompts(pair, 10, "skewed", rng), minlength=10)
    assert often[0] > 5 * often[9] > 0
    with pytest.raises(BadOption, match="'sometimes'"):
        _prompts(pair, 10, "sometimes", rng)
