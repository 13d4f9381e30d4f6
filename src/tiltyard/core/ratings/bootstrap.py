"""Bootstrap refits of Bradley–Terry: battles, or whole clusters of them, are resampled.

Resampling uses Poisson weights (Hanley and MacGibbon 2006): the number of times a cluster appears in
a replicate is Poisson(1). If each battle is a cluster, the n battles of one cell appear
Poisson(n) times together, so the cost does not grow with the number of battles. Replicate k
has its own random stream, from the seed and k, independent of the number of replicates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array
from scipy.special import ndtri, pdtr

from tiltyard.core.battles import CodedBattles, Counts, Table
from tiltyard.core.battles.cluster_keys import MISSING_KEY, Keys, mix_bits
from tiltyard.core.ratings import newton
from tiltyard.core.ratings.pairs import PairScores, Scoring, has_tie_parameter, tie_share
from tiltyard.foundation.arrays import Floats, Ints

#: A replicate's pair sums, by its number.
Draws = Callable[[int], PairScores]


def cluster_multiplicities(seed: int, n: int) -> Callable[[int], Ints]:
    """How often each of ``n`` clusters appears in a replicate, by replicate number."""
    poisson = _Poisson(np.ones(n, dtype=np.int64))
    return lambda replicate: poisson.draw(uniform_numbers(seed, replicate, n)).astype(np.int64)


def battle_draws(counts: Counts, scoring: Scoring, pairs: PairScores, seed: int) -> Draws:
    """Replicates that resample single battles, cell by cell. Counts must be unweighted.

    Cells of one pair and one score are drawn together: a sum of Poisson counts is Poisson.
    """
    y = scoring.by_kind()[counts.kind]
    used = ~np.isnan(y) & (counts.a != counts.b)
    a, b, y, n = counts.a[used], counts.b[used], y[used], counts.n[used]
    scores, which = np.unique(np.where(a < b, y, 1.0 - y), return_inverse=True)
    place = pairs.places(a, b)
    cells = np.zeros((len(scores), len(pairs.i)), dtype=np.int64)
    np.add.at(cells, (which, place), n)
    poisson = _Poisson(cells.ravel())
    ties = tie_share(scores)

    def draw(replicate: int) -> PairScores:
        drawn = poisson.draw(uniform_numbers(seed, replicate, cells.size)).reshape(cells.shape)
        return replace(pairs, weight=drawn.sum(axis=0), score=scores @ drawn, tie=ties @ drawn)

    return draw


def uniform_numbers(seed: int, replicate: int, n: int) -> Floats:
    """``n`` numbers between 0 and 1, from integer arithmetic that does not depend on library versions."""
    start = np.random.SeedSequence(seed, spawn_key=(replicate,)).generate_state(1, np.uint64)
    counter = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (mix_bits(counter + start) >> np.uint64(11)).astype(np.float64) * 2.0**-53


class _Poisson:
    """Poisson draws with fixed integer means, by inverting each mean's distribution.

    For means of 256 or more, draws are normal with that mean and variance: as bootstrap weights
    the two are indistinguishable. The search in each distribution starts at the first value that
    the number's bucket can reach, so that few steps are needed.
    """

    _LARGE = 256
    _BUCKETS = 1024

    def __init__(self, means: Ints) -> None:
        distinct, self._row = np.unique(np.minimum(means, self._LARGE), return_inverse=True)
        small = distinct[distinct < self._LARGE]
        width = int(small.max(initial=0)) + 12 * int(np.sqrt(small.max(initial=0))) + 20
        self._reached = pdtr(np.arange(width), np.maximum(small, 1e-300)[:, None].astype(np.float64))
        self._reached[:, -1] = 1.0
        doors = np.arange(self._BUCKETS) / self._BUCKETS
        self._doors = np.array([np.searchsorted(row, doors) for row in self._reached], dtype=np.int64)
        self._doors = self._doors.reshape(len(small), self._BUCKETS)
        self._large = np.flatnonzero(means >= self._LARGE)
        self._small = None if not len(self._large) else np.flatnonzero(means < self._LARGE)
        self._mean = means[self._large].astype(np.float64)

    def draw(self, u: Floats) -> Floats:
        if self._small is None:
            return self._inverted(u, self._row)
        out = np.empty(len(u))
        out[self._small] = self._inverted(u[self._small], self._row[self._small])
        large = self._mean + np.sqrt(self._mean) * ndtri(u[self._large])
        out[self._large] = np.clip(large, 0.0, None)
        return out

    def _inverted(self, u: Floats, row: Ints) -> Floats:
        drawn = self._doors[row, (u * self._BUCKETS).astype(np.int64)]
        walking = np.flatnonzero(u > self._reached[row, drawn])
        while len(walking):
            drawn[walking] += 1
            walking = walking[u[walking] > self._reached[row[walking], drawn[walking]]]
        return drawn.astype(np.float64)


def cluster_draws(
    table: Table,
    scoring: Scoring,
    pairs: PairScores,
    key: Callable[[CodedBattles], Keys | None] | None,
    seed: int,
) -> tuple[Draws, ClusterNumbers]:
    """Replicates that resample whole clusters, and the clusters.

    A battle without a key is resampled individually.
    """
    log = table.log()
    y = scoring.of(log)
    weight = np.ones(len(log)) if log.weight is None else log.weight
    rows = np.flatnonzero(~np.isnan(y) & (weight > 0.0))
    a, b, y, weight = log.a[rows].astype(np.int64), log.b[rows].astype(np.int64), y[rows], weight[rows]
    pair = pairs.places(a, b)
    score = weight * np.where(a > b, 1.0 - y, y)
    tie = weight * tie_share(y)
    clusters = cluster_numbers(key(log) if key is not None else None, rows)
    shape = (clusters.drawn, len(pairs.i))
    sums = [csr_array((column, (clusters.number, pair)), shape=shape) for column in (weight, score, tie)]
    times = cluster_multiplicities(seed, clusters.drawn)

    def draw(replicate: int) -> PairScores:
        appeared = times(replicate).astype(np.float64)
        weight, score, tie = (np.asarray(appeared @ column) for column in sums)
        return replace(pairs, weight=weight, score=score, tie=tie)

    return draw, clusters


@dataclass(frozen=True, slots=True, eq=False)
class ClusterNumbers:
    """The cluster of each battle as a dense number: first those with a key, then single battles."""

    number: Ints
    #: The number of clusters, and of those with a key (all, if each battle is a cluster).
    drawn: int
    keyed: int

    @property
    def alone(self) -> int:
        """Battles without a key."""
        return self.drawn - self.keyed


def cluster_numbers(keys: Keys | None, rows: Ints) -> ClusterNumbers:
    """The clusters of the given rows of the log; without ``keys`` each row is one."""
    if keys is None:
        return ClusterNumbers(np.arange(len(rows)), len(rows), len(rows))
    keys = keys[rows]
    keyed = keys != MISSING_KEY
    known, of_known = np.unique(keys[keyed], return_inverse=True)
    alone = len(rows) - len(of_known)
    number = np.empty(len(rows), dtype=np.int64)
    number[keyed], number[~keyed] = of_known, len(known) + np.arange(alone)
    return ClusterNumbers(number, len(known) + alone, len(known))


def refit(
    draw: Draws,
    replicates: int,
    pairs: PairScores,
    group: Ints,
    theta: Floats,
    *,
    davidson: bool,
    prior_precision: float,
) -> Floats:
    """Log-strengths of every replicate (replicate, model); NaN rows for replicates without a fit.

    ``pairs``, ``group`` and ``theta`` are those of the original data, from which each refit
    starts. A replicate has no fit if some models in it are not comparable (see
    `comparable_groups`), or if Davidson's ν has no finite value.
    """
    out = np.full((replicates, len(group)), np.nan)
    parts = [np.flatnonzero(group == g) for g in range(int(group.max(initial=-1)) + 1)]
    starts = [
        newton.newton_start(pairs.among(members), theta[members], prior_precision=prior_precision)
        for members in parts
    ]
    for k in range(replicates):
        drawn = draw(k)
        for members, start in zip(parts, starts, strict=True):
            among = drawn.among(members)
            comparable = among.groups(strong=not prior_precision).max(initial=0) == 0
            if comparable and (not davidson or has_tie_parameter(among, prior=prior_precision > 0.0)):
                near = theta[members] if davidson else start(among)
                fitted = newton.fit_pairs(
                    among, davidson=davidson, prior_precision=prior_precision, start=near, bread=False
                )
                out[k, members] = fitted.theta
    return out
