"""Bradley–Terry by Newton's method on pair sums, with ties as half wins or as Davidson's.

Letters are those of the literature: θ log-strengths, d = θ_i − θ_j, s the expected score of
i against j, ν Davidson's tie parameter and λ = ln ν. Both models are exponential families in
(θ, λ), so the gradient is observed minus expected and the information is a covariance.
Bradley and Terry, Biometrika 39 (1952); Davidson, JASA 65 (1970), eq. 2.6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs
from scipy.special import expit

from tiltyard.core.ratings.pairs import PairScores, sum_by_index
from tiltyard.foundation.arrays import Floats

#: Newton's error is squared at each step: after a step this small (in logits) 1e-10 is left.
LAST_STEP_LOGITS = 1e-5
#: After a step this small the information hardly changes: it is reused, which makes steps cheaper.
_REUSE_STEP_LOGITS = 0.02
_MAX_ITERATIONS = 100

#: Gradient and, if requested, information at a point.
Derivatives = Callable[[Floats, bool], tuple[Floats, Floats | None]]
#: A lower Cholesky factor of the information. LAPACK is called directly: in small fits its
#: wrappers cost more than the computation.
Factor = Floats


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedScore:
    """Expected score of i against j and, with Davidson's ties, the probability of a tie."""

    score: Floats
    tie: Floats | None = None

    def variance(self) -> Floats:
        """The variance of one battle's score: a certain tie reduces it by a quarter."""
        coin = self.score * (1.0 - self.score)
        return coin if self.tie is None else coin - self.tie / 4.0


@dataclass(frozen=True, slots=True, eq=False)
class NewtonFit:
    """Log-strengths with mean zero, λ for Davidson's ties, and the inverse information."""

    theta: Floats
    log_tie: float | None
    #: Inverse of the information on mean-zero contrasts, if requested; λ's row is last.
    bread: Floats | None
    iterations: int
    converged: bool


def expected_score(d: Floats, log_tie: float | None) -> ExpectedScore:
    """The model's prediction of a battle at strength difference ``d``."""
    if log_tie is None:
        return ExpectedScore(expit(d))
    # Scaled by the largest of the three terms to avoid overflow.
    u = np.abs(d) / 2.0
    top = np.maximum(u, log_tie)
    strong, weak, level = np.exp(u - top), np.exp(-u - top), np.exp(log_tie - top)
    total = strong + weak + level
    upper = (strong + level / 2.0) / total
    return ExpectedScore(np.where(d >= 0, upper, 1.0 - upper), level / total)


def maximise_likelihood(
    derivatives: Derivatives,
    x: Floats,
    *,
    tolerance: float = LAST_STEP_LOGITS,
    factored_by: Callable[[Floats], Factor] | None = None,
) -> tuple[Floats, int, bool]:
    """Maximise a concave likelihood by Newton's method: the maximum, the number of steps, whether it converged.

    The information is reused while steps shrink fast without a new one. A step is halved if it went
    so far that the slope along it changed its sign.
    """
    factor: Factor | None = None
    step, slope, last = np.zeros_like(x), 0.0, np.inf
    for iteration in range(1, _MAX_ITERATIONS + 1):
        fresh = factor is None
        gradient, information = derivatives(x, fresh)
        if float(gradient @ step) < -slope:
            step, slope, factor = step / 2.0, slope / 2.0, None
            x = x - step
            continue
        if factor is None:
            assert information is not None
            factor = (factored_by or regularised_cholesky)(information)
        step = dpotrs(factor, gradient, lower=1)[0]
        x, slope = x + step, float(gradient @ step)
        size = float(np.abs(step).max(initial=0.0))
        # The remaining error: of a Newton step about its square, with reused information the next term.
        if (size * size if fresh else size * size / last) < tolerance**2:
            return x, iteration, True
        if size > _REUSE_STEP_LOGITS or (not fresh and size > 0.2 * last):
            factor = None
        last = size
    return x, _MAX_ITERATIONS, False


def cholesky(information: Floats) -> Factor | None:
    """The lower factor of a positive definite matrix; ``None`` if it is not."""
    factor, failed = dpotrf(information, lower=1, clean=0)
    return None if failed else np.asarray(factor)


def inverse_of(factor: Factor) -> Floats:
    """The inverse of the matrix that was factored."""
    lower, _ = dpotri(factor, lower=1)
    lower = np.tril(lower)
    return np.asarray(lower + np.tril(lower, -1).T)


def regularised_cholesky(information: Floats) -> Factor:
    """Add a little to the diagonal if rounding made the matrix indefinite."""
    factor = cholesky(information)
    nudge = 1e-12 * float(np.diag(information).max())
    while factor is None:
        nudge *= 10.0
        factor = cholesky(information + nudge * np.eye(len(information)))
    return factor


def fit_pairs(
    pairs: PairScores,
    *,
    davidson: bool = False,
    prior_precision: float = 0.0,
    start: Floats | None = None,
    bread: bool = True,
) -> NewtonFit:
    """Maximum likelihood, or the posterior mode if each θ has a normal prior of that precision."""
    m = pairs.n_models
    at_hand = _guess(pairs) if start is None else start
    likelihood = Likelihood(pairs, davidson, prior_precision)
    x, iterations, converged = maximise_likelihood(
        likelihood.derivatives, np.append(at_hand, np.zeros(int(davidson)))
    )
    inverse = None
    if bread:
        _, information = likelihood.derivatives(x, curved=True)
        assert information is not None
        inverse = centre_covariance(inverse_of(regularised_cholesky(information)), m)
    return NewtonFit(x[:m] - x[:m].mean(), float(x[m]) if davidson else None, inverse, iterations, converged)


def newton_start(
    pairs: PairScores, theta: Floats, *, prior_precision: float
) -> Callable[[PairScores], Floats]:
    """A starting point for fits of other sums over the same pairs: one step with the information at ``theta``."""
    score = expected_score(theta[pairs.i] - theta[pairs.j], None).score
    _, information = Likelihood(pairs, davidson=False, prior_precision=prior_precision).derivatives(
        theta, curved=True
    )
    assert information is not None
    factor = regularised_cholesky(information)

    def start(other: PairScores) -> Floats:
        residual = other.score - other.weight * score
        m = other.n_models
        gradient = (
            sum_by_index(other.i, residual, m) - sum_by_index(other.j, residual, m) - prior_precision * theta
        )
        return np.asarray(theta + dpotrs(factor, gradient, lower=1)[0])

    return start


def _guess(pairs: PairScores) -> Floats:
    """Log-odds of each model's total score: a good guess if models met at random."""
    total, won = pairs.totals()
    theta = np.log((won + 0.5) / (total - won + 0.5))
    return np.asarray(theta - theta.mean())


@dataclass(frozen=True, slots=True, eq=False)
class Likelihood:
    """The likelihood of pair sums, times a normal prior on each θ if it has a precision."""

    pairs: PairScores
    davidson: bool
    prior_precision: float

    def value(self, x: Floats) -> float:
        """Its logarithm, up to a constant."""
        pairs, theta = self.pairs, x[: self.pairs.n_models]
        d = theta[pairs.i] - theta[pairs.j]
        total = np.logaddexp(d / 2.0, -d / 2.0)
        tied = 0.0
        if self.davidson:
            total = np.logaddexp(total, x[-1])
            tied = float(pairs.tie.sum() * x[-1])
        fit = (pairs.score - pairs.weight / 2.0) @ d - pairs.weight @ total
        return float(fit) + tied - self.prior_precision / 2.0 * float(theta @ theta)

    def derivatives(self, x: Floats, curved: bool) -> tuple[Floats, Floats | None]:
        """Gradient, and information with the constant direction (about which battles say nothing) filled in."""
        pairs, m, i, j = self.pairs, self.pairs.n_models, self.pairs.i, self.pairs.j
        theta = x[:m]
        e = expected_score(theta[i] - theta[j], float(x[m]) if self.davidson else None)
        residual = pairs.score - pairs.weight * e.score
        gradient = np.zeros(len(x))
        gradient[:m] = (
            sum_by_index(i, residual, m) - sum_by_index(j, residual, m) - self.prior_precision * theta
        )
        if e.tie is not None:
            gradient[m] = pairs.tie.sum() - pairs.weight @ e.tie
        return gradient, self._information(e, len(x)) if curved else None

    def _information(self, e: ExpectedScore, size: int) -> Floats:
        pairs, m, i, j = self.pairs, self.pairs.n_models, self.pairs.i, self.pairs.j
        w = pairs.weight * e.variance()
        information = np.zeros((size, size))
        information.ravel()[i * size + j] = -w
        information += information.T
        diagonal = np.arange(m)
        information[diagonal, diagonal] = sum_by_index(i, w, m) + sum_by_index(j, w, m)
        fill_null_direction(information, m, self.prior_precision)
        if e.tie is not None:
            information[m, m] = pairs.weight @ (e.tie * (1.0 - e.tie))
            cross = pairs.weight * e.tie * (0.5 - e.score)
            information[m, :m] = information[:m, m] = sum_by_index(i, cross, m) - sum_by_index(j, cross, m)
        return information


def fill_null_direction(information: Floats, m: int, prior_precision: float) -> None:
    """Fill in, in place, the constant direction of the first ``m`` parameters, which no battle or prior informs."""
    diagonal = np.arange(m)
    if prior_precision:
        information[diagonal, diagonal] += prior_precision
    else:
        information[:m, :m] += max(float(information[diagonal, diagonal].mean()), 1e-300) / m


def centre_covariance(bread: Floats, m: int) -> Floats:
    """The inverse on mean-zero contrasts of the first ``m`` parameters."""
    bread = bread.copy()
    bread[:m] -= bread[:m].mean(axis=0)
    bread[:, :m] -= bread[:, :m].mean(axis=1, keepdims=True)
    return bread
