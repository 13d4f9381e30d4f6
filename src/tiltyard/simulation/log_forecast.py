"""A log with its fit: what it says of its world, and forecasts of what it will say after more battles.

The battles so far are kept. Those to come are drawn: the same pairs as often as before, prompts and voters by how
active they were, scores from the fitted strengths with effects of prompts and voters of the size that the log shows.
Effects of prompts and voters already seen are drawn given their battles. The spread over many such futures is the
forecast. `backtest` makes a forecast from the first third of a log, and looks what followed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, gammaln

from tiltyard.core.battles import CodedBattles, Kind, Table
from tiltyard.core.battles.cluster_keys import MISSING_KEY, Keys
from tiltyard.core.ratings import BradleyTerry, Ratings
from tiltyard.core.ratings.group_fit import fit_groups
from tiltyard.core.ratings.pairs import Scoring, comparable_groups, laplacians, score_pairs
from tiltyard.core.ratings.ranks import rank_models
from tiltyard.errors import CannotRate
from tiltyard.foundation.arrays import Floats, Ints
from tiltyard.simulation.worlds import POINTS_PER_LOGIT

#: The range that is stated holds four futures in five.
_LOW_PROBABILITY, _HIGH_PROBABILITY = 0.1, 0.9
#: Futures drawn for a forecast.
FUTURE_COUNT = 40
_BACKTEST_SHARE = 1.0 / 3.0

#: Closed sets are tried with this many times the clusters that were seen.
_CLOSED_SET_RATIOS = (1.0, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0)
#: Fewer battles than this say too little to forecast from.
MIN_LOG_BATTLES = 200
#: A weak prior (600 points), so that a model which only won can be drawn too.
_PRIOR_PRECISION = (POINTS_PER_LOGIT / 600.0) ** 2
#: How often effects of prompts and voters are drawn in turn.
_DRAW_ROUND_COUNT = 6
#: The least variance of a battle's score relative to a coin flip.
_LEAST_NOISE_RATIO = 0.05
#: The prior of an effect's standard deviation is half of a normal distribution with this scale; it is drawn on a grid.
_EFFECT_PRIOR_LOGITS = 0.5
_EFFECT_GRID_COUNT = 301
#: Clusters × models² of effects that are drawn given their battles, at once.
_EFFECT_NUMBER_LIMIT = 1 << 24


@dataclass(frozen=True, slots=True, eq=False)
class LogForecast:
    """The futures of a log after ``battles`` in all, one row for each."""

    battles: int
    models: tuple[str, ...]
    rating: Floats
    #: Median half-width of the intervals, and the share of pairs whose order is claimed.
    half_width: Floats
    claimed: Floats

    def range_of(self, values: Floats) -> tuple[float, float]:
        """The range of four futures in five."""
        low, high = np.nanquantile(values, (_LOW_PROBABILITY, _HIGH_PROBABILITY))
        return float(low), float(high)


@dataclass(frozen=True, slots=True)
class BacktestFigure:
    """One figure: the range that was forecast, and what came."""

    name: str
    low: float
    high: float
    came: float

    @property
    def holds(self) -> bool:
        return self.low <= self.came <= self.high


@dataclass(frozen=True, slots=True)
class Backtest:
    """A forecast made at ``made_at`` battles, compared with the whole log."""

    made_at: int
    battles: int
    figures: tuple[BacktestFigure, ...]

    @property
    def held(self) -> int:
        return sum(figure.holds for figure in self.figures)


def current_figures(table: Table) -> tuple[float, float]:
    """Median half-width of the intervals, and the share of pairs whose order is claimed, as the log stands."""
    _, half, claimed = _figures(BradleyTerry()(table))
    return half, claimed


def profile_log(table: Table) -> LogProfile:
    return FittedLog(table).profile()


def forecast_log(
    table: Table,
    battles: int,
    *,
    futures: int = FUTURE_COUNT,
    seed: int = 0,
) -> LogForecast:
    """How the log would stand at ``battles`` in all, if it goes on as it was."""
    fitted, log = FittedLog(table), table.log()
    method, rows = BradleyTerry(), []
    for k in range(futures):
        more = fitted.go_on(battles - len(log), np.random.default_rng([seed, k]))
        rows.append(_figures(method(Table.from_codes(table.models, _joined(log, more)))))
    rating, half, claimed = (np.array(column) for column in zip(*rows, strict=True))
    return LogForecast(battles, table.models, rating, half, claimed)


def backtest(table: Table, *, futures: int = FUTURE_COUNT, seed: int = 0) -> Backtest | None:
    """A forecast from the first third of the log, and what followed; ``None`` if a third is too short."""
    log = table.log()
    made_at = int(len(log) * _BACKTEST_SHARE)
    first = Table.from_codes(table.models, log.take(np.arange(made_at)))
    if (~np.isnan(Scoring().of(first.log()))).sum() < MIN_LOG_BATTLES:
        return None
    found = forecast_log(first, len(log), futures=futures, seed=seed)
    rating, half, claimed = _figures(BradleyTerry()(Table.from_codes(table.models, log)))
    figures = [
        BacktestFigure(name, *found.range_of(values), came)
        for name, values, came in (
            ("median half-width", found.half_width, half),
            ("share of pairs in a settled order", found.claimed, claimed),
        )
    ]
    for k, model in enumerate(table.models):
        if np.isfinite(rating[k]) and np.isfinite(found.rating[:, k]).mean() > 0.5:
            figures.append(
                BacktestFigure(f"rating of {model}", *found.range_of(found.rating[:, k]), float(rating[k]))
            )
    return Backtest(made_at, len(log), tuple(figures))


def _figures(ratings: Ratings) -> tuple[Floats, float, float]:
    ranks = rank_models(ratings)
    assert ranks is not None
    assert ratings.interval is not None
    half = (ratings.interval.high - ratings.interval.low) / 2.0
    m = len(ratings.models)
    known = half[np.isfinite(half)]
    middle = float(np.median(known)) if len(known) else np.nan
    return ratings.rating, middle, float(ranks.above.sum()) / max(m * (m - 1) / 2.0, 1.0)


def _joined(log: CodedBattles, more: CodedBattles) -> CodedBattles:
    def column(name: str) -> npt.NDArray[np.uint64] | None:
        before, after = getattr(log, name), getattr(more, name)
        if before is None:
            return None
        return np.concatenate([before, np.full(len(more), MISSING_KEY) if after is None else after])

    return CodedBattles(
        np.concatenate([log.a, more.a]),
        np.concatenate([log.b, more.b]),
        np.concatenate([log.kind, more.kind]),
        prompt=column("prompt"),
        voter=column("voter"),
        weight=None if log.weight is None else np.concatenate([log.weight, np.ones(len(more))]),
    )


@dataclass(frozen=True, slots=True)
class ClusterActivity:
    """The parameters of the process, for ``seen`` clusters in ``n`` battles."""

    n: int
    seen: int
    discount: float
    concentration: float

    @property
    def is_closed(self) -> bool:
        """Whether there is a last prompt: no more than `size` ever come."""
        return self.discount < 0.0

    @property
    def size(self) -> int | None:
        """The number of clusters of a closed set."""
        return round(self.concentration / -self.discount) if self.is_closed else None

    def go_on(self, known: Ints, more: int, rng: np.random.Generator) -> Ints:
        """The clusters of ``more`` battles after those of ``known`` (numbers from 0 up); new ones get the next numbers."""
        labels = np.concatenate([known, np.zeros(more, dtype=np.int64)])
        counts = np.bincount(known, minlength=self.seen).tolist()
        copied, kept = rng.random((2, more)).tolist()
        earlier = (rng.random(more) * (len(known) + np.arange(more))).astype(np.int64).tolist()
        size = self.size
        fresh = rng.integers(0, size or 1, more).tolist()
        for k in range(more):
            n = len(known) + k
            label = int(labels[earlier[k]]) if n and copied[k] * (n + self.concentration) < n else -1
            if label >= 0 and size is None and kept[k] * counts[label] >= counts[label] - self.discount:
                label = -1
            if label < 0:
                label = len(counts) if size is None else min(fresh[k], len(counts))
            if label == len(counts):
                counts.append(0)
            counts[label] += 1
            labels[n] = label
        return labels[len(known) :]


def fit_activity(counts: Ints) -> ClusterActivity:
    """The parameters under which these numbers of battles per cluster are most likely."""
    counts = counts[counts > 0]
    n, seen = int(counts.sum()), len(counts)
    if n < 2 or seen < 2:
        return ClusterActivity(n, seen, -1.0, float(max(seen, 1)))

    def open_loss(x: Floats) -> float:
        return -_log_likelihood(counts, _discount(x[0]), math.exp(x[1]))

    start = np.array([-1.0, math.log(max(seen / 5.0, 1.0))])
    # Bounds, because the best open set is infinite where every battle has a prompt of its own.
    found = minimize(open_loss, start, method="Nelder-Mead", bounds=((-30.0, 30.0), (-20.0, 20.0)))
    best = (float(found.fun), _discount(found.x[0]), math.exp(found.x[1]))
    for ratio in _CLOSED_SET_RATIOS:
        size = max(round(ratio * seen), seen)

        def closed_loss(x: float, size: int = size) -> float:
            return -_log_likelihood(counts, -math.exp(x), size * math.exp(x))

        one = minimize_scalar(closed_loss, bounds=(-7.0, 7.0), method="bounded")
        kappa = math.exp(one.x)
        best = min(best, (float(one.fun), -kappa, size * kappa))
    return ClusterActivity(n, seen, best[1], best[2])


def _discount(x: float) -> float:
    """A discount from 0 to 0.95."""
    return 0.95 / (1.0 + math.exp(-x))


def _log_likelihood(counts: Ints, discount: float, concentration: float) -> float:
    n, k = int(counts.sum()), len(counts)
    arrivals = np.log(np.maximum(concentration + discount * np.arange(1, k), 1e-300)).sum()
    total = gammaln(concentration + n) - gammaln(concentration + 1.0)
    within = (gammaln(counts - discount) - gammaln(1.0 - discount)).sum()
    return float(arrivals - total + within)


@dataclass(frozen=True, slots=True)
class ClusterProfile:
    """Prompts, or voters, of a log: how active they are, and how much models differ between them."""

    activity: ClusterActivity
    #: Standard deviation of the effects of model × cluster, in logits of the fitted ratings.
    effect_sd: float
    largest_share: float


@dataclass(frozen=True, slots=True)
class LogProfile:
    """What a log says of the world that it comes from."""

    battles: int
    models: int
    #: Share of both_bad among all, and of ties among the others (what is between a win and a loss counts in part).
    both_bad: float
    ties: float
    #: Spread of the models' strengths in points, without the noise of their estimates.
    strength_sd: float
    prompts: ClusterProfile | None
    voters: ClusterProfile | None


class _Clusters:
    """Clusters of one kind: the cluster of each battle, and what its battles say of its effects."""

    def __init__(self, fitted: FittedLog, keys: Keys) -> None:
        self.known, self.of = np.unique(keys[fitted.used], return_inverse=True)
        self.activity = fit_activity(np.bincount(self.of))
        self._information = self._parts(fitted)
        self.estimate, self.variance_error = self._effect_variance(fitted)

    @property
    def variance(self) -> float:
        """The estimated variance of effects; noise can make the estimate negative."""
        return max(self.estimate, 0.0)

    @property
    def profile(self) -> ClusterProfile:
        largest = float(np.bincount(self.of).max() / len(self.of))
        return ClusterProfile(self.activity, math.sqrt(self.variance), largest)

    def _effect_variance(self, fitted: FittedLog) -> tuple[float, float]:
        """The variance of effects in logits squared, and its standard error.

        Scores of two battles of a cluster vary together by v·v′·τ² for each model that both have, less what the
        fit took from both: φ·v·v′ times the covariance of their directions in it. Single battles say nothing. The
        error is that of a ratio of sums over clusters.
        """
        n, r, v = len(self.known), fitted.residual, fitted.variance
        if self._information is None:
            return 0.0, 0.0
        bread, a, b = fitted.bread, fitted.a, fitted.b
        direction = bread[a, a] + bread[b, b] - 2.0 * bread[a, b]
        taken = np.einsum("cij,jk,cki->c", self._information, bread, self._information, optimize=True)
        taken -= 2.0 * np.bincount(self.of, v * v * direction, n)
        together = (self._scores(fitted, r) ** 2).sum(axis=1) - 2.0 * np.bincount(self.of, r * r, n)
        together += taken * (r @ r) / v.sum()
        expected = (self._information**2).sum(axis=(1, 2)) - 4.0 * np.bincount(self.of, v * v, n)
        total = float(expected.sum())
        if total <= 0.0:
            return 0.0, 0.0
        found = float(together.sum()) / total * n / (n - 1.0)
        error = math.sqrt(float(((together - found * expected) ** 2).sum()) * n / (n - 1.0)) / total
        return found, error

    def _scores(self, fitted: FittedLog, residual: Floats) -> Floats:
        score = np.zeros((len(self.known), fitted.m))
        np.add.at(score, (self.of, fitted.a), residual)
        np.add.at(score, (self.of, fitted.b), -residual)
        return score

    def _parts(self, fitted: FittedLog) -> Floats | None:
        """The information of each cluster; ``None`` if that is too much to hold."""
        shape = len(self.known), fitted.m
        if shape[0] * shape[1] ** 2 > _EFFECT_NUMBER_LIMIT:
            return None
        return laplacians(fitted.a, fitted.b, fitted.variance, self.of, shape)

    def draw_variance(self, rng: np.random.Generator) -> float:
        """The variance of effects: one draw, given its estimate and a weak prior on the standard deviation."""
        sd = np.linspace(0.0, 3.0 * _EFFECT_PRIOR_LOGITS, _EFFECT_GRID_COUNT)[1:]
        error = max(self.variance_error, 1e-6)
        log_density = -0.5 * ((self.estimate - sd**2) / error) ** 2 - 0.5 * (sd / _EFFECT_PRIOR_LOGITS) ** 2
        weight = np.exp(log_density - log_density.max())
        return float(rng.choice(sd, p=weight / weight.sum())) ** 2

    def draw_effects(
        self, fitted: FittedLog, residual: Floats, variance: float, rng: np.random.Generator
    ) -> Floats:
        """Effects of the known clusters (clusters by models), given what their battles scored beyond the rest."""
        noise = rng.normal(size=(len(self.known), fitted.m))
        if self._information is None:
            return noise * math.sqrt(variance)
        precision = self._information / fitted.noise + np.eye(fitted.m) / variance
        mean = np.linalg.solve(precision, self._scores(fitted, residual)[:, :, None] / fitted.noise)[:, :, 0]
        # With L Lᵀ the precision, L⁻ᵀ of white noise has its inverse as covariance.
        turned = np.linalg.solve(np.linalg.cholesky(precision).transpose(0, 2, 1), noise[:, :, None])[:, :, 0]
        return np.asarray(mean + turned)

    def go_on(
        self, effects: Floats, variance: float, more: int, rng: np.random.Generator
    ) -> tuple[Keys, Ints, Floats]:
        """Keys and numbers of the clusters of the battles to come, and the effects of all clusters, new ones too."""
        labels = self.activity.go_on(self.of, more, rng)
        fresh = max(int(labels.max(initial=-1)) + 1 - len(self.known), 0)
        every = np.concatenate([effects, rng.normal(0.0, math.sqrt(variance), (fresh, effects.shape[1]))])
        keys = np.concatenate([self.known, rng.integers(1, 1 << 63, fresh, dtype=np.uint64)])
        return keys[labels], labels, every


class FittedLog:
    """A log with its fit: what is needed to draw how it goes on."""

    def __init__(self, table: Table) -> None:
        self.table, self.m, log = table, len(table.models), table.log()
        scoring = Scoring()
        pairs = score_pairs(table.counts, self.m, scoring)
        fit = fit_groups(pairs, comparable_groups(pairs, prior=True), prior_precision=_PRIOR_PRECISION)
        score = scoring.of(log)
        counted = ~np.isnan(score) & ~np.isnan(fit.expected()[log.a, log.b])
        self.used = np.flatnonzero(counted)
        if len(self.used) < MIN_LOG_BATTLES:
            raise CannotRate(
                f"the log has {len(self.used)} battles that rate models; a forecast needs {MIN_LOG_BATTLES}"
            )
        self.both_bad = 1.0 - len(self.used) / len(log)
        self.a, self.b = log.a[self.used].astype(np.int64), log.b[self.used].astype(np.int64)
        self.theta, self.bread = np.nan_to_num(fit.theta), fit.bread
        chance = expit(self.theta[self.a] - self.theta[self.b])
        self.residual, self.variance = score[self.used] - chance, chance * (1.0 - chance)
        self.ways = {
            name: _Clusters(self, keys)
            for name, keys in {"prompt": log.prompt, "voter": log.voter}.items()
            if keys is not None and _is_clustered(keys[self.used])
        }
        # The variance of a score relative to a coin flip. Ties take their part of it, effects another.
        squares, total = float(self.residual @ self.residual), float(self.variance.sum())
        self.ties = float(np.clip((total - squares) * 4.0 / len(self.used), 0.0, 0.9))
        effects = sum(way.variance for way in self.ways.values())
        explained = 2.0 * effects * float(self.variance @ self.variance)
        self.noise = max((squares - explained) / total, _LEAST_NOISE_RATIO)
        self.ratings = BradleyTerry()(table)

    def profile(self) -> LogProfile:
        error = np.zeros(self.m) if self.ratings.uncertainty is None else self.ratings.uncertainty.ratings()
        spread = float(np.nanvar(self.ratings.rating) - np.nanmean(error))
        ways = {name: way.profile for name, way in self.ways.items()}
        return LogProfile(
            battles=len(self.table.log()),
            models=self.m,
            both_bad=self.both_bad,
            ties=self.ties,
            strength_sd=float(np.sqrt(max(spread, 0.0))),
            prompts=ways.get("prompt"),
            voters=ways.get("voter"),
        )

    def go_on(self, more: int, rng: np.random.Generator) -> CodedBattles:
        """Battles to come."""
        drawn = rng.integers(0, len(self.a), more)
        turned = rng.random(more) < 0.5
        a = np.where(turned, self.b[drawn], self.a[drawn])
        b = np.where(turned, self.a[drawn], self.b[drawn])
        variances = {name: way.draw_variance(rng) for name, way in self.ways.items()}
        mean, effects = self._world(variances, rng)
        gap = mean[a] - mean[b]
        keys: dict[str, Keys] = {}
        for name, way in self.ways.items():
            keys[name], cluster, own = way.go_on(effects[name], variances[name], more, rng)
            gap += own[cluster, a] - own[cluster, b]
        score = expit(gap)
        won = np.clip(score - self.ties / 2.0, 0.0, 1.0 - self.ties)
        draw = rng.random(more)
        kind = np.where(draw < won, Kind.WIN_A, np.where(draw < won + self.ties, Kind.TIE, Kind.WIN_B))
        kind = np.where(rng.random(more) < self.both_bad, Kind.BOTH_BAD, kind).astype(np.uint8)
        narrow = self.table.log().a.dtype
        return CodedBattles(
            a.astype(narrow), b.astype(narrow), kind, prompt=keys.get("prompt"), voter=keys.get("voter")
        )

    def _world(
        self, variances: Mapping[str, float], rng: np.random.Generator
    ) -> tuple[Floats, dict[str, Floats]]:
        """Mean strengths over the population, and the effects of known clusters given those: one draw of all.

        Effects of prompts and of voters explain the same battles, so they are drawn in turn, each given the other.
        """
        # How far the mean over the population may be from the fit, in logits: one draw.
        uncertainty = self.ratings.uncertainty
        assert uncertainty is not None
        values, vectors = np.linalg.eigh(np.nan_to_num(uncertainty.covariances[0]) / POINTS_PER_LOGIT**2)
        shift = np.asarray((vectors * np.sqrt(values.clip(0.0))) @ rng.normal(size=self.m))
        effects = {name: np.zeros((len(way.known), self.m)) for name, way in self.ways.items()}
        for _ in range(_DRAW_ROUND_COUNT if len(self.ways) > 1 else 1):
            for name, way in self.ways.items():
                gap = shift[self.a] - shift[self.b]
                for other, rest in self.ways.items():
                    if other != name:
                        gap += effects[other][rest.of, self.a] - effects[other][rest.of, self.b]
                residual = self.residual - self.variance * gap
                effects[name] = way.draw_effects(self, residual, variances[name], rng)
        return self.theta + shift, effects


def _is_clustered(keys: Keys) -> bool:
    """Whether every battle names its cluster, and there is more than one."""
    return bool((keys != MISSING_KEY).all() and (keys != keys[0]).any())
