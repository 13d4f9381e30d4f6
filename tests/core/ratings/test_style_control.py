import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from support.worlds import drawn, styled, table
from tiltyard.core.battles import CodedBattles, Kind
from tiltyard.core.ratings import BradleyTerry, leave_one_out, style_control
from tiltyard.core.ratings.kernels import style_control as kernels
from tiltyard.core.ratings.kernels.style_control import gradient_loop, gradient_vectors
from tiltyard.core.ratings.pairs import Scoring
from tiltyard.errors import CannotRate

UNIT = 400.0 / math.log(10.0)
STYLE = BradleyTerry(style=True)


def verbose_world(m=4, n=400, seed=1, **world):
    """Battles that the longer answer tends to win, whoever wrote it."""
    rng = np.random.default_rng(seed)
    z = np.stack([rng.normal(0.0, 30.0, n), rng.normal(0.0, 1.0, n)], axis=1)
    codes = drawn(m, n, seed, **world)
    longer = rng.random(n) < 0.4
    kind = np.where(longer, np.where(z[:, 0] > 0, Kind.WIN_A, Kind.WIN_B), codes.kind)
    return replace(codes, kind=kind.astype(np.uint8)), z


def design(codes, z, m):
    """One column per model but the last, then the covariates at root mean square one."""
    models = np.zeros((len(codes), m))
    models[np.arange(len(codes)), codes.a] = 1.0
    models[np.arange(len(codes)), codes.b] = -1.0
    return np.hstack([models[:, :-1], z / np.sqrt((z**2).mean(axis=0))])


def test_statsmodels_agrees_with_style_in_the_regression():
    import statsmodels.api as sm

    codes, z = verbose_world()
    fit = sm.GLM(Scoring().of(codes), design(codes, z, 4), family=sm.families.Binomial()).fit(
        tol=1e-14, cov_type="HC0"
    )
    result = STYLE(styled(codes, z))
    theta = np.append(fit.params[:3], 0.0)
    np.testing.assert_allclose(result.rating - 1500.0, UNIT * (theta - theta.mean()), rtol=0, atol=1e-6)
    np.testing.assert_allclose(list(result.extras["style"].values()), fit.params[3:], rtol=0, atol=1e-8)
    np.testing.assert_allclose(
        list(result.extras["style_se"].values()), fit.bse[3:] * math.sqrt(400 / 399), rtol=1e-6
    )
    assert list(result.extras["style"]) == ["s0", "s1"]
    assert list(result.extras["style_dof"].values()) == [math.inf, math.inf]
    np.testing.assert_allclose(
        list(result.extras["style_scale"].values()), np.sqrt((z**2).mean(axis=0)), rtol=1e-9
    )


@pytest.mark.filterwarnings("ignore")
def test_statsmodels_agrees_on_the_covariance_by_prompt(monkeypatch):
    """Its regression without one prompt, one step of Newton's from the fit to all: the shift of each prompt."""
    import statsmodels.api as sm

    monkeypatch.setattr(leave_one_out, "_EXACT_LEVERAGE_SHARE", 0.0)
    codes, z = verbose_world(prompts=30)
    y, x = Scoring().of(codes), design(codes, z, 4)

    def params(chosen, **options):
        return sm.GLM(y[chosen], x[chosen], family=sm.families.Binomial()).fit(tol=1e-14, **options).params

    every = params(np.arange(400))
    shifts = np.array(
        [params(codes.prompt != prompt, start_params=every, maxiter=1) - every for prompt in range(1, 31)]
    )
    whole = shifts.T @ shifts * 29 / 30
    full = np.zeros((4, 4))
    full[:3, :3] = whole[:3, :3]
    centre = np.eye(4) - 0.25
    result = STYLE(styled(codes, z))
    np.testing.assert_allclose(
        result.uncertainty.covariances[0], centre @ full @ centre * UNIT**2, rtol=0, atol=1e-3
    )
    np.testing.assert_allclose(
        list(result.extras["style_se"].values()), np.sqrt(np.diag(whole)[3:]), rtol=1e-5
    )
    assert all(10.0 < dof < 29.0 for dof in result.extras["style_dof"].values())


def test_with_weights_and_a_prior_it_maximises_the_penalised_likelihood():
    codes, z = verbose_world(n=150, weighted=True)
    codes.kind[:5] = Kind.BOTH_BAD
    y, w = Scoring().of(codes), codes.weight
    used = ~np.isnan(y)
    scaled = z / np.sqrt((z[used] ** 2).mean(axis=0))

    def loss(x):
        eta = (x[codes.a] - x[codes.b] + scaled @ x[4:])[used]
        likelihood = w[used] @ (y[used] * eta - np.logaddexp(0.0, eta))
        return -likelihood + 0.5 * np.sum((UNIT * x[:4] / 120.0) ** 2)

    best = minimize(loss, np.zeros(6), method="BFGS", options={"gtol": 1e-8}).x
    result = BradleyTerry(style=True, prior_sd=120.0)(styled(codes, z))
    np.testing.assert_allclose(result.rating - 1500.0, UNIT * best[:4], rtol=0, atol=1e-3)
    np.testing.assert_allclose(list(result.extras["style"].values()), best[4:], rtol=0, atol=1e-5)


def test_style_takes_what_is_due_to_length_off_the_ratings():
    """Two equal models, one of which writes more and wins by that alone."""
    rng = np.random.default_rng(3)
    longer = rng.normal(1.0, 1.0, 4000)
    won = rng.random(4000) < 1.0 / (1.0 + np.exp(-longer))
    codes = CodedBattles(*np.tile([[0], [1]], 4000).astype(np.uint16), np.where(won, 0, 1).astype(np.uint8))
    plain, controlled = BradleyTerry()(table(codes)), STYLE(styled(codes, longer[:, None]))
    assert plain.rating[0] - plain.rating[1] > 100.0
    assert abs(controlled.rating[0] - controlled.rating[1]) < 40.0


@pytest.mark.parametrize("weighted", [False, True])
def test_the_passes_agree(weighted, monkeypatch):
    monkeypatch.setattr(kernels, "_BLOCK_ROWS", 64)
    codes, z = verbose_world(n=200, weighted=weighted)
    y = Scoring().of(codes)
    y[::20] = np.nan
    w = codes.weight if weighted else np.ones(1)
    theta, beta = np.array([0.3, -0.2, 0.5, -40.0]), np.array([0.01, -0.4])
    loop, vectors = (
        one_pass(codes.a, codes.b, y, w, z, theta, beta, True)
        for one_pass in (gradient_loop, gradient_vectors)
    )
    for one, other in zip(loop, vectors, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.no_cover
def test_the_compiled_kernel_gives_the_same_numbers():
    codes, z = verbose_world(weighted=True)
    world = styled(codes, z)
    plain, fast = (BradleyTerry(style=True, kernel=kernel)(world) for kernel in ("plain", "compiled"))
    assert (plain.extras["kernel"], fast.extras["kernel"]) == ("plain", "compiled")
    np.testing.assert_allclose(fast.rating, plain.rating, rtol=0, atol=1e-9)
    np.testing.assert_allclose(fast.uncertainty.covariances[0], plain.uncertainty.covariances[0], rtol=1e-9)


def test_a_step_that_went_too_far_is_halved():
    z = np.array([[-40.6, -87.0], [0.0, 0.0], [0.0, 0.0], [-5.7, 4.8], [0.9, 2.8], [4.2, 12.5]])
    codes = CodedBattles(
        np.ones(6, np.uint16), np.zeros(6, np.uint16), np.array([0, 0, 1, 1, 2, 1], np.uint8)
    )
    scaled = z / np.sqrt((z**2).mean(axis=0))
    fit = style_control.fit_style(
        replace(codes, covariates=z), Scoring().of(codes), 2, style_control.StylePrior(), "plain"
    )
    assert fit.converged
    gradient, _ = gradient_vectors(
        codes.a, codes.b, Scoring().of(codes), np.ones(1), scaled, fit.theta, fit.beta, False
    )
    np.testing.assert_allclose(gradient, 0.0, atol=1e-8)


def test_a_start_from_part_of_the_log_changes_nothing(monkeypatch):
    codes, z = verbose_world()
    whole = STYLE(styled(codes, z))
    monkeypatch.setattr(style_control, "_FIRST_PART_ROWS", 4)
    started = STYLE(styled(codes, z))
    np.testing.assert_allclose(started.rating, whole.rating, rtol=0, atol=1e-6)
    np.testing.assert_allclose(
        started.uncertainty.covariances[0], whole.uncertainty.covariances[0], rtol=1e-6
    )


def test_a_flat_pass_has_the_same_gradient():
    codes, z = verbose_world(n=50)
    given_rows = (codes.a, codes.b, Scoring().of(codes), np.ones(1), z, np.zeros(4), np.zeros(2))
    for one_pass in (gradient_loop, gradient_vectors):
        flat, curved = one_pass(*given_rows, False), one_pass(*given_rows, True)
        np.testing.assert_array_equal(flat[0], curved[0])
        assert not flat[1].any()


def test_only_the_first_group_is_controlled():
    codes, z = verbose_world(m=3)
    apart = replace(codes, a=codes.a.copy(), b=codes.b.copy())
    apart.a[:4], apart.b[:4], apart.kind[:4] = 3, 4, [0, 1, 0, 1]
    result = STYLE(styled(apart, z))
    assert result.group.tolist() == [0, 0, 0, -1, -1]
    assert np.isnan(result.rating[3:]).all()


def test_style_needs_models_that_can_be_compared():
    codes = CodedBattles(np.zeros(3, np.uint16), np.ones(3, np.uint16), np.zeros(3, np.uint8))
    with pytest.raises(CannotRate, match="style"):
        STYLE(styled(codes, np.ones((3, 1))))


def test_style_needs_a_value_in_every_battle_that_counts():
    codes, z = verbose_world()
    z[7, 0] = np.nan
    with pytest.raises(CannotRate, match="missing values"):
        STYLE(styled(codes, z))
    codes.kind[7] = Kind.BOTH_BAD
    assert np.isfinite(STYLE(styled(codes, z)).rating).all()


@pytest.mark.parametrize("factor", [0.0, 2.0], ids=["always nought", "a copy"])
def test_style_columns_must_say_something_of_their_own(factor):
    codes, z = verbose_world()
    z[:, 1] = factor * z[:, 0]
    named = "s0 and s1 are" if factor else "columns s1 are"
    with pytest.raises(CannotRate, match=named):
        STYLE(styled(codes, z))
