"""The study of one board of people and a judge: its estimates are those of people where the judge tells nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lab.combined_study import CombinedWorld, combine, make_world, measure_gain

WORLD = CombinedWorld(prompts=20, judged_prompts=5, votes=600)


def test_a_judge_that_says_the_same_of_every_match_changes_nothing() -> None:
    found = make_world(WORLD, np.random.default_rng(1))
    alone = combine(found.votes, None, WORLD.prompts)
    level = combine(found.votes, np.full_like(found.judged, 0.5), WORLD.prompts)
    assert np.abs(level.ratings - alone.ratings).max() < 0.2
    assert level.errors == pytest.approx(alone.errors, rel=0.2)


def test_a_judge_that_sees_as_people_do_on_more_prompts_narrows_the_intervals() -> None:
    gain = measure_gain(replace(WORLD, prompt_sd=1.5, shared=1.0, judge_prompt_sd=0.0), 6, 2)
    assert gain.correlation > 0.4
    assert gain.error < 0.95
    assert gain.width < 0.9


@pytest.mark.slow
def test_the_truth_is_found_with_many_votes() -> None:
    found = make_world(CombinedWorld(prompts=2000, votes=40_000, voters=4000), np.random.default_rng(3))
    rated = combine(found.votes, None, 2000)
    assert np.abs(rated.ratings - found.truth).max() < 4 * rated.errors.max()
