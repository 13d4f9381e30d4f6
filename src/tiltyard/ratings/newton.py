"""Bradley–Terry by Newton's method on pair sums, with ties as half wins or as Davidson's.

Letters are those of the literature: θ log-strengths, d = θ_i − θ_j, s the expected score of
i against j, ν Davidson's tie parameter and λ = ln ν. Both models are exponential families in
(θ, λ), so the gradient is observed minus expected and the information is a covariance.
Bradley and Terry, Biometrika 39 (1952); Davidson, JASA 65 (1970), eq. 2.6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from tiltyard.ratings.pairs import Pairs
from tiltyard.ratings.sums import sum_by

__all__ = ["Expected", "Fit", "centred", "expected", "fit"]

Floats = npt.NDArray[np.float64]

#: A Newton step below this (in logits: 2e-8 Elo) ends the iteration.
_STEP = 1e-10
_ITERATIONS = 60
_HALVINGS = 40


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """Expected score of i against j, its variance; with Davidson ties their share and covariances."""

    score: Floats
    variance: Floats
    tie: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Log-strengths with mean zero, λ where ties are Davidson's, and the inverse information."""

    theta: Floats
    log_tie: float | None
    #: Inverse of the information on mean-zero contrasts, if asked for; λ's row is last.
    bread: Floats | None
    iterations: int
    converged: bool


def expected(d: Floats, log_tie: float | None) -> Expected:
    """What the model says of a battle at strength difference ``d``."""
    if log_tie is None:
        s = expit(d)
        return Expected(s, s * (1.0 - s))
    # Scaled by the largest of the three terms, so that no exponent overflows.
    u = np.abs(d) / 2.0
    top = np.maximum(u, log_tie)
    strong, weak, level = np.exp(u - top), np.exp(-u - top), np.exp(log_tie - top)
    total = strong + weak + level
    tie = level / total
    upper = (strong + level / 2.0) / total
    s = np.where(d >= 0, upper, 1.0 - upper)
    variance = (strong + level / 4.0) / total - upper**2
    return Expected(s, variance, tie)


def fit(
    pairs: Pairs,
    *,
    davidson: bool = False,
    prior_precision: float = 0.0,
    start: Floats | None = None,
    bread: bool = True,
) -> Fit:
    """Maximum likelihood, or the posterior mode when each θ has a normal prior of that precision."""
    m = pairs.n_models
    x = np.zeros(m + davidson)
    if start is not None:
        x[: len(start)] = start
    value = _log_likelihood(x, pairs, davidson, prior_precision)
    converged, iteration = False, 0
    while not converged and iteration < _ITERATIONS:
        iteration += 1
        gradient, information = _derivatives(x, pairs, davidson, prior_precision)
        step = cho_solve(
            cho_factor(information, lower=True, check_finite=False), gradient, check_finite=False
        )
        x, value, size = _line_search(x, value, step, pairs, davidson, prior_precision)
        converged = size < _STEP
    theta = x[:m] - x[:m].mean()
    inverse = None
    if bread:
        _, information = _derivatives(x, pairs, davidson, prior_precision)
        inverse = centred(cho_solve(cho_factor(information, lower=True), np.eye(len(x))), m)
    return Fit(theta, float(x[m]) if davidson else None, inverse, iteration, converged)


def _line_search(
    x: Floats, value: float, step: Floats, pairs: Pairs, davidson: bool, prior_precision: float
) -> tuple[Floats, float, float]:
    """The full step if it does not lose likelihood, else the first halving that does not."""
    slack = 1e-12 * (1.0 + abs(value))
    for _ in range(_HALVINGS):
        candidate = x + step
        reached = _log_likelihood(candidate, pairs, davidson, prior_precision)
        if reached >= value - slack:
            return candidate, reached, float(np.abs(step).max(initial=0.0))
        step = step / 2.0
    return x, value, 0.0


def _log_likelihood(x: Floats, pairs: Pairs, davidson: bool, prior_precision: float) -> float:
    theta = x[: pairs.n_models]
    d = theta[pairs.i] - theta[pairs.j]
    prior = -0.5 * prior_precision * float(theta @ theta)
    half = (pairs.score - pairs.weight / 2.0) @ d
    if not davidson:
        return float(half - pairs.weight @ np.logaddexp(d / 2.0, -d / 2.0) + prior)
    log_total = np.logaddexp(np.logaddexp(d / 2.0, -d / 2.0), x[-1])
    return float(half + pairs.tie.sum() * x[-1] - pairs.weight @ log_total + prior)


def _derivatives(x: Floats, pairs: Pairs, davidson: bool, prior_precision: float) -> tuple[Floats, Floats]:
    """Gradient, and information with the constant direction (which no battle informs) filled in."""
    m, i, j = pairs.n_models, pairs.i, pairs.j
    theta = x[:m]
    e = expected(theta[i] - theta[j], float(x[m]) if davidson else None)
    residual = pairs.score - pairs.weight * e.score
    gradient = np.zeros(len(x))
    gradient[:m] = sum_by(i, residual, m) - sum_by(j, residual, m) - prior_precision * theta
    information = np.zeros((len(x), len(x)))
    w = pairs.weight * e.variance
    information[i, j] = information[j, i] = -w
    diagonal = np.arange(m)
    degree = sum_by(i, w, m) + sum_by(j, w, m)
    information[diagonal, diagonal] = degree + prior_precision
    if not prior_precision:
        information[:m, :m] += max(float(degree.mean()), 1e-300) / m
    if e.tie is not None:
        gradient[m] = pairs.tie.sum() - pairs.weight @ e.tie
        information[m, m] = pairs.weight @ (e.tie * (1.0 - e.tie))
        cross = pairs.weight * e.tie * (0.5 - e.score)
        information[m, :m] = information[:m, m] = sum_by(i, cross, m) - sum_by(j, cross, m)
    return gradient, information


def centred(bread: Floats, m: int) -> Floats:
    """The inverse on mean-zero contrasts of the first ``m`` parameters."""
    bread = bread.copy()
    bread[:m] -= bread[:m].mean(axis=0)
    bread[:, :m] -= bread[:, :m].mean(axis=1, keepdims=True)
    return bread
