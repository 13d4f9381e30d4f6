"""How far a judge's view of models strays from people's: a random effect by model.

The judge sees model k with strength θ_k + b_k, with b_k normal of variance σ². For K models with human ratings,
e_k is what the judge's battles say of one mean, each with noise of known covariance M, so that e has covariance
M + σ²·1. Q(σ²) = e′We − (1′We)²/1′W1 with W = (M + σ²·1)⁻¹ is then χ² with K − 1 degrees of freedom at the true σ².

σ² is poorly known from few models, and a point estimate is often zero where it is not. So no single value is used:
each quantile c of χ² gives the σ² with Q(σ²) = c, or zero where there is none, and an interval is made for all of them
together. Viechtbauer, Statistics in Medicine 26 (2007), inverts Q; Nagashima, Noma and Furukawa, Statistical Methods
in Medical Research 28 (2019), predict by it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import chdtri, gammaln, stdtr

from tiltyard.core.ratings.variance import critical_value

__all__ = ["BiasEstimate", "estimate_bias", "mixed_half_width"]

Floats = npt.NDArray[np.float64]

#: Equally likely values of the variance; odd, so that one of them is the median.
_VALUE_COUNT = 99
#: A variance of zero counts as this, so that nothing is divided by zero.
_SMALLEST_TOLERANCE = 1e-24
#: Student's t with so many degrees of freedom is normal.
_NORMAL_DOF = 1e7
_STEP_LIMIT = 200
_STEP_TOLERANCE = 1e-10
#: Bisections: a double has 53 bits.
_BISECTION_COUNT = 60


@dataclass(frozen=True, slots=True, eq=False)
class BiasEstimate:
    """The variance of a judge's bias by model, as equally likely values, and the weight of each model in the mean."""

    #: In ascending order.
    variances: Floats
    weights: Floats

    @property
    def sd(self) -> float:
        """The median of the standard deviation."""
        return float(np.sqrt(self.variances[len(self.variances) // 2]))

    @property
    def upper_sd(self) -> float:
        """The standard deviation that is not exceeded, at 95 %."""
        return float(np.sqrt(np.quantile(self.variances, 0.95)))


def estimate_bias(deviations: Floats, noise: Floats) -> BiasEstimate:
    """The variance of deviations from their mean beyond their ``noise``; the weights are those of its median."""
    values, vectors = np.linalg.eigh(noise)
    spectrum = _Spectrum(values, vectors.T @ deviations, vectors.sum(axis=0))
    levels = (np.arange(_VALUE_COUNT) + 0.5) / _VALUE_COUNT
    # The complement of the distribution of χ² at its quantiles, so that variances ascend.
    variances = spectrum.solve(chdtri(len(deviations) - 1, levels))
    inverse = vectors @ (spectrum.one / (values + variances[_VALUE_COUNT // 2]))
    return BiasEstimate(variances, inverse / inverse.sum())


@dataclass(frozen=True, slots=True, eq=False)
class _Spectrum:
    """Noise by its eigenvalues; deviations and a vector of ones by its eigenvectors."""

    values: Floats
    deviation: Floats
    one: Floats

    def q(self, variances: Floats) -> Floats:
        """Q at each variance; it falls as the variance grows."""
        inverse = 1.0 / (self.values + variances[:, None])
        mean = inverse @ (self.one * self.deviation)
        return np.asarray(inverse @ self.deviation**2 - mean**2 / (inverse @ self.one**2))

    def solve(self, quantiles: Floats) -> Floats:
        """The variance at which Q has each value, or zero."""
        low, high = np.zeros(len(quantiles)), np.ones(len(quantiles))
        while (above := self.q(high) > quantiles).any():
            high[above] *= 2.0
        for _ in range(_BISECTION_COUNT):
            middle = (low + high) / 2.0
            above = self.q(middle) > quantiles
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return np.where(self.q(np.zeros(len(quantiles))) > quantiles, high, 0.0)


def mixed_half_width(variances: Floats, dof: Floats, level: float) -> Floats:
    """Half-widths of intervals for errors whose variance is one of several, equally likely.

    ``variances`` has a row for each interval; ``dof`` are the degrees of freedom of the errors, given the variance.
    """
    error = np.sqrt(np.maximum(variances, _SMALLEST_TOLERANCE))
    finite = np.where(np.isinf(dof), _NORMAL_DOF, dof)[:, None]
    half = critical_value(level, dof) * error.min(axis=1)
    # The share inside is concave in the half-width, so Newton's steps from below never pass the solution.
    for _ in range(_STEP_LIMIT):
        ratio = half[:, None] / error
        inside = (2.0 * stdtr(finite, ratio) - 1.0).mean(axis=1)
        slope = 2.0 * (_density(finite, ratio) / error).mean(axis=1)
        step = (level - inside) / slope
        half = half + step
        if (np.abs(step) <= _STEP_TOLERANCE * half).all():
            break
    return np.asarray(half)


def _density(dof: Floats, x: Floats) -> Floats:
    """The density of Student's t."""
    constant = np.exp(gammaln((dof + 1.0) / 2.0) - gammaln(dof / 2.0)) / np.sqrt(np.pi * dof)
    return np.asarray(constant * (1.0 + x * x / dof) ** (-(dof + 1.0) / 2.0))
