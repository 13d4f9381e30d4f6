"""Power analysis of a plan: expected half-widths, and the difference it can detect.

All numbers are in rating points as the ratings will show them, for models of about equal
strength, for which the order is least certain.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import connected_components
from scipy.special import expit, gammaln, stdtrit

from tiltyard.errors import BadOption, CannotRate
from tiltyard.foundation.arrays import Floats

#: Rating points per logit.
POINTS_PER_LOGIT = 400.0 / math.log(10.0)
_QUADRATURE_NODE_COUNT = 41


@dataclass(frozen=True, slots=True)
class PowerAssumptions:
    """Assumptions about battles that do not exist yet."""

    #: Share of battles without a winner, including inconsistent results and half of the leans.
    tie_rate: float = 0.3
    #: Standard deviation, in logits, of how much better or worse a model is on one prompt than in general.
    interaction: float = 0.5

    def __post_init__(self) -> None:
        if not (0.0 <= self.tie_rate < 1.0 and 0.0 <= self.interaction < math.inf):
            raise BadOption(
                f"tie_rate is {self.tie_rate} and interaction {self.interaction}; "
                "expected a share below 1, and logits of 0 or more"
            )


@dataclass(frozen=True, slots=True)
class ExpectedPrecision:
    """The expected precision of battles of this design, in points, under these assumptions.

    ``half_width`` is that of one rating's interval, ``difference`` that of the difference of two
    models, each the mean over the design; ``detectable_difference`` is the difference whose interval
    excludes zero with probability ``power``.
    """

    half_width: float
    difference: float
    detectable: float
    models: int
    prompts: int
    battles: int
    level: float
    power: float
    assumptions: PowerAssumptions

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def expected_precision(
    n_pairs: npt.NDArray[Any],
    prompts: int,
    assumptions: PowerAssumptions | None = None,
    level: float = 0.95,
    power: float = 0.8,
) -> ExpectedPrecision | None:
    """The expected precision of ``n_pairs[i, j]`` battles between i and j, each on another of the ``prompts``.

    ``None`` for fewer than two prompts, which do not show how prompts differ. The half-width
    is t·c·√V·(1 + D/4): t Student's quantile at P − 1 degrees of freedom; c = E[s]/σ of a normal
    sample of P, as standard errors are estimated; V by `covariance`, and D the mean variance of a
    difference by it. The last factor is for few battles: the fit takes its information at s(d̂), not at ½,
    and 1/(4s(1 − s)) = (1 + cosh d̂)/2 ≈ 1 + d̂²/4. A difference is detected if it exceeds its half-width,
    δ = (t_level + t_power)·√V·(1 + D/4).
    """
    assumptions = assumptions or PowerAssumptions()
    _check(n_pairs, prompts, level, power)
    if prompts < 2:
        return None
    v = covariance(n_pairs, prompts, assumptions)
    i, j = np.triu_indices(len(v), 1)
    apart = np.diag(v)[i] + np.diag(v)[j] - 2.0 * v[i, j]
    points = POINTS_PER_LOGIT * (1.0 + float(np.mean(apart)) / 4.0)
    error, between = points * float(np.mean(np.sqrt(np.diag(v)))), points * float(np.mean(np.sqrt(apart)))
    t = _quantile(prompts, level)
    return ExpectedPrecision(
        half_width=t * _mean_spread(prompts) * error,
        difference=t * _mean_spread(prompts) * between,
        detectable=(t + _quantile(prompts, 2.0 * power - 1.0)) * between,
        models=len(v),
        prompts=prompts,
        battles=int(n_pairs.sum()) // 2,
        level=level,
        power=power,
        assumptions=assumptions,
    )


def covariance(n_pairs: npt.NDArray[Any], prompts: int, assumptions: PowerAssumptions) -> Floats:
    """Expected covariance of the log-strengths, in logits squared, at equal strength.

    A battle scores y in {0, ½, 1} with mean ½ and, at tie rate τ, variance (1 − τ)/4. Its information
    is ¼, ties counting half a win each, so the bread is L/4, L the Laplacian of the battle counts n.
    On prompt p, with effects u of variance σ², the mean of y moves by about (1 − τ)·g·(u_i − u_j), where
    g = E[s(x)(1 − s(x))], s the logistic, x ~ N(0, 2σ²), is its slope ¼ attenuated. Battles of two pairs
    on one prompt therefore vary together; two pairs share a prompt with n·n'/P of their battles.
    With K the Laplacian of n², the meat is (1 − τ)/4 · L + (1 − τ)²g²σ² · (L² − 2K)/P, and

        V = 16 · L⁺ · meat · L⁺.

    Where every pair meets on every prompt, prompts thus add (4(1 − τ)g)²σ²/P to the variance of each
    model, twice that to a difference; 4(1 − τ)g is the attenuation by which ratings show effects.
    The effect of a battle's own prompt, 2(4(1 − τ)g)²σ² · L⁺, is part of its variance (1 − τ)/4 and
    is subtracted again by K.
    """
    decided = 1.0 - assumptions.tie_rate
    nodes, weights = np.polynomial.hermite_e.hermegauss(_QUADRATURE_NODE_COUNT)
    s = expit(math.sqrt(2.0) * assumptions.interaction * nodes)
    g = float((s * (1.0 - s)) @ weights / weights.sum())
    n = n_pairs.astype(np.float64)
    laplacian, squares = _laplacian(n), _laplacian(n * n)
    shared = (laplacian @ laplacian - 2.0 * squares) / prompts
    meat = decided / 4.0 * laplacian + (decided * g * assumptions.interaction) ** 2 * shared
    inverse = np.linalg.pinv(laplacian, rcond=1e-10, hermitian=True)
    return np.asarray(16.0 * inverse @ meat @ inverse)


def scale_pilot_width(half_width: float, prompts_pilot: int, prompts_now: int, level: float = 0.95) -> float:
    """A pilot's half-width, extrapolated to the same design with another number of prompts.

    It shrinks with the square root of the prompts, and with the t quantile.
    """
    if min(prompts_pilot, prompts_now) < 2 or not half_width >= 0.0:
        raise BadOption(
            f"half_width is {half_width}, prompts are {prompts_pilot} and {prompts_now}; "
            "expected points of 0 or more, and at least 2 prompts each"
        )
    before, now = (
        _quantile(prompts, level) * _mean_spread(prompts) / math.sqrt(prompts)
        for prompts in (prompts_pilot, prompts_now)
    )
    return half_width * now / before


def detectable_difference(difference: float, prompts: int, level: float = 0.95, power: float = 0.8) -> float:
    """The difference detected with this power, if differences have this half-width."""
    reach = _quantile(prompts, level)
    return difference * (reach + _quantile(prompts, 2.0 * power - 1.0)) / (reach * _mean_spread(prompts))


def _check(n_pairs: npt.NDArray[Any], prompts: int, level: float, power: float) -> None:
    if n_pairs.ndim != 2 or n_pairs.shape[0] != n_pairs.shape[1] or len(n_pairs) < 2:
        raise BadOption(f"n_pairs has shape {n_pairs.shape}; expected a square of at least 2 models")
    if (n_pairs != n_pairs.T).any() or n_pairs.diagonal().any() or (n_pairs < 0).any():
        raise BadOption("n_pairs must be symmetric, with zeros for a model against itself")
    if (n_pairs > prompts).any():
        raise BadOption(
            f"a pair of n_pairs meets {n_pairs.max()} times on {prompts} prompts; expected at most once each"
        )
    if not (0.0 < level < 1.0 and 0.5 <= power < 1.0):
        raise BadOption(f"level is {level} and power {power}; expected between 0 and 1, and from 0.5 to 1")
    _, part = connected_components(n_pairs, directed=False)
    if part.any():
        apart = int(np.flatnonzero(part)[0])
        raise CannotRate(f"models {apart} and 0 of the plan are not connected by any pairs; add pairs")


def _laplacian(weights: Floats) -> Floats:
    return np.asarray(np.diag(weights.sum(axis=1)) - weights)


def _quantile(prompts: int, level: float) -> float:
    return float(stdtrit(prompts - 1, (1.0 + level) / 2.0))


def _mean_spread(prompts: int) -> float:
    """The mean standard deviation of a normal sample relative to the true one: below 1, and near 1 for large samples."""
    ratio = gammaln(prompts / 2.0) - gammaln((prompts - 1) / 2.0)
    return math.sqrt(2.0 / (prompts - 1)) * math.exp(ratio)
