"""Quantiles of the posterior distribution of a rating, given a prior.

The battles of a model that only won bound its rating from below, but not from above: the
posterior is skewed, and a normal approximation at its mode does not describe it. Its density at ψ is
that of the best fit with the rating fixed at ψ, times the volume of the other parameters there (Laplace's
approximation of a marginal: Tierney and Kadane, JASA 81, 1986).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dpotrs
from scipy.special import ndtri

from tiltyard.core.ratings.newton import Likelihood, regularised_cholesky
from tiltyard.core.ratings.pairs import PairScores
from tiltyard.foundation.arrays import Floats, Ints

#: A model that lost, or won, fewer points than this counts as nearly one-sided.
_ONE_SIDED_BATTLES = 5.0
#: The density is followed in steps of this many standard errors at the mode, shorter if it falls by
#: more than the second value at once, until it has fallen by the third (both in log density).
_STEP_STANDARD_ERRORS, _STEP_LOG_DENSITY, _TAIL_LOG_DENSITY, _STEP_LIMIT = 0.5, 1.0, 12.0, 200
#: The maximum number of Newton steps at one point, and the step size that ends them (in logits).
_MAX_ITERATIONS, _CONVERGED_LOGITS = 30, 1e-6
_DENSITY_GRID_COUNT = 4001


def nearly_one_sided(pairs: PairScores) -> npt.NDArray[np.bool_]:
    """Models that won, or lost, almost every point."""
    total, won = pairs.totals()
    return np.asarray((total > 0.0) & (np.minimum(won, total - won) < _ONE_SIDED_BATTLES))


@dataclass(frozen=True, slots=True)
class ContrastInterval:
    """How far a contrast extends below and above its value at the mode, in logits.

    ``half`` is the half-width of a normal approximation at the mode.
    """

    low: float
    high: float
    half: float


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """The likelihood of one group's battles times the prior, and its mode."""

    likelihood: Likelihood
    #: Log-strengths with mean zero, then Davidson's λ if there is one.
    mode: Floats

    @classmethod
    def of(
        cls, pairs: PairScores, members: Ints, theta: Floats, log_tie: float | None, precision: float
    ) -> Posterior:
        """The posterior of the models ``members``, with the log-strengths of all."""
        own = theta[members] - theta[members].mean()
        davidson = log_tie is not None
        mode = np.append(own, [] if log_tie is None else [log_tie])
        return cls(Likelihood(pairs.among(members), davidson, precision), mode)

    def rating_interval(self, place: int, level: float) -> ContrastInterval:
        """The interval of one model's distance from the mean of the group."""
        contrast = np.zeros_like(self.mode)
        contrast[: self.likelihood.pairs.n_models] = -1.0 / self.likelihood.pairs.n_models
        contrast[place] += 1.0
        return self.reach(contrast, level)

    def difference_interval(self, place: int, other: int, level: float) -> ContrastInterval:
        """The interval of the difference of two models."""
        contrast = np.zeros_like(self.mode)
        contrast[place], contrast[other] = 1.0, -1.0
        return self.reach(contrast, level)

    def reach(self, contrast: Floats, level: float) -> ContrastInterval:
        """The interval of a contrast with equal tail probabilities."""
        _, turned = self._solved(self.mode, contrast)
        error = float(np.sqrt(contrast @ turned))
        top = self._held(self.mode, contrast, float(contrast @ self.mode))[1]
        left, right = (self._followed(contrast, side * error, top) for side in (-1.0, 1.0))
        at, density = (
            np.array([*a[::-1], b, *c]) for a, b, c in ((left[0], 0.0, right[0]), (left[1], top, right[1]))
        )
        fine = np.linspace(at[0], at[-1], _DENSITY_GRID_COUNT)
        # Costs a third of a second to import, and only priors need it.
        from scipy.interpolate import PchipInterpolator

        height = np.exp(PchipInterpolator(at, density)(fine) - density.max())
        below = (np.cumsum(height) - height / 2.0) / height.sum()
        low, high = np.interp([(1.0 - level) / 2.0, (1.0 + level) / 2.0], below, fine)
        # With a very wide prior the mode itself may be an unlikely value; the interval still includes it.
        return ContrastInterval(
            min(float(low), 0.0), max(float(high), 0.0), float(ndtri((1.0 + level) / 2.0)) * error
        )

    def _followed(self, contrast: Floats, error: float, top: float) -> tuple[list[float], list[float]]:
        """Points on one side of the mode, and the log density there, until it is nearly zero."""
        start = float(contrast @ self.mode)
        step = _STEP_STANDARD_ERRORS * error
        x, value = self._held(self.mode, contrast, start + step)
        while value < top - _STEP_LOG_DENSITY:
            step /= 2.0
            x, value = self._held(self.mode, contrast, start + step)
        at, density, ahead = [step], [value], x - self.mode
        while density[-1] > max(top, *density) - _TAIL_LOG_DENSITY and len(at) < _STEP_LIMIT:
            here, value = self._held(x + ahead, contrast, start + at[-1] + step)
            at.append(at[-1] + step)
            density.append(value)
            x, ahead = here, here - x
        return at, density

    def _held(self, x: Floats, contrast: Floats, value: float) -> tuple[Floats, float]:
        """The best parameters with a contrast fixed at a value, and the log density there."""
        x = x + contrast * ((value - contrast @ x) / (contrast @ contrast))
        height = self.likelihood.value(x)
        for _ in range(_MAX_ITERATIONS):
            free, turned = self._solved(x, contrast)
            step = free - turned * ((contrast @ free) / (contrast @ turned))
            while (higher := self.likelihood.value(x + step)) < height and np.abs(
                step
            ).max() > _CONVERGED_LOGITS:
                step = step / 2.0
            x, height = x + step, higher
            if np.abs(step).max() <= _CONVERGED_LOGITS:
                break
        return x, height - self._open(x, contrast)

    def _open(self, x: Floats, contrast: Floats) -> float:
        """Half the log determinant of the other parameters' information there."""
        factor = regularised_cholesky(self._information(x)[1])
        turned = dpotrs(factor, contrast, lower=1)[0]
        return float(np.log(np.diag(factor)).sum()) + 0.5 * float(np.log(contrast @ turned))

    def _solved(self, x: Floats, contrast: Floats) -> tuple[Floats, Floats]:
        """Newton's step at a point, and the direction in which the contrast moves."""
        gradient, information = self._information(x)
        free, turned = dpotrs(
            regularised_cholesky(information), np.stack([gradient, contrast], axis=1), lower=1
        )[0].T
        return free, turned

    def _information(self, x: Floats) -> tuple[Floats, Floats]:
        gradient, information = self.likelihood.derivatives(x, curved=True)
        assert information is not None
        return gradient, information
