"""Paired differences: intervals that hold for one look, for all looks, and for samples that come in clusters."""

import math

import numpy as np
import pytest
from scipy import stats

from tiltyard.core.ratings.paired_difference import (
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


@pytest.mark.parametrize(("values", "reach"), [([], 1.0), ([], None), ([0.0, 0.0], None), ([0.3], None)])
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
    # One-sided: it may be much better, but it is not much worse.
    assert decide(-0.1, 0.3, 0.2) is ABDecision.NOT_WORSE
    assert decide(-0.1, 0.3, 0.05) is ABDecision.UNDECIDED


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


def in_clusters(sizes, spread, count, seed):
    """Differences of equal models whose clusters differ, and the number of the cluster of each sample."""
    rng = np.random.default_rng(seed)
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    for _ in range(count):
        effects = rng.normal(0.0, spread, len(sizes))[clusters]
        chance = np.clip(0.5 + np.array([[0.5], [-0.5]]) * effects, 0.0, 1.0)
        first, second = rng.random((2, len(clusters))) < chance
        yield first.astype(float) - second, clusters


def test_even_clusters_are_compared_as_a_t_test_of_their_means_would():
    values, clusters = next(in_clusters([25] * 20, 0.3, 1, seed=1))
    found = paired_difference(values, None, clusters=clusters)
    means = values.reshape(20, 25).mean(axis=1)
    low, high = stats.t.interval(0.95, 19, means.mean(), stats.sem(means))
    assert (found.clusters, found.low, found.high) == (20, pytest.approx(low), pytest.approx(high))


def test_fewer_than_five_even_clusters_decide_nothing():
    values, clusters = next(in_clusters([50, 50, 50, 50], 0.1, 1, seed=1))
    assert paired_difference(values, 1.0, clusters=clusters).high == math.inf
    values, clusters = next(in_clusters([400, 5, 5, 5, 5, 5, 5], 0.1, 1, seed=1))
    assert paired_difference(values, 1.0, clusters=clusters).high == math.inf


SIZES = ([5] * 10, [25] * 20, [100] + [10] * 19, [300 // (k + 1) + 1 for k in range(30)], [20] * 5, [3] * 200)


def false_decisions(sizes, spread, count, seed):
    found = (
        paired_difference(values, 1.0, clusters=clusters)
        for values, clusters in in_clusters(sizes, spread, count, seed)
    )
    return sum(decide(one.low, one.high, None) is not ABDecision.UNDECIDED for one in found) / count


@pytest.mark.no_cover
@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: f"{len(sizes)} of {sum(sizes)}")
def test_clusters_that_differ_decide_nothing_falsely(sizes):
    assert false_decisions(sizes, 0.25, 300, seed=2) <= 0.075


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, 0.1, 0.15, 0.25])
@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: f"{len(sizes)} of {sum(sizes)}")
def test_clusters_that_differ_decide_nothing_falsely_at_full_size(sizes, spread):
    share = false_decisions(sizes, spread, 4000, seed=3)
    print(f"{len(sizes)} clusters, {sum(sizes)} samples, spread {spread}: {share:.1%} falsely decided")
    assert share <= 0.057


@pytest.mark.no_cover
@pytest.mark.parametrize(("count", "size"), [(10, 30), (50, 6)])
def test_a_sequence_of_clusters_that_differ_holds_at_all_looks(count, size):
    rng, false = np.random.default_rng(4), 0
    for _ in range(150):
        clusters = rng.permutation(np.repeat(np.arange(count), size))
        drawn = rng.normal(0.0, 1.0, count)[clusters] + rng.normal(0.0, 1.0, count * size)
        leads = np.where(drawn > 0.5, 0.5, np.where(drawn < -0.5, -0.5, 0.0))
        for n in range(MIN_SEQUENCE_PROMPTS, len(leads) + 1, 15):
            found = paired_difference(leads[:n], 0.5, planned=300, clusters=clusters[:n])
            if decide(found.low, found.high, None) is not ABDecision.UNDECIDED:
                false += 1
                break
    assert false <= 13


@pytest.mark.no_cover
def test_clusters_cost_little_power():
    """Against a t test of the means of ten even clusters, which detects the difference in nine of ten worlds."""
    rng, ours, theirs = np.random.default_rng(5), 0, 0
    for _ in range(300):
        means = rng.normal(0.2, 0.15, 10)
        values = np.clip(np.repeat(means, 25) + rng.normal(0.0, 0.5, 250), -1.0, 1.0)
        found = paired_difference(values, 1.0, clusters=np.repeat(np.arange(10), 25))
        ours += found.low > 0.0
        theirs += stats.ttest_1samp(values.reshape(10, 25).mean(axis=1), 0.0).pvalue < 0.05
    assert ours >= 0.95 * theirs
