"""Bradley–Terry ratings with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from tiltyard.core.battles import CodedBattles, Table
from tiltyard.core.ratings.bootstrap import battle_draws, cluster_draws, refit
from tiltyard.core.ratings.findings import Finding
from tiltyard.core.ratings.group_fit import FittedStrengths, fit_groups, fit_with_style
from tiltyard.core.ratings.pairs import (
    PairScores,
    Scoring,
    comparable_groups,
    count_records,
    data_findings,
    group_findings,
    require_above_zero,
    require_at_least,
    require_level,
    require_number,
    score_pairs,
)
from tiltyard.core.ratings.posterior import ContrastInterval, Posterior, nearly_one_sided
from tiltyard.core.ratings.result import Interval, RatingExtras, Ratings, Uncertainty
from tiltyard.core.ratings.variance import (
    VarianceEstimate,
    critical_value,
    rating_variance,
)
from tiltyard.core.ratings.weight_limits import LimitedTable, limit_shares, round_factors
from tiltyard.errors import BadOption, CannotRate
from tiltyard.foundation.arrays import Floats
from tiltyard.foundation.compiled_kernels import KernelChoice


@dataclass(frozen=True, slots=True)
class BradleyTerry:
    """One strength per model, by maximum likelihood on counts.

    Ratings are ``base + scale·log10(odds)``, with mean ``base`` in each group of comparable
    models, or shifted as a whole so that ``anchor`` has ``anchor_rating``. Intervals belong to
    the mean-zero contrasts and do not change when an anchor is chosen.
    """

    #: ``half`` a win each, Davidson's tie parameter, or ``drop``. Davidson's scale is wider:
    #: its differences are odds of winning given that somebody wins.
    ties: Literal["half", "davidson", "drop"] = "half"
    #: What a lean counts for its winner, 0.5 to 1.
    lean: float = 0.75
    #: What an inconsistent result counts for A; ``None`` leaves it out.
    inconsistent: float | None = 0.5
    #: Use stated preferences (``pref``) instead of outcomes, if battles have them.
    soft: bool = False
    #: The outcome ``both_bad``: ``drop`` leaves it out, ``tie`` counts it as a tie. A judge's flag is no outcome.
    both_bad: Literal["drop", "tie"] = "drop"
    #: Every pair with at least so many battles weighs the same, those with fewer in proportion; ``None``: by battles.
    even_pairs: int | None = None
    #: Control for the table's style covariates.
    style: bool = False
    #: What the square of a style coefficient costs, in units of the mean log-likelihood of a battle.
    style_penalty: float = 0.0
    #: Subtract the mean of each style covariate first. It makes sides unequal; LMArena does it.
    style_centred: bool = False
    interval: Literal["sandwich", "bootstrap", "none"] = "sandwich"
    #: What is resampled: ``auto`` means prompts (and voters) if the log has them; a level of the table replaces prompts.
    clusters: str = "auto"
    #: No prompt and no voter weighs more than this share of the battles (or 1.3 times the mean, if they are few);
    #: ``None``: no limit.
    max_share: float | None = 0.1
    level: float = 0.95
    n_bootstraps: int = 100
    seed: int = 0
    #: Standard deviation, in rating points, of a normal prior on each rating; ``None``: no prior.
    prior_sd: float | None = None
    #: Mean rating of each group.
    base: float = 1500.0
    #: Points that mean odds of ten to one.
    scale: float = 400.0
    #: A model whose group is shifted as a whole, so that it has ``anchor_rating``.
    anchor: str | None = None
    anchor_rating: float = 1500.0
    #: ``compiled`` needs numba; ``auto`` uses it for style control of two million battles and more.
    kernel: KernelChoice = "auto"

    def __post_init__(self) -> None:
        if self.ties not in ("half", "davidson", "drop"):
            raise BadOption(f"ties is {self.ties!r}; expected half, davidson or drop")
        if self.interval not in ("sandwich", "bootstrap", "none"):
            raise BadOption(f"interval is {self.interval!r}; expected sandwich, bootstrap or none")
        require_level(self.level)
        require_above_zero("scale", self.scale)
        require_at_least("n_bootstraps", self.n_bootstraps, 2)
        if self.prior_sd is not None:
            require_number("prior_sd", self.prior_sd, lambda points: points > 0.0, "rating points above 0")
        if self.max_share is not None:
            share = "a share above 0, up to 1"
            require_number("max_share", self.max_share, lambda value: 0.0 < value <= 1.0, share)
        if self.even_pairs is not None:
            count = "a number of battles, 1 or more"
            require_number("even_pairs", self.even_pairs, lambda battles: battles >= 1, count)
        require_number("style_penalty", self.style_penalty, lambda cost: 0.0 <= cost < math.inf, "0 or more")
        if self.soft and self.ties == "davidson":
            raise BadOption("soft preferences have no ties for Davidson's parameter to describe")
        if self.style and (self.ties == "davidson" or self.interval == "bootstrap"):
            raise BadOption("style control takes ties as half wins (or drops them) and sandwich intervals")
        self.scoring()

    @property
    def name(self) -> str:
        return "bradley-terry"

    def limited(self, table: Table) -> LimitedTable:
        """The table with the weights that this method uses: pairs made even, no prompt or voter above `max_share`."""
        scoring = self.scoring()
        if self.style_centred and table.covariates:
            table = table.centred()
        if self.even_pairs is not None:
            table = weigh_pairs_evenly(table, scoring, self.even_pairs)
        return limit_shares(table, scoring, self.max_share)

    def __call__(self, table: Table) -> Ratings:
        return self.rated(self.limited(table))

    def rated(self, limited: LimitedTable) -> Ratings:
        """The ratings of a table that has the weights of this method."""
        scoring, table = self.scoring(), limited.table
        pairs = score_pairs(table.counts, len(table.models), scoring)
        group = comparable_groups(pairs, prior=self.prior_sd is not None)
        record = count_records(table.counts, len(table.models), scoring)
        findings = data_findings(table, record, pairs.met) + limited.findings()
        findings += group_findings(table.models, pairs, group, prior=self.prior_sd is not None)
        fitted = self._fit(table, pairs, group)
        rating = self._points(fitted.theta) + self._shift(table.models, fitted)
        spread, interval, extras = self._uncertainty(table, pairs, fitted, rating, limited.largest, findings)
        if spread is not None and not spread.varies[fitted.group >= 0].all():
            findings.append(Finding("no-spread"))
        if not fitted.converged:
            findings.append(Finding("not-converged"))
        return Ratings(
            method=self,
            models=table.models,
            rating=rating,
            group=fitted.group,
            record=record,
            interval=interval,
            uncertainty=None if spread is None else spread.uncertainty,
            these_prompts=None if spread is None else spread.these_prompts,
            findings=tuple(findings),
            extras=fitted.extras() | extras,
        )

    def scoring(self) -> Scoring:
        """The score of each kind of battle under these parameters."""
        ties: Literal["half", "drop"] = "drop" if self.ties == "drop" else "half"
        return Scoring(ties, self.lean, self.inconsistent, self.soft, self.both_bad)

    @property
    def _unit(self) -> float:
        """Rating points per logit."""
        return self.scale / math.log(10.0)

    @property
    def _prior_precision(self) -> float:
        return 0.0 if self.prior_sd is None else (self._unit / self.prior_sd) ** 2

    def _points(self, theta: Floats) -> Floats:
        return self.base + self._unit * theta

    def _shift(self, models: tuple[str, ...], fitted: FittedStrengths) -> Floats:
        """The shift of every rating of a group so that its anchor has the anchor rating."""
        shift = np.zeros(len(models))
        if self.anchor is None:
            return shift
        if self.anchor not in models:
            raise BadOption(f"anchor {self.anchor!r} is not among the models")
        k = models.index(self.anchor)
        if np.isnan(fitted.theta[k]):
            raise CannotRate(f"anchor {self.anchor!r} has no rating in these battles")
        shift[fitted.group == fitted.group[k]] = self.anchor_rating - float(
            self._points(fitted.theta[[k]])[0]
        )
        return shift

    def _fit(self, table: Table, pairs: PairScores, group: npt.NDArray[np.int64]) -> FittedStrengths:
        bread = self.interval != "none"
        if self.style:
            return fit_with_style(
                table,
                self.scoring(),
                group,
                prior_precision=self._prior_precision,
                style_penalty=self.style_penalty,
                kernel=self.kernel,
                bread=bread,
            )
        davidson = self.ties == "davidson"
        return fit_groups(pairs, group, davidson=davidson, prior_precision=self._prior_precision, bread=bread)

    def _uncertainty(
        self,
        table: Table,
        pairs: PairScores,
        fitted: FittedStrengths,
        rating: Floats,
        largest_shares: Mapping[str, float],
        findings: list[Finding],
    ) -> tuple[VarianceEstimate | None, Interval | None, RatingExtras]:
        if self.interval == "none":
            return None, None, {}
        spread = rating_variance(
            table, self.scoring(), fitted, self.clusters, self._unit, findings, self.level
        )
        spread = replace(spread, largest_shares=largest_shares)
        if self.interval == "bootstrap":
            return spread, *self._bootstrap(table, pairs, fitted, rating, spread, findings)
        low, high = self._ends(pairs, fitted, spread.uncertainty)
        interval = spread.interval(rating + low, rating + high, self.level, "sandwich")
        extras: RatingExtras = {}
        if self.style:
            extras["style_se"] = dict(zip(table.covariates, spread.extra_se.tolist(), strict=True))
            extras["style_dof"] = dict(zip(table.covariates, spread.extra_dof.tolist(), strict=True))
        return spread, interval, extras

    def _ends(
        self, pairs: PairScores, fitted: FittedStrengths, uncertainty: Uncertainty
    ) -> tuple[Floats, Floats]:
        """How far intervals extend below and above ratings, in points.

        With a prior, models with hardly a loss or a win use their own posterior, widened by the ratio
        of the variance to the posterior's. (Style control would have to read the log for every point
        of it, so it does not do this.)
        """
        half = critical_value(self.level, uncertainty.dof) * np.sqrt(uncertainty.ratings())
        half[np.isnan(fitted.theta)] = np.nan
        low, high = -half, half.copy()
        if not fitted.prior_precision or fitted.beta is not None:
            return low, high
        for k, reach in self._one_sided(pairs, fitted):
            wider = half[k] / reach.half
            low[k], high[k] = wider * reach.low, wider * reach.high
        return low, high

    def _one_sided(
        self, pairs: PairScores, fitted: FittedStrengths
    ) -> Iterator[tuple[int, ContrastInterval]]:
        """Models with hardly a loss or a win, and the extent of their ratings by their posterior alone."""
        for g in range(int(fitted.group.max(initial=-1)) + 1):
            members = np.flatnonzero(fitted.group == g)
            posterior = Posterior.of(pairs, members, fitted.theta, fitted.log_tie, fitted.prior_precision)
            for place in np.flatnonzero(nearly_one_sided(posterior.likelihood.pairs)).tolist():
                yield int(members[place]), posterior.rating_interval(place, self.level)

    def _bootstrap(
        self,
        table: Table,
        pairs: PairScores,
        fitted: FittedStrengths,
        rating: Floats,
        spread: VarianceEstimate,
        findings: list[Finding],
    ) -> tuple[Interval, RatingExtras]:
        """Intervals from the quantiles of refits; what is claimed of an order still rests on ``spread``."""
        resampled = replace(spread, clustering=spread.clustering.one_way)
        key = next(iter(resampled.clustering.keys), None)
        scoring = self.scoring()
        if key is None and table.counts.sums is None:
            draw = battle_draws(table.counts, scoring, pairs, self.seed)
        else:
            draw, _ = cluster_draws(table, scoring, pairs, key, self.seed)
        theta = refit(
            draw,
            self.n_bootstraps,
            pairs,
            fitted.group,
            fitted.theta,
            davidson=self.ties == "davidson",
            prior_precision=self._prior_precision,
        )
        replicates = rating + self._unit * (theta - fitted.theta)
        failed = int(np.isnan(theta[:, fitted.group >= 0]).any(axis=1).sum())
        if failed:
            findings.append(Finding("failed-replicates", {"failed": failed, "replicates": self.n_bootstraps}))
        tails = [(1.0 - self.level) / 2.0, (1.0 + self.level) / 2.0]
        # Percentiles of each model's valid replicates; NaN if there are none.
        low, high = np.full((2, replicates.shape[1]), np.nan)
        for k, column in enumerate(replicates.T):
            present = column[~np.isnan(column)]
            if len(present):
                low[k], high[k] = np.quantile(present, tails)
        if fitted.prior_precision or spread.is_widened:
            below, above = self._ends(pairs, fitted, spread.uncertainty)
            low, high = np.fmin(low, rating + below), np.fmax(high, rating + above)
        return resampled.interval(low, high, self.level, "bootstrap"), {"replicates": replicates}


def weigh_pairs_evenly(table: Table, scoring: Scoring, enough: int) -> Table:
    """Divide each battle's weight by that of its pair, or by ``enough`` if that is more; the mean factor is 1.

    A scheduler decides who meets whom. If it serves some pairs far more often, ratings answer for those pairs most of all;
    with even weights every pair that met often enough counts the same.
    """
    pairs = score_pairs(table.counts, len(table.models), scoring)
    factor = 1.0 / np.maximum(pairs.weight, enough)
    factor = round_factors(factor * pairs.weight.sum() / (factor @ pairs.weight))

    def factor_of(run: CodedBattles) -> npt.NDArray[np.float64]:
        a, b = run.a.astype(np.int64), run.b.astype(np.int64)
        place = np.minimum(pairs.places(a, b), len(factor) - 1)
        return factor[place]

    return table.reweighted(factor_of) if len(factor) else table
