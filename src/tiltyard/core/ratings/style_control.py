"""Style control: Bradley–Terry with covariates of the two responses.

logit P(a beats b) = θ_a − θ_b + Σ_k β_k z_k, z_k a difference in style (length, headings, …)
between the responses of a and b, scaled to root mean square one. θ is then the strength at
equal style. Covariates differ from battle to battle, so every Newton step reads the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tiltyard.core.battles import CodedBattles
from tiltyard.core.ratings.kernels.style_control import gradient_loop, gradient_vectors
from tiltyard.core.ratings.newton import (
    Factor,
    centre_covariance,
    cholesky,
    fill_null_direction,
    inverse_of,
    maximise_likelihood,
)
from tiltyard.errors import CannotRate
from tiltyard.foundation.arrays import Floats
from tiltyard.foundation.compiled_kernels import Kernel, compile_kernel

#: An eigenvalue this small counts as zero, for an information matrix scaled to a unit diagonal.
_SINGULAR_TOLERANCE = 1e-12
#: A column with this share of the largest part in a direction that the battles do not determine is named.
_PART_SHARE = 0.1
#: The fraction of the log, from its start, that is fitted first for a starting point.
_FIRST_PART_RATIO = 16
_FIRST_PART_ROWS = 1 << 16
#: The tolerance of that first fit, in logits.
_START_TOLERANCE = 0.05


@dataclass(frozen=True, slots=True)
class StylePrior:
    """What pulls strengths and coefficients towards zero."""

    #: Precision of each log-strength.
    strengths: float = 0.0
    #: Precision of each coefficient of a scaled covariate, for each battle that counts.
    coefficients: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class StyleFit:
    """Log-strengths with mean zero, coefficients per unit of scaled covariate, and the bread."""

    theta: Floats
    beta: Floats
    scale: Floats
    #: ``None`` unless requested.
    bread: Floats | None
    iterations: int
    converged: bool


def fit_style(
    log: CodedBattles,
    score: Floats,
    m: int,
    prior: StylePrior,
    kernel: Kernel,
    *,
    names: Sequence[str] = (),
    bread: bool = True,
) -> StyleFit:
    """Newton's method on the whole log. ``score`` is A's in each battle, NaN if it does not count.

    Covariates are scaled by their root mean square, without centring, because sides A and B are
    interchangeable; coefficients and bread refer to the scaled covariates. ``names`` are theirs, for errors.
    """
    assert log.covariates is not None
    unused = np.isnan(score)
    covariates = log.covariates[~unused] if unused.any() else log.covariates
    squares = np.einsum("ij,ij->j", covariates, covariates)
    if not np.isfinite(squares).all():
        raise CannotRate("a style column has missing values; style control needs it in every battle")
    factored = partial(_factored, names=names)
    scale = np.sqrt(squares / max(len(covariates), 1))
    scale[scale == 0.0] = 1.0
    x = np.zeros(m + len(scale))
    if len(log) >= _FIRST_PART_RATIO * _FIRST_PART_ROWS:
        rows = len(log) // _FIRST_PART_RATIO
        first = replace(prior, strengths=max(prior.strengths, 1.0))
        part = _Problem(log, score, m, _precisions(first, score[:rows], scale, m), kernel, rows)
        x = maximise_likelihood(part.derivatives, x, tolerance=_START_TOLERANCE, factored_by=factored)[0]
    problem = _Problem(log, score, m, _precisions(prior, score, scale, m), kernel, len(log))
    x, iterations, converged = maximise_likelihood(problem.derivatives, x, factored_by=factored)
    inverse = None
    if bread:
        units = np.append(np.ones(m), scale)
        _, information = problem.derivatives(x, curved=True)
        assert information is not None
        inverse = centre_covariance(inverse_of(factored(information)) * np.outer(units, units), m)
    return StyleFit(x[:m] - x[:m].mean(), x[m:] * scale, scale, inverse, iterations, converged)


@dataclass(frozen=True, slots=True, eq=False)
class _Problem:
    """The likelihood of the first ``rows`` battles of a log."""

    log: CodedBattles
    score: Floats
    m: int
    #: The prior's precision of each unknown.
    precisions: Floats
    kernel: Kernel
    rows: int

    def derivatives(self, x: Floats, curved: bool) -> tuple[Floats, Floats | None]:
        """Gradient and, if ``curved``, information, both with the prior."""
        log, n, m = self.log, self.rows, self.m
        assert log.covariates is not None
        one_pass = compile_kernel(gradient_loop) if self.kernel == "compiled" else gradient_vectors
        w = np.ones(1) if log.weight is None else log.weight[:n]
        gradient, information = one_pass(
            log.a[:n], log.b[:n], self.score[:n], w, log.covariates[:n], x[:m], x[m:], curved
        )
        gradient -= self.precisions * x
        if not curved:
            return gradient, None
        fill_null_direction(information, m, float(self.precisions[0]))
        information[np.diag_indices_from(information)] += np.append(np.zeros(m), self.precisions[m:])
        return gradient, information


def _precisions(prior: StylePrior, score: Floats, scale: Floats, m: int) -> Floats:
    """The precision of every unknown: coefficients belong to covariates as they are, not as scaled."""
    battles = np.count_nonzero(~np.isnan(score))
    return np.append(np.full(m, prior.strengths), prior.coefficients * battles * scale**2)


def _factored(information: Floats, names: Sequence[str]) -> Factor:
    """The Cholesky factor; raises if the matrix is singular up to rounding, with the columns that make it so."""
    units = np.sqrt(np.clip(np.diag(information), 1e-300, None))
    scaled = information / np.outer(units, units) - _SINGULAR_TOLERANCE * np.eye(len(units))
    factor = cholesky(information)
    if factor is None or cholesky(scaled) is None:
        flat = np.abs(np.linalg.eigh(scaled)[1][len(scaled) - len(names) :, 0])
        named = [name for name, part in zip(names, flat, strict=True) if part > _PART_SHARE * flat.max()]
        raise CannotRate(
            f"the style columns {' and '.join(named)} are collinear with each other or with the models; leave one of them out"
        )
    return factor
