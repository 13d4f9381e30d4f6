"""Paired differences: intervals that hold for one look, and for all looks."""

import math

import numpy as np
import pytest
from scipy import stats

from tiltyard.core.ratings.comparison import (
    MIN_SEQUENCE_PROMPTS,
    ABDecision,
    decide,
    paired_difference,
    prompts_needed,
)
from tiltyard.errors import BadOption


def decided(values, reach, margin):
    found = paired_difference(np.asarray(values, dtype=float), reach)
    return decide(found.low, found.high, margin)


def test_it_is_the_t_interval_of_the_prompts_and_two_imaginary_ones():
    values = np.array([1.0, 0.0, 0.0, 1.0, -1.0, 1.0])
    found = paired_difference(values, 1.0, level=0.9)
    both = np.append(values, [1.0, -1.0])
    low, high = stats.t.interval(0.9, len(both) - 1, both.mean(), stats.sem(both))
    assert (found.prompts, found.mean, found.level) == (6, pytest.approx(1 / 3), 0.9)
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))


def test_prompts_that_all_agree_are_not_certain():
    """Five answers that are all right on both sides do not show that the models are the same."""
    assert decided(np.zeros(5), 1.0, 0.05) is ABDecision.UNDECIDED
    assert decided(np.zeros(400), 1.0, 0.05) is ABDecision.SAME


@pytest.mark.parametrize(("values", "reach"), [([], 1.0), ([0.0, 0.0], 0.0)])
def test_nothing_is_said_of_nothing(values, reach):
    found = paired_difference(np.array(values), reach)
    assert (found.low, found.high) == (-math.inf, math.inf)
    assert prompts_needed(found, 0.1) is None


def test_decisions():
    assert decide(0.1, 0.3, None) is ABDecision.BETTER
    assert decide(-0.3, -0.1, None) is ABDecision.WORSE
    assert decide(-0.1, 0.1, None) is ABDecision.UNDECIDED
    assert decide(-0.1, 0.1, 0.2) is ABDecision.SAME
    # Surely better or worse, but by less than matters.
    assert decide(0.01, 0.02, 0.2) is ABDecision.SAME
    assert decide(-0.139, -0.0253, 0.3) is ABDecision.SAME
    assert decide(-0.139, -0.0253, 0.1) is ABDecision.WORSE
    assert decide(0.1, 0.3, 0.2) is ABDecision.BETTER
    assert decide(-0.2, 0.2, 0.2) is ABDecision.SAME


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_a_level_is_a_probability(level):
    with pytest.raises(BadOption, match="between 0 and 1"):
        paired_difference(np.zeros(3), 1.0, level=level)


@pytest.mark.parametrize("planned", [None, 200])
def test_so_many_prompts_as_are_said_would_decide(planned):
    rng = np.random.default_rng(1)
    some = rng.choice([-0.5, 0.0, 0.5], 60, p=[0.3, 0.2, 0.5])
    needed = prompts_needed(paired_difference(some, 0.5, planned=planned), planned=planned)
    ahead = paired_difference(np.resize(some, needed), 0.5, planned=planned)
    assert ahead.low > -0.03
    # A difference that is nearly nothing needs more prompts than anybody has, unless it may count as the same.
    level = paired_difference(np.tile([-0.5, 0.5, 0.5, -0.5, 1e-9], 20), 0.5, planned=planned)
    assert prompts_needed(level, planned=planned) is None
    assert prompts_needed(level, 0.05, planned=planned) > 100


def test_a_sequence_says_nothing_at_first_and_overflows_never():
    wins = np.full(MIN_SEQUENCE_PROMPTS, 0.5)
    assert paired_difference(wins[:-1], 0.5, planned=200).high == math.inf
    assert paired_difference(wins, 0.5, planned=200).low > 0.0
    assert math.isfinite(paired_difference(wins, 0.5, level=1 - 1e-15, planned=10**9).high)


def worlds(gap, count, prompts, seed):
    """Leads in worlds with effects of prompts and a fifth of ties; ``gap`` in logits."""
    rng = np.random.default_rng(seed)
    chance = 1.0 / (1.0 + np.exp(-gap - rng.normal(0.0, 0.5, (count, prompts))))
    lead = np.where(rng.random((count, prompts)) < chance, 0.5, -0.5)
    return np.where(rng.random((count, prompts)) < 0.2, 0.0, lead)


def first_decisions(leads, planned=200):
    """The decision at which each world stops, and after how many prompts; a look at every tenth."""
    for one in leads:
        for n in range(MIN_SEQUENCE_PROMPTS, len(one) + 1, 10):
            found = paired_difference(one[:n], 0.5, planned=planned)
            decision = decide(found.low, found.high, None)
            if decision is not ABDecision.UNDECIDED:
                break
        yield decision, n


@pytest.mark.no_cover
def test_equal_models_are_rarely_told_apart_however_often_one_looks():
    """At most 13 of 150, where 5 % are allowed; an interval for one look is wrong in many more."""
    leads = worlds(0.0, 150, 600, seed=3)
    told = [decision for decision, _ in first_decisions(leads) if decision is not ABDecision.UNDECIDED]
    assert len(told) <= 13
    peeked = [
        decision
        for decision, _ in first_decisions(leads, planned=None)
        if decision is not ABDecision.UNDECIDED
    ]
    assert len(peeked) >= 25


@pytest.mark.no_cover
def test_it_takes_few_more_prompts_than_a_test_of_fixed_size():
    """With 80 % power at 80 points, by the variance that the worlds have."""
    leads = worlds(80 * math.log(10) / 400, 60, 1200, seed=4)
    ended = list(first_decisions(leads))
    assert all(decision is not ABDecision.WORSE for decision, _ in ended)
    fixed = 7.849 * leads.var() / leads.mean() ** 2
    assert np.median([n for _, n in ended]) <= 1.25 * fixed


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("p", "q", "same", "n"),
    [(0.5, 0.5, 0.0, 10), (0.9, 0.95, 0.5, 100), (0.97, 0.99, 0.8, 100), (0.7, 0.7, 0.9, 10)],
)
def test_intervals_of_scores_hold_the_truth(p, q, same, n):
    """Successes and failures of two models that often agree."""
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(300):
        first = rng.random(n) < p
        second = np.where(rng.random(n) < same, first, rng.random(n) < q)
        found = paired_difference(second.astype(float) - first, 1.0)
        held += found.low <= (1.0 - same) * (q - p) <= found.high
    assert held / 300 >= 0.92
