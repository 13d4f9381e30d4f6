"""The variance of a judge's bias by model, and intervals that allow for it."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import chi2, norm, t

from support.sizes import sized
from tiltyard.core.ratings.judge_placement import ErrorMixture, estimate_bias


def statistic(deviations, noise, variance, position):
    """Q written out: weighted squares about the weighted line."""
    weights = np.linalg.inv(noise + variance * np.eye(len(deviations)))
    line = np.stack([np.ones(len(deviations)), position], axis=1)
    fitted = line @ np.linalg.solve(line.T @ weights @ line, line.T @ weights @ deviations)
    return (deviations - fitted) @ weights @ (deviations - fitted)


def estimated(deviations, noise, error=0.0):
    k = len(deviations)
    return estimate_bias(deviations, noise, np.linspace(-1.0, 1.0, k), error * np.eye(k))


def noisy(rng, k, spread, size=0.3):
    root = rng.normal(0.0, size, (k, k)) / np.sqrt(k)
    noise = root @ root.T + np.diag(rng.uniform(0.02, 0.3, k))
    return rng.multivariate_normal(np.zeros(k), noise + spread**2 * np.eye(k)) + 0.7, noise


def test_every_value_solves_its_equation():
    rng = np.random.default_rng(3)
    deviations, noise = noisy(rng, 9, 0.8)
    found = estimated(deviations, noise)
    assert len(found.variances) == 99
    assert (np.diff(found.variances) >= 0.0).all()
    for k, variance in enumerate(found.variances):
        quantile = chi2.isf((k + 0.5) / 99, 7)
        if variance > 0.0:
            assert statistic(deviations, noise, variance, np.linspace(-1.0, 1.0, 9)) == pytest.approx(
                quantile, rel=1e-9
            )
        else:
            assert statistic(deviations, noise, 0.0, np.linspace(-1.0, 1.0, 9)) <= quantile
    assert found.sd == pytest.approx(np.sqrt(found.variances[49]))
    assert found.sd < found.upper_sd


def test_weights_are_those_of_the_median_and_sum_to_one():
    deviations, noise = noisy(np.random.default_rng(4), 6, 0.5)
    found = estimated(deviations, noise)
    inverse = np.linalg.inv(noise + found.sd**2 * np.eye(6))
    assert found.weights == pytest.approx(inverse.sum(axis=1) / inverse.sum())
    assert found.weights.sum() == pytest.approx(1.0)


def test_equal_deviations_may_still_hide_a_small_bias():
    found = estimated(np.full(8, 0.4), np.eye(8) * 0.1)
    assert found.sd == found.upper_sd == 0.0
    assert found.weights == pytest.approx(np.full(8, 1 / 8))


@pytest.mark.parametrize("spread", [0.0, 0.4])
def test_the_true_variance_is_below_a_value_as_often_as_stated(spread):
    rng = np.random.default_rng(5)
    below = [
        np.mean(estimated(*noisy(rng, 7, spread)).variances < max(spread**2, 1e-12))
        for _ in range(sized(150, 400))
    ]
    for level in (0.25, 0.5, 0.9):
        share = np.mean(np.array(below) <= level)
        if spread:
            assert share == pytest.approx(level, abs=sized(9, 6) / 100)
        else:
            assert share <= level + sized(9, 6) / 100


def test_the_slope_is_that_of_the_weighted_line():
    deviations, noise = noisy(np.random.default_rng(4), 6, 0.5)
    found = estimated(deviations, noise)
    weights = np.linalg.inv(noise + found.sd**2 * np.eye(6))
    line = np.stack([np.ones(6), -np.linspace(-1.0, 1.0, 6)], axis=1)
    fitted = np.linalg.solve(line.T @ weights @ line, line.T @ weights @ deviations)
    assert found.slope_weights @ deviations == pytest.approx(fitted[1])
    assert found.slope_weights.sum() == pytest.approx(0.0, abs=1e-12)


def test_errors_of_the_positions_do_not_flatten_the_slope():
    """The falling line has slope 1; both what is measured and where it is measured have errors."""
    rng = np.random.default_rng(8)
    true = np.linspace(-1.0, 1.0, 12)
    plain, corrected = [], []
    for _ in range(sized(40, 400)):
        error = rng.normal(0.0, 0.5, 12)
        position = true + error
        for slopes, shared in ((plain, 0.0), (corrected, 1.0)):
            slope = 1.0
            for _ in range(15):
                deviations = slope * position - true
                noise = (0.2**2 + 0.25 * slope**2) * np.eye(12)
                found = estimate_bias(deviations, noise, position, shared * slope * 0.25 * np.eye(12))
                slope += float(found.slope_weights @ deviations)
            slopes.append(slope)
    assert np.median(plain) < 0.75
    assert np.median(corrected) == pytest.approx(1.0, abs=sized(15, 8) / 100)


def test_one_variance_is_students_interval():
    one = ErrorMixture(np.array([[1.0], [5.0]]), np.array([[2.0], [3.0]]), np.array([7.0, 1e7]))
    assert one.quantile(0.975) == pytest.approx([1.0 + 2.0 * t.ppf(0.975, 7.0), 5.0 + 3.0 * norm.ppf(0.975)])


def test_a_mixture_holds_its_level():
    center, error = np.array([0.0, 0.5, 2.0, 9.0]), np.array([0.3, 1.0, 4.0, 25.0])
    mixture = ErrorMixture(center[None], error[None], np.array([5.0]))
    [value] = mixture.quantile(0.9)
    assert value == pytest.approx(
        brentq(lambda x: np.mean(t.cdf((x - center) / error, 5.0)) - 0.9, -50.0, 99.0)
    )
    assert mixture.below(np.array([value])) == pytest.approx([0.9])
