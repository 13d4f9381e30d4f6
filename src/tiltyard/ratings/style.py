"""Style control: Bradley–Terry with covariates of the two responses.

logit P(a beats b) = θ_a − θ_b + Σ_k β_k z_k, z_k a difference in style (length, headings, …)
between the responses of a and b, scaled to root mean square one. θ is then the strength at
equal style. Covariates differ from battle to battle, so every Newton step reads the log.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve

from tiltyard.battles import Codes
from tiltyard.compiling import Kernel, compiled
from tiltyard.errors import CannotRate
from tiltyard.ratings.kernels.style import pass_loop, pass_vectors
from tiltyard.ratings.newton import centred

__all__ = ["StyleFit", "fit_style"]

Floats = npt.NDArray[np.float64]

#: Newton squares its error: after a step this small (in logits) 1e-10 is left, and a pass is saved.
_LAST_STEP = 1e-5
_ITERATIONS = 60


@dataclass(frozen=True, slots=True, eq=False)
class StyleFit:
    """Log-strengths with mean zero, coefficients per unit of scaled covariate, and the bread."""

    theta: Floats
    beta: Floats
    scale: Floats
    bread: Floats
    iterations: int
    converged: bool


def fit_style(log: Codes, score: Floats, m: int, prior_precision: float, kernel: Kernel) -> StyleFit:
    """Newton on the whole log. ``score`` is A's in each battle, NaN where it does not count."""
    assert log.covariates is not None
    z, scale = _scaled(log.covariates, score)
    w = np.ones(1) if log.weight is None else log.weight
    one_pass = compiled(pass_loop) if kernel == "compiled" else pass_vectors
    x = np.zeros(m + z.shape[1])
    penalty = np.append(np.full(m, prior_precision), np.zeros(z.shape[1]))
    value, converged, iteration = -np.inf, False, 0
    step = np.zeros_like(x)
    while not converged and iteration < _ITERATIONS:
        iteration += 1
        gradient, information, reached = one_pass(log.a, log.b, score, w, z, x[:m], x[m:])
        reached -= 0.5 * float(penalty @ (x * x))
        if reached < value - 1e-9 * (1.0 + abs(value)):
            step = step / 2.0
            x = x - step
            continue
        value = reached
        information = _pinned(information, m, prior_precision)
        step = _solved(information, gradient - penalty * x)
        x = x + step
        converged = bool(np.abs(step).max() < _LAST_STEP)
    bread = centred(np.linalg.inv(information), m)
    return StyleFit(x[:m] - x[:m].mean(), x[m:], scale, bread, iteration, converged)


def _scaled(covariates: Floats, score: Floats) -> tuple[Floats, Floats]:
    """Covariates at root mean square one over the battles that count; no centring: A and B are alike."""
    used = covariates[~np.isnan(score)]
    if not np.isfinite(used).all():
        raise CannotRate("a style column has missing values; style control needs it in every battle")
    scale = np.sqrt(np.mean(used**2, axis=0)) if len(used) else np.ones(covariates.shape[1])
    scale[scale == 0.0] = 1.0
    return np.nan_to_num(covariates / scale), scale


def _pinned(information: Floats, m: int, prior_precision: float) -> Floats:
    """With the direction that no battle informs filled in, or with the prior."""
    information = information.copy()
    if prior_precision:
        information[np.arange(m), np.arange(m)] += prior_precision
    else:
        information[:m, :m] += max(float(np.diag(information)[:m].mean()), 1e-300) / m
    return information


def _solved(information: Floats, gradient: Floats) -> Floats:
    try:
        return np.asarray(cho_solve(cho_factor(information), gradient))
    except np.linalg.LinAlgError:
        raise CannotRate(
            "the style columns explain each other or the models completely; leave one of them out"
        ) from None
