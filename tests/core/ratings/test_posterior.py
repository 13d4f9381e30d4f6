"""Intervals with a prior, against posteriors that are integrated by brute force."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import log_expit
from scipy.stats import norm, t

from lab.interval_coverage import prior_coverage
from support.left_out_by_loops import by_loops, fitted
from support.sizes import sized
from support.worlds import drawn, styled, table, told
from tiltyard.core.ratings import BradleyTerry, leave_one_out, posterior
from tiltyard.core.ratings.comparison import compare_models
from tiltyard.core.ratings.newton import Likelihood
from tiltyard.core.ratings.pairs import Scoring, score_pairs

UNIT = 400.0 / np.log(10.0)
SD = 300.0 / UNIT
PRIOR = BradleyTerry(prior_sd=300.0)
WON_ALL = "a>b*10 a>c*10 b>c*6 c>b*6"


def tails(x, log_density, level=0.95):
    """Equal-tailed limits of a density on an even grid."""
    height = np.exp(log_density - log_density.max())
    below = (np.cumsum(height) - height / 2.0) / height.sum()
    return np.interp([(1.0 - level) / 2.0, (1.0 + level) / 2.0], below, x)


@pytest.mark.parametrize(
    ("won", "lost", "level"), [(1, 0, 0.95), (144, 0, 0.95), (0, 20, 0.9), (20, 2, 0.95)]
)
def test_two_models_have_the_limits_of_their_exact_posterior(won, lost, level):
    result = BradleyTerry(prior_sd=300.0, level=level)(told(f"a>b*{won} b>a*{lost}"))
    d = np.linspace(-14.0, 14.0, 200_001)
    density = won * log_expit(d) + lost * log_expit(-d) - d * d / 4.0 / SD**2
    low, high = 1500.0 + UNIT * tails(d, density, level) / 2.0
    assert result.interval.low[0] == pytest.approx(low, abs=1.0)
    assert result.interval.high[0] == pytest.approx(high, abs=1.0)
    assert result.interval.low[1] == pytest.approx(3000.0 - high, abs=1.0)
    found = compare_models(told(f"a>b*{won} b>a*{lost}"), "a", "b", replace(result.method))
    assert (found.low, found.high) == pytest.approx((2.0 * (low - 1500.0), 2.0 * (high - 1500.0)), abs=2.0)


def test_three_models_have_nearly_the_limits_of_their_exact_posterior():
    result = PRIOR(told(WON_ALL))
    rng = np.random.default_rng(1)
    a, b, c = rng.normal(0.0, SD, (3, 400_000)) + np.array([[1.5], [-0.7], [-0.7]])
    shifted = ((a - 1.5) ** 2 + (b + 0.7) ** 2 + (c + 0.7) ** 2 - a * a - b * b - c * c) / 2.0 / SD**2
    inner = 10.0 * (log_expit(a - b) + log_expit(a - c)) + 6.0 * (log_expit(b - c) + log_expit(c - b))
    weight = np.exp(inner + shifted)
    samples = rng.choice(a - (a + b + c) / 3.0, 200_000, p=weight / weight.sum())
    low, high = 1500.0 + UNIT * np.quantile(samples, [0.025, 0.975])
    assert result.interval.low[0] == pytest.approx(low, abs=8.0)
    assert result.interval.high[0] == pytest.approx(high, abs=8.0)


def test_davidsons_tie_parameter_is_free_while_a_rating_is_held():
    result = BradleyTerry(prior_sd=300.0, ties="davidson")(told("a>b*12 a=b*3"))
    d, tie = np.linspace(-6.0, 14.0, 4001)[:, None], np.linspace(-6.0, 4.0, 801)[None, :]
    total = np.logaddexp(np.logaddexp(d / 2.0, -d / 2.0), tie)
    density = 12.0 * d / 2.0 + 3.0 * tie - 15.0 * total - d * d / 4.0 / SD**2
    marginal = np.log(np.exp(density - density.max()).sum(axis=1))
    low, high = 1500.0 + UNIT * tails(d[:, 0], marginal) / 2.0
    assert result.interval.low[0] == pytest.approx(low, abs=6.0)
    assert result.interval.high[0] == pytest.approx(high, abs=6.0)


@pytest.mark.parametrize("davidson", [False, True])
def test_the_gradient_is_that_of_the_value(davidson):
    world = table(drawn(4, 80, 1))
    likelihood = Likelihood(score_pairs(world.counts, 4, Scoring()), davidson, 0.3)
    x = np.array([0.4, -0.2, 0.7, 0.1, -0.5])[: 4 + davidson]
    gradient, _ = likelihood.derivatives(x, curved=False)
    np.testing.assert_allclose(approx_fprime(x, likelihood.value, 1e-7), gradient, atol=1e-4)


@pytest.mark.parametrize("prior_sd", [1.0, 1e4, 1e6])
def test_an_interval_holds_its_rating_whatever_the_prior(prior_sd):
    result = BradleyTerry(prior_sd=prior_sd)(told("a>b*144 b>c*10 c>b*8 a>c*3 c>d*30"))
    assert (result.interval.low <= result.rating).all()
    assert (result.rating <= result.interval.high).all()
    assert np.isfinite(result.interval.high).all()


def test_few_steps_at_each_point_come_near(monkeypatch):
    world = told("a>b*10 a>c*3 b>c*6 c>b*2")
    exact = PRIOR(world).interval
    monkeypatch.setattr(posterior, "_MAX_ITERATIONS", 1)
    near = PRIOR(world).interval
    np.testing.assert_allclose(near.high, exact.high, atol=20.0)


def test_the_prior_is_in_the_variance_and_the_posterior_beside_it(monkeypatch):
    monkeypatch.setattr(leave_one_out, "_EXACT_LEVERAGE_SHARE", 0.0)
    codes = drawn(5, 300, 2, prompts=30)
    world = table(codes)
    result, plain = PRIOR(world), fitted(world, prior_precision=1.0 / SD**2)
    covariance, dof = by_loops(codes, plain)
    covariance += plain.bread @ plain.bread / SD**2
    left_out, own = result.uncertainty.covariances
    np.testing.assert_allclose(left_out, covariance * UNIT**2, rtol=0, atol=1e-5)
    np.testing.assert_allclose(own, plain.bread * UNIT**2, atol=1e-6)
    np.testing.assert_allclose(result.uncertainty.dof, dof, rtol=1e-6)
    half = t.ppf(0.975, dof) * np.sqrt(np.maximum(np.diag(left_out), np.diag(own)))
    np.testing.assert_allclose(result.interval.high - result.rating, half, rtol=1e-6)


def test_where_the_variance_exceeds_the_posteriors_the_reach_grows_with_it():
    """One prompt against all others: clustered, the variance is far larger than of battles on their own."""
    story = "a>b*30 b>a*4 b>c*20 c>b*20 a>c*30"
    prompts = [f"q{k % 5}" for k in range(30)] + ["q0"] * 4 + [f"q{k % 5}" for k in range(70)]
    battle = PRIOR(told(story)).interval
    clustered = PRIOR(told(story, question_id=prompts))
    ratio = np.sqrt(clustered.uncertainty.ratings() / np.diag(clustered.uncertainty.covariances[1]))
    wider = (clustered.interval.high - clustered.rating) / (battle.high - clustered.rating)
    tail = t.ppf(0.975, clustered.uncertainty.dof[0])
    assert wider[0] == pytest.approx(ratio[0] * tail / norm.ppf(0.975), rel=0.02)


def test_a_bootstrap_with_a_prior_is_no_narrower():
    world = told(WON_ALL, question_id=[f"q{k % 8}" for k in range(32)])
    sandwich = PRIOR(world)
    replicated = replace(PRIOR, interval="bootstrap", n_bootstraps=20)(world)
    assert replicated.interval.high[0] > replicated.rating[0] + 100.0
    np.testing.assert_allclose(
        replicated.uncertainty.covariances[1], sandwich.uncertainty.covariances[1], rtol=1e-9
    )
    loose = replace(PRIOR, interval="bootstrap", n_bootstraps=20, ties="davidson")(told(f"{WON_ALL} b=c*5"))
    assert loose.interval.high[0] > loose.rating[0] + 100.0


def test_style_control_keeps_the_symmetric_interval():
    codes = drawn(3, 60, 1)
    codes.kind[codes.a == 0], codes.kind[codes.b == 0] = 0, 1
    result = BradleyTerry(prior_sd=300.0, style=True)(
        styled(codes, np.random.default_rng(1).normal(size=(60, 1)))
    )
    np.testing.assert_allclose(
        result.interval.high - result.rating, result.rating - result.interval.low, rtol=1e-9
    )
    assert (result.interval.high - result.rating)[0] > 100.0


def test_only_won_and_only_lost_are_said_with_a_prior_too():
    found = {finding.name: finding for finding in PRIOR(told("a>b*9 b>c*9")).findings}
    assert "only the prior" in found["only-wins"].text
    assert "only the prior" in found["only-loses"].text
    level = told("a>b b>a")
    assert not {"only-wins", "only-loses"} & {one.name for one in PRIOR(level).findings}


@pytest.mark.no_cover
def test_intervals_of_one_sided_models_hold_the_truth():
    """With the sandwich alone they held it in a third of the cases, of nearly one-sided ones in four fifths."""
    worlds = sized(60, 100)
    only, nearly = prior_coverage(worlds)
    assert only.models >= 0.2 * worlds
    assert nearly.models >= 1.3 * worlds
    assert min(only.covered, nearly.covered) >= 0.92
