"""Bootstrap refits of Bradley–Terry: battles, or whole clusters of them, drawn again.

Drawing is by Poisson weights (Hanley and MacGibbon 2006): how often a cluster appears in a
replicate is Poisson(1). Where each battle is a cluster, the n battles of one cell appear
Poisson(n) times together, so the cost does not grow with the number of battles. Replicate k
has a stream of its own, from the seed and k: it does not depend on how many others there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from tiltyard.battles import Codes, Counts, Table
from tiltyard.battles.keys import MISSING, Keys
from tiltyard.ratings import newton
from tiltyard.ratings.groups import has_tie_parameter
from tiltyard.ratings.pairs import Pairs, pairs_of, tied
from tiltyard.ratings.scoring import Scoring

__all__ = ["Draws", "battle_draws", "cluster_draws", "cluster_numbers", "refit", "replicate_generator"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: A replicate's pair sums, by its number.
Draws = Callable[[int], Pairs]


def replicate_generator(seed: int, replicate: int) -> np.random.Generator:
    """The random stream of one replicate."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(replicate,))))


def battle_draws(counts: Counts, n_models: int, scoring: Scoring, seed: int) -> Draws:
    """Replicates that draw single battles, cell by cell. Counts must be unweighted."""

    def draw(replicate: int) -> Pairs:
        n = replicate_generator(seed, replicate).poisson(counts.n)
        return pairs_of(replace(counts, n=n), n_models, scoring)

    return draw


def cluster_draws(
    table: Table, scoring: Scoring, pairs: Pairs, key: Callable[[Codes], Keys | None] | None, seed: int
) -> tuple[Draws, int]:
    """Replicates that draw whole clusters, and the number of clusters.

    A battle without a key is a cluster of its own.
    """
    log = table.log()
    m = len(table.models)
    y = scoring.of(log)
    weight = np.ones(len(log)) if log.weight is None else log.weight
    rows = np.flatnonzero(~np.isnan(y) & (weight > 0.0))
    a, b, y, weight = log.a[rows].astype(np.int64), log.b[rows].astype(np.int64), y[rows], weight[rows]
    swap = a > b
    pair = np.searchsorted(pairs.i * m + pairs.j, np.minimum(a, b) * m + np.maximum(a, b))
    score = weight * np.where(swap, 1.0 - y, y)
    tie = weight * tied(y)
    cluster, n_clusters = cluster_numbers(key(log) if key is not None else None, rows)
    shape = (n_clusters, len(pairs.i))
    sums = [csr_array((column, (cluster, pair)), shape=shape) for column in (weight, score, tie)]

    def draw(replicate: int) -> Pairs:
        times = replicate_generator(seed, replicate).poisson(1.0, n_clusters).astype(np.float64)
        weight, score, tie = (np.asarray(times @ column) for column in sums)
        return replace(pairs, weight=weight, score=score, tie=tie)

    return draw, n_clusters


def cluster_numbers(keys: Keys | None, rows: Ints) -> tuple[Ints, int]:
    """The cluster of each of some rows of the log, as dense numbers, and how many there are."""
    if keys is None:
        return np.arange(len(rows)), len(rows)
    keys = keys[rows]
    known, cluster = np.unique(keys, return_inverse=True)
    alone = np.flatnonzero(keys == MISSING)
    cluster[alone] = len(known) + np.arange(len(alone))
    _, cluster = np.unique(cluster, return_inverse=True)
    return cluster, int(cluster.max(initial=-1)) + 1


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """One group of comparable models, and where its fit starts."""

    members: Ints
    start: Floats


def refit(
    draw: Draws, replicates: int, group: Ints, theta: Floats, *, davidson: bool, prior_precision: float
) -> Floats:
    """Log-strengths of every replicate (replicate, model); NaN rows where a replicate has none.

    A replicate has none when its draw left some models incomparable (see `comparable_groups`), or
    Davidson's ν without a value.
    """
    out = np.full((replicates, len(group)), np.nan)
    parts = [
        _Part(members, theta[members])
        for g in range(int(group.max(initial=-1)) + 1)
        if len(members := np.flatnonzero(group == g))
    ]
    for k in range(replicates):
        drawn = draw(k)
        present = drawn.weight > 0
        drawn = Pairs(drawn.n_models, *(getattr(drawn, name)[present] for name in Pairs.__slots__[1:]))
        for part in parts:
            pairs = drawn.among(part.members)
            comparable = pairs.groups(strong=not prior_precision).max(initial=0) == 0
            if comparable and (not davidson or has_tie_parameter(pairs, prior=prior_precision > 0.0)):
                fitted = newton.fit(
                    pairs, davidson=davidson, prior_precision=prior_precision, start=part.start, bread=False
                )
                out[k, part.members] = fitted.theta
    return out
