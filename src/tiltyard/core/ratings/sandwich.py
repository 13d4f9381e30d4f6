"""Sandwich variances: how much the fit would change if its battles (or prompts) were resampled.

The score of one battle is r·(e_a − e_b), r its residual, followed by the scores of any extra
parameters. Scores are summed within a cluster before they are squared, so battles that share
a prompt (or a voter) may depend on each other in any way. Liang and Zeger, Biometrika 73
(1986); two-way clustering by Cameron, Gelbach and Miller, JBES 29 (2011).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array

from tiltyard.core.battles import CodedBattles, Table
from tiltyard.core.battles.cluster_keys import MISSING_KEY, Keys
from tiltyard.core.ratings.scoring import sum_by_index
from tiltyard.foundation.arrays import Floats

Indices = npt.NDArray[np.integer[Any]]

#: Residuals of battles (NaN for one that does not count), and the scores (n, k) of the
#: extra parameters, if any.
RowScores = Callable[[CodedBattles], tuple[Floats, Floats | None]]

#: The cluster keys of battles: those with the same key belong together.
KeyOf = Callable[[CodedBattles], Keys | None]

#: Cluster sums are a dense array up to this many numbers (256 MB), sparse beyond.
_DENSE_SUM_LIMIT = 1 << 25
#: An index of keys is by at most so many bits of them, and steps at most so often before it searches.
_INDEX_BIT_COUNT = 22
_INDEX_STEP_COUNT = 6


@dataclass(frozen=True, slots=True, eq=False)
class Meat:
    """The sum of squared cluster scores, and the number of clusters.

    Battles without a cluster vary independently: they add ``alone`` to the meat, but do not
    show how clusters differ, so they are not counted as clusters.
    """

    matrix: Floats
    clusters: int
    alone: Floats | float = 0.0
    #: The number of battles that count, and of those without a cluster.
    battles: int = 0
    battles_alone: int = 0

    @property
    def dof(self) -> float:
        return float(max(self.clusters - 1, 1))

    def corrected(self) -> Floats:
        """The meat with the small-sample factor P / (P − 1)."""
        return np.asarray(self.matrix * (self.clusters / self.dof) + self.alone)


def clustered_meat(
    table: Table, scores: RowScores, extra: int, key: Callable[[CodedBattles], Keys | None] | None
) -> Meat:
    """Scores summed by cluster, then squared. Without ``key`` each battle is a cluster.

    Only clusters with a battle that counts are included.

    Scans the log twice: to collect the distinct keys, and to sum. Memory is proportional to
    distinct keys × models, or to the number of battles if that is smaller.
    """
    m = len(table.models)
    keys = distinct_keys(table, key)
    dense = len(keys) * (m + extra) <= _DENSE_SUM_LIMIT
    sums = _DenseSums(len(keys), m + extra) if dense else _SparseSums(len(keys), m + extra)
    meat = np.zeros((m + extra, m + extra))
    touched = np.zeros(len(keys), dtype=bool)
    alone, counted = 0, 0
    index = KeyIndex(keys)
    for run in table.scan():
        r, x = scores(run)
        used = ~np.isnan(r)
        counted += int(used.sum())
        run_keys = key(run) if key is not None else None
        single = used if run_keys is None else used & (run_keys == MISSING_KEY)
        if single.any():
            alone += int(single.sum())
            meat += battle_meat(run.a[single], run.b[single], r[single], None if x is None else x[single], m)
        if run_keys is not None:
            rows = np.flatnonzero(used & ~single)
            cluster = index.positions(run_keys[rows])
            touched[cluster] = True
            sums.add(cluster, run.a[rows], r[rows])
            sums.add(cluster, run.b[rows], -r[rows])
            for k in range(extra):
                assert x is not None
                sums.add(cluster, np.full(len(cluster), m + k), x[rows, k])
    if key is None:
        return Meat(meat, alone)
    return Meat(sums.squared(), int(touched.sum()), meat, counted, alone)


def battles_alone(table: Table, scores: RowScores, key: KeyOf, width: int) -> Meat:
    """The meat of the battles without a key, each its own cluster; how many they are, and of how many."""
    matrix = np.zeros((width, width))
    counted, alone = 0, 0
    for run in table.scan():
        r, x = scores(run)
        used, keys = ~np.isnan(r), key(run)
        single = used if keys is None else used & (keys == MISSING_KEY)
        counted += int(used.sum())
        if single.any():
            alone += int(single.sum())
            extra = None if x is None else x[single]
            matrix += battle_meat(run.a[single], run.b[single], r[single], extra, len(table.models))
    return Meat(matrix, 0, battles=counted, battles_alone=alone)


def battle_meat(a: Indices, b: Indices, r: Floats, x: Floats | None, m: int) -> Floats:
    """The meat if each battle is its own cluster: residuals r, extra scores x (n, k)."""
    pair = sum_by_index(a.astype(np.int64) * m + b, r * r, m * m).reshape(m, m)
    pair = pair + pair.T
    models = np.diag(pair.sum(axis=1)) - pair
    if x is None:
        return models
    cross = np.stack([sum_by_index(a, r * c, m) - sum_by_index(b, r * c, m) for c in x.T], axis=1)
    return np.asarray(np.block([[models, cross], [cross.T, x.T @ x]]))


def prompt_key(codes: CodedBattles) -> Keys | None:
    return codes.prompt


def voter_key(codes: CodedBattles) -> Keys | None:
    return codes.voter


def two_way_keys(codes: CodedBattles, first: KeyOf = prompt_key) -> Keys | None:
    """Keys of (prompt, voter) cells, or of those of another way of clustering and voters."""
    keys = first(codes)
    if keys is None or codes.voter is None:
        return None
    mixed = keys * np.uint64(0x9E3779B97F4A7C15) ^ codes.voter
    mixed[(keys == MISSING_KEY) | (codes.voter == MISSING_KEY)] = MISSING_KEY
    return mixed


def distinct_keys(table: Table, key: Callable[[CodedBattles], Keys | None] | None) -> Keys:
    known = np.empty(0, dtype=np.uint64)
    waiting: list[Keys] = []
    for run in table.scan() if key is not None else ():
        assert key is not None
        keys = key(run)
        if keys is not None:
            waiting.append(sorted_distinct(keys))
        if sum(map(len, waiting)) > max(len(known), 1 << 20):
            known, waiting = sorted_distinct(np.concatenate([known, *waiting])), []
    known = sorted_distinct(np.concatenate([known, *waiting]))
    return known[1:] if len(known) and known[0] == MISSING_KEY else known


def sorted_distinct(keys: Keys) -> Keys:
    keys = np.sort(keys)
    return keys[np.flatnonzero(np.diff(keys, prepend=~keys[:1]))]


class KeyIndex:
    """Finds keys among known ones, which are sorted and distinct.

    Hashed keys are spread evenly, so the first bits of a key lead to its place or to just before it. Where they do not, a
    few steps are made, and then the rest is searched for.
    """

    def __init__(self, known: Keys) -> None:
        bits = min(len(known).bit_length() + 2, _INDEX_BIT_COUNT)
        last = int(known[-1]) if len(known) else 0
        self._known = known
        self._shift = np.uint64(max(last.bit_length() - bits, 0))
        buckets = np.bincount((known >> self._shift).astype(np.int64), minlength=1)
        self._first = np.concatenate([[0], np.cumsum(buckets)])
        self._padded = np.append(known, np.uint64(np.iinfo(np.uint64).max))

    def positions(self, keys: Keys) -> npt.NDArray[np.int64]:
        """The number of known keys below each key: its index, if it is known."""
        bucket = np.minimum(keys >> self._shift, np.uint64(len(self._first) - 1))
        at: npt.NDArray[np.int64] = self._first[bucket.astype(np.int64)]
        behind = np.flatnonzero(self._padded[at] < keys)
        for _ in range(_INDEX_STEP_COUNT):
            at[behind] += 1
            behind = behind[self._padded[at[behind]] < keys[behind]]
        at[behind] = np.searchsorted(self._known, keys[behind])
        return at


class _DenseSums:
    """Score sums as one array, clusters by parameters."""

    def __init__(self, clusters: int, width: int) -> None:
        self._width = width
        self._sums = np.zeros(clusters * width)

    def add(self, cluster: Indices, parameter: Indices, r: Floats) -> None:
        np.add.at(self._sums, cluster * self._width + parameter, r)

    def squared(self) -> Floats:
        sums = self._sums.reshape(-1, self._width)
        return sums.T @ sums


class _SparseSums:
    """Score sums as coordinates, for too many clusters to store densely."""

    def __init__(self, clusters: int, width: int) -> None:
        self._shape = (clusters, width)
        self._parts: list[coo_array] = []

    def add(self, cluster: Indices, parameter: Indices, r: Floats) -> None:
        self._parts.append(coo_array((r, (cluster, parameter)), shape=self._shape))

    def squared(self) -> Floats:
        rows = np.concatenate([part.coords[0] for part in self._parts])
        columns = np.concatenate([part.coords[1] for part in self._parts])
        values = np.concatenate([part.data for part in self._parts])
        sums = coo_array((values, (rows, columns)), shape=self._shape).tocsr()
        return np.asarray((sums.T @ sums).toarray())
