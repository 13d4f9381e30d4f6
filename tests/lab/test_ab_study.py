"""The study of `tiltyard ab` at a small size."""

from dataclasses import replace

import numpy as np
import pytest

from lab.ab_study import (
    FAMILIES,
    JUDGES,
    family_answers,
    judged_leads,
    stopped,
)
from lab.broken_models import BROKEN_JUDGES, decisions, planted_share
from tiltyard.core.ratings.paired_difference import ABDecision


@pytest.mark.slow
@pytest.mark.parametrize("kind", JUDGES)
def test_equal_models_are_rarely_told_apart_and_the_better_one_is_found(kind):
    rng = np.random.default_rng(7)
    equal = [stopped(judged_leads(kind, 0.0, 300, rng))[0] for _ in range(20)]
    assert sum(one is not ABDecision.UNDECIDED for one in equal) <= 3
    better = [stopped(judged_leads(kind, 200.0, 1500, rng))[0] for _ in range(10)]
    assert better.count(ABDecision.BETTER) >= 9


def test_a_world_of_several_candidates_has_the_differences_that_it_says():
    family = replace(FAMILIES["one better, one worse"], samples=20_000)
    sides = family_answers(family, np.random.default_rng(5))
    base, *others = ([list(one.scores.values()) for one in side] for side in sides)
    for truth, other in zip(family.truths, others, strict=True):
        # More latency is worse.
        found = (np.mean(other, axis=0) - np.mean(base, axis=0)) * [1, 1, -1, 1]
        assert found == pytest.approx(truth, abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN_JUDGES)
def test_no_judge_calls_a_broken_model_as_good(name):
    found = decisions(name, range(4))
    assert found.total() == 4
    assert not found.keys() & {"same", "not worse", "better"}
    if name.startswith("sharp"):
        assert found == {"worse": 4}


def test_spoilt_answers_are_a_tenth_of_the_calls_at_most():
    assert max(planted_share(80)) <= 0.1
    assert planted_share(30)[1] <= 0.1
