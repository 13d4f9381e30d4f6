"""Intervals and claims of order in hostile worlds, at a small size; `just inference` runs the full one."""

from dataclasses import replace

import numpy as np
import pytest

from lab.inference_studies import InferenceSettings, _oracle_covariance, study_inference
from tiltyard.core.ratings import BradleyTerry
from tiltyard.simulation.worlds import WorldSettings, draw_world_of, hostile_world

KIND = WorldSettings(10, 100, close_top=False, lazy=0.0)


def studied(name, worlds, battles=3000, method=None, **changes):
    settings = InferenceSettings(
        replace(hostile_world(name, KIND), **changes), battles, method=method or BradleyTerry()
    )
    return [study_inference(settings, seed) for seed in range(worlds)]


def mean(results, name):
    return float(np.mean([getattr(result, name) for result in results]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "prompts"), [("uneven", 30), ("heavy-voters", 100), ("uneven+heavy-voters", 100)]
)
def test_intervals_hold_the_truth_in_uneven_worlds(name, prompts):
    results = studied(name, 20, prompts=prompts)
    assert mean(results, "ratings_covered") >= 0.9
    assert mean(results, "differences_covered") >= 0.9
    assert mean(results, "refused") == 0.0
    assert mean(results, "to_oracle") < 1.25


@pytest.mark.slow
def test_without_the_limit_intervals_are_refused_and_errors_larger():
    plain = studied("uneven", 15, prompts=30, prompt_pareto=0.7)
    unlimited = studied("uneven", 15, prompts=30, prompt_pareto=0.7, method=BradleyTerry(max_share=None))
    assert mean(unlimited, "refused") > 0.2
    assert mean(plain, "refused") <= 0.1
    assert mean(plain, "error") < mean(unlimited, "error")


@pytest.mark.slow(but="equal+heavy-voters")
@pytest.mark.parametrize("name", ["equal", "equal+voters", "equal+heavy-voters"])
def test_an_order_of_equal_models_is_rarely_claimed(name):
    assert sum(result.false_claim for result in studied(name, 15, models=8, battles=1200)) <= 2


@pytest.mark.slow
def test_the_oracle_knows_how_far_ratings_stray():
    settings = hostile_world("voters", KIND)
    spread, stated = [], []
    for seed in range(60):
        rng = np.random.default_rng([seed, 0])
        world = draw_world_of(settings, rng)
        table = world.table(2000, rng)
        rating = BradleyTerry(interval="none")(table).rating
        spread.append(np.mean((rating - rating.mean() - world.truth()) ** 2))
        stated.append(np.mean(np.diag(_oracle_covariance(world, table))))
    assert np.sqrt(np.mean(stated) / np.mean(spread)) == pytest.approx(1.0, abs=0.2)


def test_a_world_whose_battles_are_all_on_one_prompt_has_no_interval_for_prompts_like_these():
    """It happens where battles per prompt are very uneven; the interval that there is speaks of that prompt."""
    world = WorldSettings(5, 1, close_top=False, lazy=0.0)
    found = study_inference(InferenceSettings(world, 300), 1)
    assert (found.refused, found.dof, found.ratings_covered) == (1.0, None, None)
