"""Elo, averaged over shuffled orders of the same battles, and as tournament scripts compute it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from tiltyard.core.battles import KIND_COUNT, Table
from tiltyard.core.ratings.bootstrap import ClusterNumbers, cluster_multiplicities, cluster_numbers
from tiltyard.core.ratings.findings import MIN_PROMPTS, SAMPLE_VOTERS, Finding
from tiltyard.core.ratings.kernels.elo import (
    pack_battles,
    play_decks_vectors,
    play_in_log_order,
    play_shuffled_loop,
    play_shuffled_vectors,
)
from tiltyard.core.ratings.leave_one_out import prompt_key, two_way_keys, voter_key
from tiltyard.core.ratings.pairs import (
    Scoring,
    count_records,
    data_findings,
    disconnected_finding,
    numbered_groups,
    require_above_zero,
    require_at_least,
    require_level,
    score_pairs,
)
from tiltyard.core.ratings.result import Interval, RatingExtras, Ratings, Uncertainty
from tiltyard.core.ratings.variance import (
    VarianceEstimate,
    choose_clusters,
    critical_value,
    prompt_findings,
)
from tiltyard.errors import BadOption
from tiltyard.foundation.arrays import Floats, Ints
from tiltyard.foundation.compiled_kernels import Kernel, KernelChoice, choose_kernel, compile_kernel

#: The largest number of matches in the orders that are played in parallel.
_MATCHES_LIMIT = 1 << 25
#: Standard errors from the mean to the limits of the 95 % that the scripts write.
_STANDARD_ERRORS = 1.96

#: If a prompt or voter has more than this share of the battles, replicates do not show how uncertain ratings are.
_LARGEST_SHARE = 0.1
#: Bootstrap replicates that are played in parallel in NumPy.
_BATCH_REPLICATES = 64

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class DecisiveElo:
    """The mean of Elo ratings over ``n_permutations`` orders of the matches that have a winner."""

    k: float = 16.0
    start: float = 1400.0
    n_permutations: int = 500
    seed: int = 0
    #: Other values of K.
    sweep: tuple[float, ...] = (1.0, 4.0, 8.0, 16.0, 32.0)

    def __post_init__(self) -> None:
        for k in (self.k, *self.sweep):
            require_above_zero("k", k)
        require_at_least("n_permutations", self.n_permutations, 1)

    def __call__(self, models: Sequence[str], winners: Ints, losers: Ints) -> DecisiveRatings:
        """Rate matches, given in order as indices of models. Models without a match have no rating."""
        playing = sorted({*winners.tolist(), *losers.tolist()}, key=models.__getitem__)
        codes = np.zeros(len(models), dtype=np.int64)
        codes[playing] = np.arange(len(playing))
        ks = tuple(dict.fromkeys((self.k, *self.sweep)))
        runs = self._play(codes[winners], codes[losers], len(playing), np.array(ks))
        return DecisiveRatings(
            self, tuple(models[place] for place in playing), dict(zip(ks, runs, strict=True))
        )

    def _play(self, winners: Ints, losers: Ints, m: int, ks: Floats) -> Floats:
        """Final ratings (K, permutation, model). Every K plays the same orders."""
        draws = np.random.default_rng(self.seed)
        runs = np.full((len(ks), self.n_permutations, m), self.start)
        together = max(1, _MATCHES_LIMIT // max(len(winners), 1))
        for first in range(0, self.n_permutations, together):
            block = runs[:, first : first + together]
            rows = np.arange(block.shape[1])
            orders = np.empty((len(winners), len(rows)), dtype=np.int32)
            for row in rows:
                orders[:, row] = draws.permutation(len(winners))
            for places in orders:
                won, lost = winners[places], losers[places]
                ahead = block[:, rows, won] - block[:, rows, lost]
                change = ks[:, None] / (1.0 + 10.0 ** (ahead / 400.0))
                block[:, rows, won] += change
                block[:, rows, lost] -= change
        return runs


@dataclass(frozen=True, slots=True, eq=False)
class DecisiveRatings:
    """The ratings of each K in every order; ``models`` are sorted, and each has a match with a winner."""

    method: DecisiveElo
    models: tuple[str, ...]
    #: K → (permutation, model).
    runs: Mapping[float, Floats]

    def means(self, k: float) -> Floats:
        return np.asarray(self.runs[k].mean(axis=0))

    def errors(self, k: float) -> Floats:
        """Standard errors of the means over orders; NaN with a single order."""
        runs = self.runs[k]
        if len(runs) == 1:
            return np.full(len(self.models), np.nan)
        return np.asarray(runs.std(axis=0, ddof=1) / np.sqrt(len(runs)))

    def limits(self, k: float) -> tuple[Floats, Floats]:
        """The mean plus and minus 1.96 standard errors: noise of shuffling, not an interval of the rating."""
        half = _STANDARD_ERRORS * self.errors(k)
        return self.means(k) - half, self.means(k) + half


@dataclass(frozen=True, slots=True)
class Elo:
    """The mean of Elo ratings over ``n_permutations`` orders of the battles.

    One pass of Elo depends on the order of its battles. Averaging over orders removes that effect;
    the remaining standard error of the mean over orders is reported as *order noise*. It shrinks with
    more permutations and is independent of the number of battles. The interval, in contrast, comes
    from resampling the prompts and voters (or battles).
    """

    #: How much one battle changes a rating.
    k: float = 16.0
    #: First rating of every model.
    start: float = 1500.0
    #: The rating difference at which odds of ten to one are expected.
    spread: float = 400.0
    #: 0 plays the battles once in log order, and gives no interval.
    n_permutations: int = 100
    ties: Literal["half", "drop"] = "half"
    lean: float = 0.75
    inconsistent: float | None = 0.5
    soft: bool = False
    seed: int = 0
    interval: Literal["bootstrap", "none"] = "bootstrap"
    clusters: Literal["auto", "prompt", "battle"] = "auto"
    level: float = 0.95
    n_bootstraps: int = 100
    #: Orders played per bootstrap replicate; their noise is estimated and subtracted.
    n_orders: int = 4
    kernel: KernelChoice = "auto"

    def __post_init__(self) -> None:
        for name in ("k", "spread"):
            require_above_zero(name, getattr(self, name))
        require_level(self.level)
        for name, least in {"n_permutations": 0, "n_bootstraps": 2, "n_orders": 2}.items():
            require_at_least(name, getattr(self, name), least)
        if self.interval not in ("bootstrap", "none"):
            raise BadOption(f"interval is {self.interval!r}; expected bootstrap or none")
        self._scoring()

    @property
    def name(self) -> str:
        return "elo"

    def __call__(self, table: Table) -> Ratings:
        games = _Games.of(table, self._scoring())
        m = len(table.models)
        record = count_records(table.counts, m, self._scoring())
        pairs = score_pairs(table.counts, m, self._scoring())
        played = pairs.met
        findings = data_findings(table, record, played)
        findings += disconnected_finding(table.models, pairs, played)
        extras: RatingExtras = {}
        if self.n_permutations:
            kernel = self._kernel(len(games) * self.n_permutations)
            runs = self._shuffled(games, m, _seeds(self.seed, 0, self.n_permutations), kernel)
            rating = runs.mean(axis=0)
            extras |= {
                "per_permutation": runs,
                "order_noise": (
                    runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
                    if len(runs) > 1
                    else np.full(runs.shape[1], np.nan)
                ),
            }
        else:
            kernel = self._kernel(len(games))
            logits = np.zeros(m)
            run = compile_kernel(play_in_log_order) if kernel == "compiled" else play_in_log_order
            run(games.words, games.score, games.weight * (self.k / self._unit), logits)
            rating = self.start + self._unit * logits
        rating = np.where(played, rating, np.nan)
        spread, interval = self._uncertainty(table, games, rating, findings)
        return Ratings(
            method=self,
            models=table.models,
            rating=rating,
            group=numbered_groups(pairs, played),
            record=record,
            interval=interval,
            uncertainty=None if spread is None else spread.uncertainty,
            findings=tuple(findings),
            extras=extras | {"kernel": kernel},
        )

    def sweep(self, table: Table, ks: Sequence[float]) -> dict[float, Ratings]:
        """Ratings with other values of K, to show how much the choice matters."""
        return {float(k): replace(self, k=float(k))(table) for k in ks}

    def _scoring(self) -> Scoring:
        return Scoring(self.ties, self.lean, self.inconsistent, self.soft)

    def _kernel(self, work: int) -> Kernel:
        return choose_kernel(self.kernel, work)

    @property
    def _unit(self) -> float:
        """Rating points per logit."""
        return self.spread / math.log(10.0)

    def _shuffled(self, games: _Games, m: int, seeds: Words, kernel: Kernel) -> Floats:
        run = compile_kernel(play_shuffled_loop) if kernel == "compiled" else play_shuffled_vectors
        step = games.weight * (self.k / self._unit)
        return self.start + self._unit * run(games.words, games.score, step, m, seeds)

    def _uncertainty(
        self, table: Table, games: _Games, rating: Floats, findings: list[Finding]
    ) -> tuple[VarianceEstimate | None, Interval | None]:
        if self.interval == "none" or not self.n_permutations or not len(games):
            return None, None
        clustering = choose_clusters(table, self._scoring(), self.clusters, findings)
        log, m = table.log(), len(rating)
        if not clustering.keys:
            battles = cluster_numbers(None, games.rows)
            uncertainty = Uncertainty((self._covariance(games, m, battles),), np.full(m, np.inf))
            return self._interval(VarianceEstimate(uncertainty, None, clustering, len(games)), rating)
        ways = [cluster_numbers(key(log), games.rows) for key in clustering.keys]
        if prompt_key in clustering.keys:
            findings += prompt_findings(ways[0].keyed, ways[0].alone, len(games))
        covariances, dofs = [], []
        for key, clusters in zip(clustering.keys, ways, strict=True):
            kind = "prompt" if key is prompt_key else "voter"
            sizes = np.bincount(clusters.number, minlength=1)[: clusters.keyed].astype(np.float64)
            share = float(sizes.max() / len(clusters.number))
            dof = float((sizes**2).sum() ** 2 / (sizes**4).sum() - 1.0)
            case, least = ("elo", MIN_PROMPTS) if kind == "prompt" else ("elo-voters", SAMPLE_VOTERS)
            if clusters.keyed < least or share > _LARGEST_SHARE:
                values = {"case": case, f"{kind}s": clusters.keyed, "share": share, "least": least}
                findings.append(Finding("interval-withheld", {**values, "most": _LARGEST_SHARE}))
                dof = 0.0
            # Replicates vary too little, because each cluster's battles pulled the rating towards them: 1/(1 − s)² of
            # the largest share s corrects for that, P/(P − 1) for the number of clusters.
            factor = clusters.keyed / max(clusters.keyed - 1.0, 1.0) / (1.0 - min(share, _LARGEST_SHARE)) ** 2
            covariances.append(factor * self._covariance(games, m, clusters))
            dofs.append(dof)
        if len(ways) > 1:
            cells = cluster_numbers(two_way_keys(log), games.rows)
            covariances.insert(0, sum(covariances) - self._covariance(games, m, cells))
        uncertainty = Uncertainty(tuple(covariances), np.full(m, min(dofs)))
        n_voters = ways[-1].keyed if voter_key in clustering.keys else None
        spread = VarianceEstimate(uncertainty, None, clustering, ways[0].keyed, n_voters=n_voters)
        return self._interval(spread, rating)

    def _interval(self, spread: VarianceEstimate, rating: Floats) -> tuple[VarianceEstimate, Interval]:
        half = critical_value(self.level, spread.uncertainty.dof) * np.sqrt(spread.uncertainty.ratings())
        return spread, spread.interval(rating - half, rating + half, self.level, "bootstrap")

    def _covariance(self, games: _Games, m: int, clusters: ClusterNumbers) -> Floats:
        """The covariance of ratings between replicates that resample clusters."""
        means, within = self._replicates(games, m, clusters)
        between = np.atleast_2d(np.cov(means, rowvar=False))
        # A replicate's mean still contains the noise of its few orders: subtract it, and add the noise
        # of the rating's own orders instead.
        covariance = between - within / self.n_orders
        np.fill_diagonal(covariance, np.clip(np.diag(covariance), 0.0, None))
        return np.asarray(covariance + within / self.n_permutations)

    def _replicates(self, games: _Games, m: int, clusters: ClusterNumbers) -> tuple[Floats, Floats]:
        """Each replicate's mean over its orders, and the covariance between orders."""
        order = np.argsort(clusters.number, kind="stable")
        starts = np.searchsorted(clusters.number[order], np.arange(clusters.drawn + 1))
        kernel = self._kernel(len(games) * self.n_orders * self.n_bootstraps)
        means, within = np.empty((self.n_bootstraps, m)), np.zeros((m, m))
        times = cluster_multiplicities(self.seed, clusters.drawn)
        together = _BATCH_REPLICATES if kernel == "plain" else 1
        for first in range(0, self.n_bootstraps, together):
            drawn = [
                games.take(order[np.repeat(np.arange(len(order)), np.repeat(times(k), np.diff(starts)))])
                for k in range(first, min(first + together, self.n_bootstraps))
            ]
            for k, runs in enumerate(self._orders(drawn, first, m, kernel), start=first):
                means[k] = runs.mean(axis=0)
                within += np.cov(runs, rowvar=False)
        return means, within / self.n_bootstraps

    def _orders(self, drawn: Sequence[_Games], first: int, m: int, kernel: Kernel) -> list[Floats]:
        """The orders of some replicates; in NumPy they are played in parallel."""
        seeds = [_seeds(self.seed, first + k + 1, self.n_orders) for k in range(len(drawn))]
        if kernel == "compiled":
            return [self._shuffled(games, m, own, kernel) for games, own in zip(drawn, seeds, strict=True)]
        decks = [games.words for games in drawn for _ in range(self.n_orders)]
        step = drawn[0].weight * (self.k / self._unit)
        played = play_decks_vectors(decks, drawn[0].score, step, m, np.concatenate(seeds))
        return list((self.start + self._unit * played).reshape(len(drawn), self.n_orders, m))


@dataclass(frozen=True, slots=True, eq=False)
class _Games:
    """The battles that count, as words (see the kernel); ``rows`` are their positions in the log.

    Battles of one kind share a score; stated preferences and weights give a battle its own.
    """

    rows: Ints
    words: Words
    score: Floats
    weight: Floats

    @classmethod
    def of(cls, table: Table, scoring: Scoring) -> _Games:
        log = table.log()
        score = scoring.of(log)
        rows = np.flatnonzero(~np.isnan(score))
        a, b = log.a[rows], log.b[rows]
        if log.weight is None and not scoring.soft:
            return cls(rows, pack_battles(a, b, log.kind[rows]), scoring.by_kind(), np.ones(KIND_COUNT))
        weight = np.ones(len(rows)) if log.weight is None else log.weight[rows]
        return cls(rows, pack_battles(a, b, np.arange(len(rows))), score[rows], weight)

    def __len__(self) -> int:
        return len(self.words)

    def take(self, rows: Ints) -> _Games:
        return replace(self, rows=self.rows[rows], words=self.words[rows])


def _seeds(seed: int, replicate: int, n: int) -> Words:
    """Well-separated seeds of ``n`` shuffles."""
    state = np.random.SeedSequence(seed, spawn_key=(replicate, 0)).generate_state(n, np.uint64)
    return np.asarray(state, dtype=np.uint64)
