"""The boundary under the marks: exact against numbers, and never crossed more often than it says."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.order_votes import numeric_log_evidence
from tiltyard.core.policy.validity.mixture_martingale import MixtureMartingale

mixtures = st.builds(
    MixtureMartingale, gap=st.sampled_from([0.0, 30.0, 60.0]), spread=st.sampled_from([15.0, 30.0, 60.0])
)


def of(z2, n, mixture):
    return float(mixture.log_evidence(np.array([z2]), np.array([n]))[0])


@given(mixtures, st.floats(0.0, 60.0), st.floats(0.0, 1e4))
def test_the_closed_form_is_the_integral(mixture, z2, n):
    assert of(z2, n, mixture) == pytest.approx(numeric_log_evidence(mixture, z2, n), abs=1e-6)


@given(mixtures, st.floats(0.01, 1e7), st.floats(1e-9, 0.9))
def test_at_the_critical_value_the_evidence_is_just_enough(mixture, n, level):
    z = float(mixture.critical(np.array([n]), np.array([level]))[0])
    assert z > 0.0
    assert of(z * z, n, mixture) == pytest.approx(-math.log(level), rel=1e-9, abs=1e-9)


def test_a_normal_around_zero_has_the_boundary_of_robbins():
    """|S| = √((n+ρ)·ln((n+ρ)/(ρα²))): Howard et al. 2021, equation (14), two-sided."""
    mixture, n = MixtureMartingale(gap=0.0, spread=40.0), np.array([1.0, 50.0, 3000.0])
    rho = mixture.precision
    expected = np.sqrt((n + rho) * np.log((n + rho) / (rho * 0.05**2)))
    np.testing.assert_allclose(mixture.critical(n, np.full(3, 0.05)) * np.sqrt(n), expected, rtol=1e-9)


def test_the_gap_is_that_of_the_elo_scale():
    won = 1.0 / (1.0 + 10.0 ** (-60.0 / 400.0))
    assert MixtureMartingale(gap=60.0).centre == pytest.approx(2.0 * won - 1.0)


def test_a_fair_coin_has_an_expected_evidence_of_at_most_one_at_any_time():
    mixture = MixtureMartingale()
    for n in (1, 7, 40, 400):
        heads = np.arange(n + 1)
        log_chance = [math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in heads]
        chance = np.exp(np.array(log_chance) - n * math.log(2.0))
        z2 = (2.0 * heads - n) ** 2 / n
        evidence = np.exp(mixture.log_evidence(z2, np.full(n + 1, float(n))))
        assert 0.9 < float(chance @ evidence) <= 1.0 + 1e-9


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_fair_coins_cross_the_boundary_at_most_as_often_as_allowed(alpha):
    """Ville's inequality, looked at after every one of 2,000 throws."""
    rng = np.random.default_rng(11)
    throws, n = 4000, np.arange(1.0, 2001.0)
    sums = np.cumsum(2.0 * rng.integers(0, 2, (throws, len(n))) - 1.0, axis=1)
    critical = MixtureMartingale().critical(n, np.full(len(n), alpha)) * np.sqrt(n)
    crossed = float(np.mean((np.abs(sums) >= critical).any(axis=1)))
    error = math.sqrt(alpha * (1.0 - alpha) / throws)
    assert 0.4 * alpha < crossed < alpha + 2.0 * error
