"""Variances from the scores of clusters: the sandwich, and leaving one cluster out (CR3), with effective degrees of freedom.

The sandwich says how much the fit would change if its battles (or prompts) were resampled. The score of one battle is
r·(e_a − e_b), r its residual, followed by the scores of any extra parameters. Scores are summed within a cluster before
they are squared, so battles that share a prompt (or a voter) may depend on each other in any way. Liang and Zeger,
Biometrika 73 (1986); two-way clustering by Cameron, Gelbach and Miller, JBES 29 (2011).


Leaving cluster c out moves the parameters by D_c = (H − A_c)⁻¹ g_c to first order, with H the
information of all battles, B its inverse, A_c the cluster's part of it and g_c its summed scores.
The plain sandwich uses B g_c instead, which is too small if a cluster has much of the
information, because its own battles pulled the fit towards it. MacKinnon, Nielsen and Webb, Journal of
Applied Econometrics 38 (2023).

With uneven clusters, a variance is less certain than their number suggests. Effective degrees of
freedom follow Carter, Schnepel and Steigerwald, Review of Economics and Statistics 99 (2017).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dpotrs
from scipy.sparse import coo_array

from tiltyard.core.battles import CodedBattles, Table
from tiltyard.core.battles.cluster_keys import MISSING_KEY, Keys
from tiltyard.core.ratings.newton import cholesky
from tiltyard.core.ratings.pairs import sum_by_index
from tiltyard.foundation.arrays import Floats, Ints

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

#: For battles: each one's information v about its difference, its position z (n, k) on the
#: extra parameters, and its information about the last of these alone. A battle's information is
#: v·(e_a − e_b + z)(e_a − e_b + z)ᵀ, plus the last on its diagonal element.
RowInformation = Callable[[CodedBattles], tuple[Floats, Floats | None, Floats | None]]

#: A cluster with more than this share of one parameter's information is left out exactly; for the
#: others, one term of the series is sufficient. Shares sum to the number of parameters, so such clusters are few.
_EXACT_LEVERAGE_SHARE = 0.1
#: Steps to find the largest share of a cluster, and the part of it that they find at least.
_POWER_STEP_COUNT = 6
_POWER_SHORTFALL_RATIO = 0.5
#: A log of at most this many battles is held in memory, by cluster: 28 bytes each and more with extra parameters.
_HELD_BATTLES = 1 << 22
#: The most numbers in memory at once: clusters by parameters, or parts of the information.
_HELD_NUMBER_LIMIT = 1 << 25
#: About this many of the clusters with little information are sampled for the degrees of freedom.
_SAMPLED_CLUSTER_COUNT = 500
#: Up to so many clusters × parameters³ every cluster is left out exactly, so that anybody can recompute it.
_EXACT_WORK_LIMIT = 1 << 24
#: A direction in which the other clusters have less than this share of the information counts as the cluster's alone.
_OWN_INFORMATION_SHARE = 1e-6


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


@dataclass(frozen=True, slots=True, eq=False)
class LeaveOneOutVariance:
    """The covariance of the parameters, and the degrees of freedom of each.

    Battles without a cluster vary independently: they are part of the covariance, but do not show how clusters
    differ, so they are not counted as clusters.
    """

    covariance: Floats
    dof: Floats
    clusters: int
    #: The number of battles that count, and of those without a cluster.
    battles: int
    battles_alone: int


def leave_one_out(
    table: Table,
    scores: RowScores,
    information: RowInformation,
    key: KeyOf,
    bread: Floats,
) -> LeaveOneOutVariance:
    """Leave out each cluster in turn.

    Reads the log twice if it is short enough to be held. Otherwise four times, six times more if a cluster may have
    much of the information, and more if clusters × models, or large clusters × models², do not fit in memory.
    """
    keys = distinct_keys(table, key)
    every = max(len(keys) // _SAMPLED_CLUSTER_COUNT, 1)
    rows = _Rows(table, scores, information, key, len(table.models), len(bread))
    totals = _Totals(len(table.models), len(bread))
    size = max(_HELD_NUMBER_LIMIT // len(bread), 1)
    for first in range(0, len(keys), size):
        block = _Block(rows, keys[first : first + size], bread)
        sampled = (first + np.arange(len(block.keys))) % every == 0
        block.shift_each(sampled, every, totals)
        totals.add_shifts(block)
    alone = battles_alone(table, scores, key, len(bread))
    return totals.left_out(bread, alone)


@dataclass(frozen=True, slots=True, eq=False)
class _Some:
    """A subset of battles: their cluster numbers, models, scores r and x, information v at z."""

    cluster: Ints
    a: Indices
    b: Indices
    r: Floats
    x: Floats | None
    v: Floats
    z: Floats | None


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """The log as scores and information by cluster."""

    table: Table
    scores: RowScores
    information: RowInformation
    key: KeyOf
    m: int
    width: int

    def of(self, keys: Keys) -> Iterator[_Some]:
        """Battles of the clusters with these keys, which are sorted and contiguous."""
        index = KeyIndex(keys)
        for run in self.table.scan():
            run_keys = self.key(run)
            if run_keys is None or not len(keys):
                continue
            r, x = self.scores(run)
            here = ~np.isnan(r) & (run_keys != MISSING_KEY) & (run_keys >= keys[0]) & (run_keys <= keys[-1])
            chosen = np.flatnonzero(here)
            cluster = index.positions(run_keys[chosen])
            v, z, own = self.information(run)
            a, b = run.a[chosen], run.b[chosen]
            z = None if z is None else z[chosen]
            yield _Some(cluster, a, b, r[chosen], None if x is None else x[chosen], v[chosen], z)
            if own is not None:
                # A battle of a model with itself informs only the extra parameter.
                none = np.zeros(len(chosen))
                yield _Some(cluster, a, a, none, none[:, None], own[chosen], none[:, None] + 1.0)

    def add(self, to: Floats, some: _Some, y: Floats, x: Floats | None) -> None:
        """Add y·(e_a − e_b), and x at the extra parameters, to each battle's cluster."""
        flat = to.reshape(-1)
        at = some.cluster * self.width
        np.add.at(flat, at + some.a, y)
        np.add.at(flat, at + some.b, -y)
        for k in range(self.width - self.m):
            assert x is not None
            np.add.at(flat, at + (self.m + k), x[:, k])


class _Block:
    """Clusters that fit in memory together: their scores and the shift when each is left out."""

    def __init__(self, rows: _Rows, keys: Keys, bread: Floats) -> None:
        self.keys, self.bread, self._rows = keys, bread, rows
        self._held = list(rows.of(keys)) if rows.table.n_battles <= _HELD_BATTLES else None
        self.shift = np.zeros((len(keys), rows.width))
        self.score = np.zeros((len(keys), rows.width))
        self.leverage = np.zeros(len(keys))
        self.used = np.zeros(len(keys), dtype=bool)
        self.squares, self.expected = 0.0, 0.0
        for some in self._battles():
            rows.add(self.score, some, some.r, some.x)
            np.add.at(self.leverage, some.cluster, some.v * self._variance(some))
            self.used[some.cluster] = True
            self.squares += float(some.r @ some.r)
            self.expected += float(some.v @ (some.a != some.b))

    def _battles(self) -> Iterable[_Some]:
        return self._rows.of(self.keys) if self._held is None else self._held

    def _variance(self, some: _Some) -> Floats:
        """The variance of the fit in each battle's direction."""
        bread, m, a, b = self.bread, self._rows.m, some.a, some.b
        own = np.diag(bread)
        variance = (own[:, None] + own - 2.0 * bread)[a, b]
        if some.z is not None:
            variance += 2.0 * np.einsum("nk,nk->n", bread[a, m:] - bread[b, m:], some.z)
            variance += np.einsum("nk,kl,nl->n", some.z, bread[m:, m:], some.z)
        return np.asarray(variance)

    def _large(self) -> npt.NDArray[np.bool_]:
        """Clusters with more than the limit of the information about some direction: they are left out exactly.

        The sum of shares over all directions is cheap and an upper bound of the largest. Where it exceeds the limit,
        the largest is found by iterating x → B A x, which costs a scan for each step but no solution.
        """
        large = self.leverage > _EXACT_LEVERAGE_SHARE
        if not large.any():
            return large
        directions = np.random.default_rng(0).normal(size=self.score.shape) @ self.bread
        share = np.zeros(len(self.keys))
        for _ in range(_POWER_STEP_COUNT):
            size = np.sqrt(np.einsum("ck,ck->c", directions, directions))
            directions = self._informed(directions / np.maximum(size, 1e-300)[:, None]) @ self.bread
            share = np.sqrt(np.einsum("ck,ck->c", directions, directions))
        return large & (share > _EXACT_LEVERAGE_SHARE * _POWER_SHORTFALL_RATIO)

    def _informed(self, x: Floats) -> Floats:
        """A_c x for each cluster."""
        turned = np.zeros_like(x)
        for some in self._battles():
            y, z = x[some.cluster, some.a] - x[some.cluster, some.b], some.z
            if z is not None:
                y += np.einsum("nk,nk->n", x[some.cluster, self._rows.m :], z)
            y *= some.v
            self._rows.add(turned, some, y, None if z is None else y[:, None] * z)
        return turned

    def shift_each(self, sampled: npt.NDArray[np.bool_], every: int, totals: _Totals) -> None:
        """Compute all shifts, and add to ``totals`` how information is distributed over clusters."""
        if len(self.keys) * self._rows.width**3 <= _EXACT_WORK_LIMIT:
            # Leave out every cluster exactly, many at once: for small problems that is also the fastest way.
            root = _root(self.bread)
            for numbers, parts in self._parts(np.flatnonzero(self.used)):
                score = self.score[numbers]
                values, vectors = np.linalg.eigh(np.eye(len(root)) - root.T @ parts @ root)
                pulled = np.einsum("cji,cj->ci", vectors, score @ root)
                pulled *= np.where(
                    values > _OWN_INFORMATION_SHARE, 1.0 / np.maximum(values, _OWN_INFORMATION_SHARE), 0.0
                )
                solved = np.einsum("cij,cj->ci", vectors, pulled) @ root.T
                self.shift[numbers] = (score + np.einsum("cij,cj->ci", parts, solved)) @ self.bread
                totals.add_parts(parts, self.bread)
            return
        plain = self.score @ self.bread
        self.shift = plain + self._informed(plain) @ self.bread
        large = self._large()
        chosen = np.flatnonzero(large | (sampled & self.used))
        root = _root(self.bread)
        for numbers, parts in self._parts(chosen):
            rest = np.arange(len(numbers))
            if len(numbers) * len(root) ** 3 <= _EXACT_WORK_LIMIT:
                totals.add_parts(parts[~large[numbers]], self.bread, float(every))
                rest = np.flatnonzero(large[numbers])
            for number, whole in zip(numbers[rest].tolist(), parts[rest], strict=True):
                part = _Part.of(whole)
                if large[number]:
                    self.shift[number] = part.left_out(self.score[number], self.bread, root)
                totals.add_part(part, self.bread, 1.0 if large[number] else float(every))

    def _parts(self, chosen: Ints) -> Iterator[tuple[Ints, Floats]]:
        """The information A_c of some clusters, in batches."""
        rows, width = self._rows, self._rows.width
        size = max(_HELD_NUMBER_LIMIT // width**2, 1)
        for first in range(0, len(chosen), size):
            some_of = chosen[first : first + size]
            place = np.full(len(self.keys), -1)
            place[some_of] = np.arange(len(some_of))
            parts = np.zeros((len(some_of), width, width))
            for some in self._battles():
                _add_information(parts, place[some.cluster], some, rows.m)
            yield some_of, parts


def _add_information(parts: Floats, place: Ints, some: _Some, m: int) -> None:
    """Add v·(e_a − e_b + z)(e_a − e_b + z)ᵀ of each battle to the part at its index, unless that is −1."""
    mine = np.flatnonzero(place >= 0)
    width, flat = parts.shape[1], parts.reshape(-1)
    at, a, b, v = place[mine] * width**2, some.a[mine].astype(np.int64), some.b[mine], some.v[mine]
    for i, j, value in ((a, a, v), (b, b, v), (a, b, -v), (b, a, -v)):
        np.add.at(flat, at + i * width + j, value)
    for k in range(width - m):
        assert some.z is not None
        z = some.z[mine]
        for i, value in ((a, v * z[:, k]), (b, -v * z[:, k])):
            np.add.at(flat, at + i * width + (m + k), value)
            np.add.at(flat, at + (m + k) * width + i, value)
        for other in range(width - m):
            np.add.at(flat, at + (m + k) * width + (m + other), v * z[:, k] * z[:, other])


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A cluster's information, restricted to the parameters it informs."""

    at: Ints
    matrix: Floats

    @classmethod
    def of(cls, whole: Floats) -> _Part:
        at = np.flatnonzero(np.diag(whole))
        # Restricting pays off only if it saves much; the full matrix needs no root of its own.
        return (
            cls(at, whole[np.ix_(at, at)]) if 2 * len(at) < len(whole) else cls(np.arange(len(whole)), whole)
        )

    def left_out(self, score: Floats, bread: Floats, root: Floats) -> Floats:
        """The shift D if the cluster is left out: D = B g + B A D, solved for the parameters it informs.

        With B = R Rᵀ it is R (1 − Rᵀ A R)⁻¹ Rᵀ g. A direction that only this cluster informs has a
        share of one and a score of zero, and does not move.
        """
        at = self.at
        own = root if len(at) == len(root) else _root(bread[np.ix_(at, at)])
        rest = np.eye(len(at)) - own.T @ self.matrix @ own
        pulled = own.T @ score[at]
        factor = cholesky(rest)
        if factor is not None and float(np.diag(factor).min()) ** 2 > _OWN_INFORMATION_SHARE:
            solved = dpotrs(factor, pulled, lower=1)[0]
        else:
            values, vectors = np.linalg.eigh(rest)
            solved = vectors @ np.where(
                values > _OWN_INFORMATION_SHARE,
                vectors.T @ pulled / np.maximum(values, _OWN_INFORMATION_SHARE),
                0.0,
            )
        return np.asarray(score @ bread + bread[:, at] @ (self.matrix @ (own @ solved)))


def _root(bread: Floats) -> Floats:
    """R with R Rᵀ the bread."""
    values, vectors = np.linalg.eigh(bread)
    return np.asarray(vectors * np.sqrt(np.clip(values, 0.0, None)))


class _Totals:
    """Sums over clusters: squared shifts, and for each parameter the distribution of its variance over clusters."""

    def __init__(self, m: int, width: int) -> None:
        self._m = m
        self._squared = np.zeros((width, width))
        self._clusters, self._squares, self._expected = 0, 0.0, 0.0
        # Sums of q, Q, q², q·Q and Q² with x = B e: q = xᵀ A x and Q = |A x|².
        self._moments = np.zeros((5, width))

    def add_shifts(self, block: _Block) -> None:
        self._squared += block.shift.T @ block.shift
        self._clusters += int(block.used.sum())
        self._squares += block.squares
        self._expected += block.expected

    def add_part(self, part: _Part, bread: Floats, times: float) -> None:
        x = bread[part.at]
        turned = part.matrix @ x
        one = np.einsum("ik,ik->k", x, turned)
        two = np.einsum("ik,ik->k", turned, turned)
        self._moments += times * np.stack([one, two, one * one, one * two, two * two])

    def add_parts(self, parts: Floats, bread: Floats, times: float = 1.0) -> None:
        """Add many clusters at once."""
        turned = parts @ bread
        one = np.einsum("ik,cik->ck", bread, turned)
        two = np.einsum("cik,cik->ck", turned, turned)
        for k, value in enumerate((one, two, one * one, one * two, two * two)):
            self._moments[k] += times * value.sum(axis=0)

    def left_out(self, bread: Floats, alone: Meat) -> LeaveOneOutVariance:
        """γ = φ·q + τ²·Q is each cluster's part of a variance; (Σγ)²/Σγ² is the equivalent number of even clusters.

        φ is the variance of a battle relative to a coin flip; τ² is the variance of cluster effects, estimated
        from the excess of the variances over φ·Σq.
        """
        covariance = self._squared * (max(self._clusters - 1, 0) / max(self._clusters, 1))
        phi = self._squares / self._expected if self._expected > 0.0 else 1.0
        one, two, one_one, one_two, two_two = self._moments
        m = self._m
        excess = float(np.diag(covariance)[:m].sum() - phi * one[:m].sum())
        tau2 = max(excess / float(two[:m].sum()), 0.0) if two[:m].any() else 0.0
        total = phi * one + tau2 * two
        squares = phi**2 * one_one + 2.0 * phi * tau2 * one_two + tau2**2 * two_two
        even = np.where(squares > 0.0, total**2 / np.where(squares > 0.0, squares, 1.0), 0.0)
        return LeaveOneOutVariance(
            covariance + bread @ alone.matrix @ bread,
            np.maximum(even - 1.0, 0.0),
            self._clusters,
            alone.battles,
            alone.battles_alone,
        )
