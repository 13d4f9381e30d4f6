"""Worlds whose truth is known, what is measured in them, and the sample file."""

from dataclasses import replace
from itertools import islice

import numpy as np

from lab.interval_coverage import MADE_BY, coverage
from tiltyard.simulation.demo.demo_roster import demo_battles
from tiltyard.simulation.worlds import POINTS_PER_LOGIT, draw_world


def world(models=4, prompts=30, seed=3, **options):
    return draw_world(models, prompts, np.random.default_rng(seed), **options)


def test_without_effects_ties_or_sides_the_truth_is_the_strength():
    some = replace(world(effect_sd=0.0), ties=0.0, both_bad=0.0, position_bias=0.0)
    expected = (some.strength - some.strength.mean()) * POINTS_PER_LOGIT
    np.testing.assert_allclose(some.truth(), expected, atol=1e-6)
    np.testing.assert_allclose(some.truth(these_prompts=True), expected, atol=1e-6)


def test_coverage_of_every_kind_of_interval():
    found = coverage(25, 2, models=4, battles=300)
    assert [one.made_by for one in found] == list(MADE_BY)
    assert all(0.0 <= one.covered <= 1.0 and one.half_width > 0.0 for one in found)
    sandwich, sem = found[0], found[-1]
    assert sem.half_width < sandwich.half_width / 3


def test_the_sample_is_the_same_every_time_and_has_what_the_options_ask_for():
    assert list(demo_battles(50)) == list(demo_battles(50))
    assert list(demo_battles(50)) == list(islice(demo_battles(80), 50))
    assert list(demo_battles(50)) != list(demo_battles(50, seed=8))
    some = list(demo_battles(400))
    assert len({battle.question_id for battle in some}) > 100
    assert {battle.category for battle in some} == {"writing", "code", "maths", "advice"}
    assert all(battle.extra["length_a"] > 0 for battle in some)
    assert [battle.position for battle in some] == list(range(400))
