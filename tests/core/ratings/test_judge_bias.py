"""The variance of a judge's bias by model, and intervals that allow for it."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import chi2, norm, t

from support.sizes import sized
from tiltyard.core.ratings.judge_placement import estimate_bias, mixed_half_width


def statistic(deviations, noise, variance):
    """Q written out: weighted squares about the weighted mean."""
    weights = np.linalg.inv(noise + variance * np.eye(len(deviations)))
    one = np.ones(len(deviations))
    mean = one @ weights @ deviations / (one @ weights @ one)
    return (deviations - mean) @ weights @ (deviations - mean)


def noisy(rng, k, spread, size=0.3):
    root = rng.normal(0.0, size, (k, k)) / np.sqrt(k)
    noise = root @ root.T + np.diag(rng.uniform(0.02, 0.3, k))
    return rng.multivariate_normal(np.zeros(k), noise + spread**2 * np.eye(k)) + 0.7, noise


def test_every_value_solves_its_equation():
    rng = np.random.default_rng(3)
    deviations, noise = noisy(rng, 9, 0.8)
    found = estimate_bias(deviations, noise)
    assert len(found.variances) == 99
    assert (np.diff(found.variances) >= 0.0).all()
    for k, variance in enumerate(found.variances):
        quantile = chi2.isf((k + 0.5) / 99, 8)
        if variance > 0.0:
            assert statistic(deviations, noise, variance) == pytest.approx(quantile, rel=1e-9)
        else:
            assert statistic(deviations, noise, 0.0) <= quantile
    assert found.sd == pytest.approx(np.sqrt(found.variances[49]))
    assert found.sd < found.upper_sd


def test_weights_are_those_of_the_median_and_sum_to_one():
    deviations, noise = noisy(np.random.default_rng(4), 6, 0.5)
    found = estimate_bias(deviations, noise)
    inverse = np.linalg.inv(noise + found.sd**2 * np.eye(6))
    assert found.weights == pytest.approx(inverse.sum(axis=1) / inverse.sum())
    assert found.weights.sum() == pytest.approx(1.0)


def test_equal_deviations_may_still_hide_a_small_bias():
    found = estimate_bias(np.full(8, 0.4), np.eye(8) * 0.1)
    assert found.sd == found.upper_sd == 0.0
    assert found.weights == pytest.approx(np.full(8, 1 / 8))


@pytest.mark.parametrize("spread", [0.0, 0.4])
def test_the_true_variance_is_below_a_value_as_often_as_stated(spread):
    rng = np.random.default_rng(5)
    below = [
        np.mean(estimate_bias(*noisy(rng, 7, spread)).variances < max(spread**2, 1e-12))
        for _ in range(sized(150, 400))
    ]
    for level in (0.25, 0.5, 0.9):
        share = np.mean(np.array(below) <= level)
        if spread:
            assert share == pytest.approx(level, abs=sized(9, 6) / 100)
        else:
            assert share <= level + sized(9, 6) / 100


def test_one_variance_is_students_interval():
    widths = mixed_half_width(np.array([[4.0], [9.0]]), np.array([7.0, np.inf]), 0.95)
    assert widths == pytest.approx([2.0 * t.ppf(0.975, 7.0), 3.0 * norm.ppf(0.975)])


def test_a_mixture_holds_its_level():
    variances = np.array([[0.0, 1.0, 4.0, 25.0]])
    [width] = mixed_half_width(variances, np.array([5.0]), 0.9)

    def inside(half):
        return np.mean([1.0, *(2.0 * t.cdf(half / error, 5.0) - 1.0 for error in (1.0, 2.0, 5.0))]) - 0.9

    assert width == pytest.approx(brentq(inside, 0.1, 50.0))


def test_steps_come_from_below(monkeypatch):
    variances = np.array([[0.1, 1.0, 4.0, 25.0]])
    [width] = mixed_half_width(variances, np.array([5.0]), 0.9)
    monkeypatch.setattr("tiltyard.core.ratings.judge_placement._BIAS_STEP_LIMIT", 2)
    [early] = mixed_half_width(variances, np.array([5.0]), 0.9)
    assert 0.5 * width < early < width
