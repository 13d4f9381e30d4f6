"""Fits each group of comparable models, and combines the fits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tiltyard.core.battles import CodedBattles, Table
from tiltyard.core.ratings import newton
from tiltyard.core.ratings.leave_one_out import RowInformation, RowScores
from tiltyard.core.ratings.pairs import PairScores, Scoring, has_tie_parameter, tie_share
from tiltyard.core.ratings.result import RatingExtras
from tiltyard.core.ratings.style_control import StylePrior, fit_style
from tiltyard.errors import BadOption, CannotRate
from tiltyard.foundation.arrays import Floats, Ints
from tiltyard.foundation.compiled_kernels import KernelChoice, choose_kernel


@dataclass(frozen=True, slots=True, eq=False)
class FittedStrengths:
    """Log-strengths of all models (NaN if unrated), their bread, and the extra parameters.

    ``bread`` covers all models (zero between groups and for unrated models), then the extra
    parameters. Davidson's λ and style coefficients belong to group 0, the only one fitted then.
    """

    theta: Floats
    group: Ints
    bread: Floats
    iterations: int
    converged: bool
    log_tie: float | None = None
    beta: Floats | None = None
    style_scale: Floats | None = None
    style_names: tuple[str, ...] = ()
    kernel: str = "plain"
    #: The precision of the normal prior on each log-strength; 0 without one.
    prior_precision: float = 0.0

    @property
    def prior(self) -> Floats:
        """The precision matrix of the prior; extra parameters have none."""
        return np.diag(np.append(np.full(len(self.theta), self.prior_precision), np.zeros(self.n_extra)))

    def with_prior(self, covariances: Sequence[Floats]) -> list[Floats]:
        """Sandwich covariances B·meat·B including the prior's uncertainty, and the posterior's own covariance.

        The prior's precision Λ must be in the meat as it is in the bread: otherwise ratings that depend
        on the prior alone would appear certain. Without a prior, the covariances are unchanged.
        """
        if not self.prior_precision:
            return list(covariances)
        pull = self.bread @ self.prior @ self.bread
        return [*(covariance + pull for covariance in covariances), self.bread]

    @property
    def n_extra(self) -> int:
        return len(self.bread) - len(self.theta)

    def expected(self) -> Floats:
        """Expected score of row model against column model; NaN if they are not comparable."""
        d = self._differences()
        return newton.expected_score(d, self.log_tie).score

    def expected_tie(self) -> Floats | None:
        return None if self.log_tie is None else newton.expected_score(self._differences(), self.log_tie).tie

    def _differences(self) -> Floats:
        d = self.theta[:, None] - self.theta[None, :]
        d[self.group[:, None] != self.group[None, :]] = np.nan
        np.fill_diagonal(d, np.nan)
        return d

    def row_scores(self, scoring: Scoring) -> RowScores:
        """A function of battles that returns residuals and extra scores, NaN for a battle that does not count."""
        m = len(self.theta)
        expected, tie = self.expected().ravel(), self.expected_tie()

        def plain(codes: CodedBattles) -> tuple[Floats, Floats | None]:
            weight = 1.0 if codes.weight is None else codes.weight
            y = scoring.of(codes)
            pair = codes.a.astype(np.int64) * m + codes.b
            r = weight * (y - expected[pair])
            if tie is None:
                return r, None
            return r, (weight * (tie_share(y) - tie.ravel()[pair]))[:, None]

        def styled(codes: CodedBattles) -> tuple[Floats, Floats | None]:
            assert codes.covariates is not None
            assert self.beta is not None
            assert self.style_scale is not None
            weight = 1.0 if codes.weight is None else codes.weight
            z = codes.covariates / self.style_scale
            d = self.theta[codes.a] - self.theta[codes.b] + z @ self.beta
            r = weight * (scoring.of(codes) - newton.expected_score(d, None).score)
            return r, z * r[:, None]

        return plain if self.beta is None else styled

    def row_information(self) -> RowInformation:
        """A function of battles that returns each one's information about its difference and the extra parameters."""
        m = len(self.theta)
        expected, tie = newton.ExpectedScore(self.expected(), self.expected_tie()), self.expected_tie()
        variance = expected.variance().ravel()

        def plain(codes: CodedBattles) -> tuple[Floats, Floats | None, Floats | None]:
            weight = 1.0 if codes.weight is None else codes.weight
            pair = codes.a.astype(np.int64) * m + codes.b
            v = variance[pair]
            if tie is None:
                return weight * v, None, None
            share = tie.ravel()[pair]
            # Davidson's 2 × 2 information of (d, λ): v at (1, z), and the rest at λ alone.
            z = share * (0.5 - expected.score.ravel()[pair]) / v
            return weight * v, z[:, None], weight * (share * (1.0 - share) - v * z * z)

        def styled(codes: CodedBattles) -> tuple[Floats, Floats | None, Floats | None]:
            assert codes.covariates is not None
            assert self.beta is not None
            assert self.style_scale is not None
            weight = 1.0 if codes.weight is None else codes.weight
            z = codes.covariates / self.style_scale
            d = self.theta[codes.a] - self.theta[codes.b] + z @ self.beta
            return weight * newton.expected_score(d, None).variance(), z, None

        return plain if self.beta is None else styled

    def extras(self) -> RatingExtras:
        """Method-specific values of the result."""
        extras: RatingExtras = {"iterations": self.iterations, "kernel": self.kernel}
        if self.log_tie is not None:
            extras["tie_parameter"] = math.exp(self.log_tie)
        if self.beta is not None and self.style_scale is not None:
            extras["style"] = dict(zip(self.style_names, self.beta.tolist(), strict=True))
            extras["style_scale"] = dict(zip(self.style_names, self.style_scale.tolist(), strict=True))
        return extras


def fit_groups(
    pairs: PairScores,
    group: Ints,
    *,
    davidson: bool = False,
    prior_precision: float = 0.0,
    bread: bool = True,
) -> FittedStrengths:
    """Fit each group of models on its own battles; ``bread`` is needed for standard errors."""
    m = pairs.n_models
    if davidson:
        group = _first_only(group)
    theta = np.full(m, np.nan)
    inverse = np.full((m + davidson, m + davidson), 0.0 if bread else np.nan)
    iterations, converged, log_tie = 0, True, None
    for g in range(int(group.max(initial=-1)) + 1):
        members = np.flatnonzero(group == g)
        among = pairs.among(members)
        if davidson and not has_tie_parameter(among, prior=prior_precision > 0.0):
            raise CannotRate(
                "Davidson's tie parameter cannot be estimated: it needs ties, and models that "
                "beat each other both ways; use ties as half wins"
            )
        fit = newton.fit_pairs(among, davidson=davidson, prior_precision=prior_precision, bread=bread)
        theta[members] = fit.theta
        if fit.bread is not None:
            rows = np.append(members, m) if davidson else members
            inverse[np.ix_(rows, rows)] = fit.bread
        iterations, converged = max(iterations, fit.iterations), converged and fit.converged
        log_tie = fit.log_tie
    size = m + (log_tie is not None)
    bread_of_all = inverse[:size, :size]
    return FittedStrengths(
        theta, group, bread_of_all, iterations, converged, log_tie, prior_precision=prior_precision
    )


def fit_with_style(
    table: Table,
    scoring: Scoring,
    group: Ints,
    *,
    prior_precision: float,
    style_penalty: float = 0.0,
    kernel: KernelChoice,
    bread: bool,
) -> FittedStrengths:
    """Fit group 0 with the table's style covariates."""
    if not table.covariates:
        raise BadOption("style control needs style columns in the table; name them when reading the battles")
    log = table.log()
    group = _first_only(group)
    members = np.flatnonzero(group == 0)
    if not len(members):
        raise CannotRate("no two models won points from each other, so style control is not possible")
    score = scoring.of(log)
    chosen = choose_kernel(kernel, len(log))
    if len(members) < len(group):
        log, score = _among(log, score, members, len(group))
    prior = StylePrior(prior_precision, style_penalty)
    fit = fit_style(log, score, len(members), prior, chosen, names=table.covariates, bread=bread)
    m, k = len(table.models), len(table.covariates)
    theta = np.full(m, np.nan)
    theta[members] = fit.theta
    inverse = np.full((m + k, m + k), 0.0 if bread else np.nan)
    if fit.bread is not None:
        where = np.append(members, m + np.arange(k))
        inverse[np.ix_(where, where)] = fit.bread
    return FittedStrengths(
        theta,
        group,
        inverse,
        fit.iterations,
        fit.converged,
        beta=fit.beta,
        style_scale=fit.scale,
        style_names=table.covariates,
        kernel=chosen,
        prior_precision=prior_precision,
    )


def _among(log: CodedBattles, score: Floats, members: Ints, m: int) -> tuple[CodedBattles, Floats]:
    """The log with ``members`` numbered by position, and NaN scores for battles of other models."""
    place = np.full(m, -1)
    place[members] = np.arange(len(members))
    a, b = place[log.a], place[log.b]
    outside = (a < 0) | (b < 0)
    a[outside] = b[outside] = 0
    return replace(log, a=a, b=b), np.where(outside, np.nan, score)


def _first_only(group: Ints) -> Ints:
    return np.where(group == 0, 0, -1)
