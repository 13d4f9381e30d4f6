import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tiltyard.core.ratings.proportions import (
    estimate_share,
    share_difference,
)

CLUSTERS = st.lists(
    st.integers(0, 12).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=1, max_size=25
)


def of(clusters, level=0.95):
    hits, trials = np.array(clusters).T
    return estimate_share(hits, trials, level)


def twin(clusters, level=0.95):
    """The docstring of `estimate_share` in exact fractions, as far as they go."""
    clusters = [(y, n) for y, n in clusters if n]
    k, total = len(clusters), sum(n for _, n in clusters)
    p = Fraction(sum(y for y, _ in clusters), total)
    if k == 1:
        return float(p), 0.0, 1.0
    alike = Fraction(total**2, sum(n * n for _, n in clusters))
    effective = alike
    if 0 < p < 1:
        variance = Fraction(k, k - 1) * sum((y - p * n) ** 2 for y, n in clusters) / total**2
        effective = total / max(variance / (p * (1 - p) / total), Fraction(1))
    t = stats.t.ppf((1 + level) / 2, float(alike) - 1)
    roots = np.roots([1 + t * t / float(effective), -(2 * p + t * t / float(effective)), float(p * p)])
    low, high = sorted(np.real(roots))
    return float(p), low, high


@given(CLUSTERS.filter(lambda clusters: any(n for _, n in clusters)))
def test_a_share_equals_its_twin_in_fractions(clusters):
    found = of(clusters)
    assert np.allclose([found.value, found.low, found.high], twin(clusters), atol=2e-7)
    assert 0.0 <= found.low <= found.value <= found.high <= 1.0
    assert found.n == sum(n for _, n in clusters)


@given(CLUSTERS, st.randoms(use_true_random=False))
def test_the_order_of_clusters_does_not_matter_to_the_last_bit(clusters, rng):
    assert of(clusters) == of(rng.sample(clusters, len(clusters)))


@given(CLUSTERS.filter(lambda clusters: any(n for _, n in clusters)))
def test_misses_mirror_hits(clusters):
    found, mirrored = of(clusters), of([(n - y, n) for y, n in clusters])
    assert math.isclose(found.low, 1.0 - mirrored.high, abs_tol=1e-12)
    assert math.isclose(found.high, 1.0 - mirrored.low, abs_tol=1e-12)


@given(CLUSTERS.filter(lambda clusters: sum(n > 0 for _, n in clusters) > 1), st.integers(2, 5))
def test_repeating_the_same_trials_in_each_cluster_shows_nothing_new(clusters, times):
    """Trials copied within their prompt must not narrow the interval below that of one cluster each."""
    copied = of([(y * times, n * times) for y, n in clusters])
    once = of(clusters)
    hits, trials = (sum(part) for part in zip(*clusters, strict=True))
    if all(y in (0, n) for y, n in clusters) and 0 < hits < trials:
        assert math.isclose(copied.high - copied.low, once.high - once.low, rel_tol=1e-9)
    assert copied.value == once.value


def test_many_single_trials_give_the_interval_of_wilson():
    from statsmodels.stats.proportion import proportion_confint

    found = of([(1, 1)] * 3000 + [(0, 1)] * 7000)
    low, high = proportion_confint(3000, 10000, method="wilson")
    assert math.isclose(found.low, low, abs_tol=1e-5)
    assert math.isclose(found.high, high, abs_tol=1e-5)


def test_without_trials_nothing_is_said_and_one_prompt_says_nothing_of_others():
    assert of([(0, 0), (0, 0)]) is None
    assert estimate_share(np.empty(0, dtype=int), np.empty(0, dtype=int)) is None
    only = of([(3, 4), (0, 0)])
    assert (only.value, only.low, only.high, only.clusters) == (0.75, 0.0, 1.0, 1)


def test_one_prompt_that_outweighs_all_others_leaves_everything_open():
    found = of([(5_000_000, 10_000_000), (1, 1)])
    assert (found.low, found.high) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("prompts", "centre", "alike"), [(6, 0.5, 0.15), (12, 0.3, 0.3), (40, 0.8, 0.2), (6, 0.8, 0.2)]
)
def test_intervals_cover_in_clustered_worlds_where_naive_ones_do_not(prompts, centre, alike):
    """Each prompt has its own share, beta with intraclass correlation ``alike``; sizes differ."""
    from statsmodels.stats.proportion import proportion_confint

    rng = np.random.default_rng([prompts, int(100 * centre)])
    worlds, covered, naive = 300, 0, 0
    for _ in range(worlds):
        trials = rng.integers(12, 30, prompts)
        own = rng.beta(centre * (1 / alike - 1), (1 - centre) * (1 / alike - 1), prompts)
        hits = rng.binomial(trials, own)
        found = estimate_share(hits, trials)
        covered += found.low <= centre <= found.high
        low, high = proportion_confint(hits.sum(), trials.sum(), method="wilson")
        naive += low <= centre <= high
    assert covered / worlds >= 0.92
    assert naive / worlds < 0.85


@given(CLUSTERS, CLUSTERS)
def test_a_difference_mirrors_and_holds_its_value(one, other):
    one, other = of([*one, (1, 2)]), of([*other, (1, 2)])
    found, mirrored = share_difference(one, other), share_difference(other, one)
    assert -1.0 <= found.low <= found.value <= found.high <= 1.0
    assert (found.low, found.value) == (-mirrored.high, -mirrored.value)
    assert found.excludes(found.low - 0.1)
    assert not found.excludes(found.value)
