"""Worlds whose truth is known, what is measured in them, and the sample file."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from lab.interval_coverage import MADE_BY, coverage
from tiltyard.core.battles import Kind
from tiltyard.core.ratings import BradleyTerry
from tiltyard.simulation.demo.demo_voters import demo_battles
from tiltyard.simulation.worlds import POINTS_PER_LOGIT, draw_world


def world(models=4, prompts=30, seed=3, **options):
    return draw_world(models, prompts, np.random.default_rng(seed), **options)


@pytest.mark.parametrize(
    ("prompts", "these_prompts", "clusters"), [(20, True, "battle"), (100_000, False, "prompt")]
)
def test_endless_battles_would_give_the_truth(prompts, these_prompts, clusters):
    some = world(prompts=prompts, effect_sd=1.0)
    ratings = BradleyTerry(clusters=clusters)(some.table(200_000, np.random.default_rng(5)))
    error = np.sqrt(np.diag(ratings.uncertainty.covariances[0]))
    assert error.max() < 2.5
    found = ratings.rating - ratings.rating.mean()
    assert (np.abs(found - some.truth(these_prompts=these_prompts)) < 4 * error).all()


def test_without_effects_ties_or_sides_the_truth_is_the_strength():
    some = replace(world(effect_sd=0.0), ties=0.0, both_bad=0.0, position_bias=0.0)
    expected = (some.strength - some.strength.mean()) * POINTS_PER_LOGIT
    np.testing.assert_allclose(some.truth(), expected, atol=1e-6)
    np.testing.assert_allclose(some.truth(these_prompts=True), expected, atol=1e-6)


def test_a_log_has_the_stated_rates():
    codes = world().codes(40_000, np.random.default_rng(1))
    assert (codes.kind == Kind.TIE).mean() == pytest.approx(0.16, abs=0.01)
    assert (codes.kind == Kind.BOTH_BAD).mean() == pytest.approx(0.07, abs=0.01)
    assert (codes.a != codes.b).all()
    assert len(np.unique(codes.prompt)) == 30


def test_coverage_of_every_kind_of_interval():
    found = coverage(25, 2, models=4, battles=300)
    assert [one.made_by for one in found] == list(MADE_BY)
    assert all(0.0 <= one.covered <= 1.0 and one.half_width > 0.0 for one in found)
    sandwich, sem = found[0], found[-1]
    assert sem.half_width < sandwich.half_width / 3


def test_the_sample_is_the_same_every_time():
    assert list(demo_battles(50)) == list(demo_battles(50))
    assert list(demo_battles(50)) == list(islice(demo_battles(80), 50))
    assert list(demo_battles(50)) != list(demo_battles(50, seed=8))


def test_the_sample_has_what_the_options_ask_for():
    some = list(demo_battles(400))
    assert len({battle.question_id for battle in some}) > 100
    assert {battle.category for battle in some} == {"writing", "code", "maths", "advice"}
    assert all(battle.extra["length_a"] > 0 for battle in some)
    assert [battle.position for battle in some] == list(range(400))
