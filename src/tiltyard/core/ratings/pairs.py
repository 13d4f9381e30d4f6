"""Scores by pair: everything that a Bradley–Terry fit needs from a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from tiltyard.core.battles import Counts, Kind
from tiltyard.core.ratings.scoring import Scoring, sum_by_index
from tiltyard.foundation.arrays import Floats, Ints

#: The largest number of models for which unweighted counts are a dense array (15 MB); others are sorted.
_DENSE_MODEL_LIMIT = 512


@dataclass(frozen=True, slots=True, eq=False)
class PairScores:
    """Unordered pairs i < j that met: the weight of their battles, i's score, and the part that was tied."""

    n_models: int
    i: Ints
    j: Ints
    weight: Floats
    score: Floats
    tie: Floats

    @property
    def met(self) -> npt.NDArray[np.bool_]:
        """Which models are part of any pair."""
        met = np.zeros(self.n_models, dtype=bool)
        met[self.i] = met[self.j] = True
        return met

    def totals(self) -> tuple[Floats, Floats]:
        """The weight of each model's battles, and its score in them."""
        lost, m = self.weight - self.score, self.n_models
        total = sum_by_index(self.i, self.weight, m) + sum_by_index(self.j, self.weight, m)
        return total, sum_by_index(self.i, self.score, m) + sum_by_index(self.j, lost, m)

    def places(self, a: Ints, b: Ints) -> Ints:
        """The indices of the pairs of models ``a`` and ``b``, all of which must have met."""
        keys = np.minimum(a, b) * self.n_models + np.maximum(a, b)
        return np.searchsorted(self.i * self.n_models + self.j, keys)

    def among(self, members: Ints) -> PairScores:
        """The pairs inside a set of models, which are renumbered by their position in ``members``."""
        if len(members) == self.n_models:
            return self
        place = np.full(self.n_models, -1)
        place[members] = np.arange(len(members))
        i, j = place[self.i], place[self.j]
        keep = (i >= 0) & (j >= 0)
        return PairScores(len(members), i[keep], j[keep], self.weight[keep], self.score[keep], self.tie[keep])

    def groups(self, *, strong: bool) -> Ints:
        """The group of each model: models connected by battles; ``strong``: by points won both ways."""
        took = self.score > 0
        gave = self.score < self.weight
        # Whether some model won and lost points against every other: then all are one group.
        both = took & gave
        rivals = np.bincount(self.i[both], minlength=self.n_models) + np.bincount(
            self.j[both], minlength=self.n_models
        )
        if bool(rivals.max(initial=-1) == self.n_models - 1):
            return np.zeros(self.n_models, dtype=np.int64)
        rows = np.concatenate([self.i[took], self.j[gave]])
        cols = np.concatenate([self.j[took], self.i[gave]])
        graph = coo_array((np.ones(len(rows)), (rows, cols)), shape=(self.n_models,) * 2)
        _, group = connected_components(graph, connection="strong" if strong else "weak")
        return np.asarray(group, dtype=np.int64)


def score_pairs(counts: Counts, n_models: int, scoring: Scoring) -> PairScores:
    """Score the counts. Battles of a model with itself, with zero weight or of a kind left out are ignored."""
    if counts.sums is None and n_models <= _DENSE_MODEL_LIMIT:
        return _folded(_by_planes(counts, n_models, scoring), n_models)
    y = scoring.by_kind()[counts.kind]
    moments = counts.moments()
    unused = np.isnan(y) | (counts.a == counts.b)
    weight, y = np.where(unused, 0.0, moments[:, 0]), np.where(unused, 0.0, y)
    score = weight * y
    if scoring.soft:
        score = np.where(counts.soft & ~unused, moments[:, 2], score)
    return pairs_by_sorting(counts.a, counts.b, (weight, score, weight * tie_share(y)), n_models)


def _by_planes(counts: Counts, m: int, scoring: Scoring) -> Floats:
    """Weight, score and tie of every ordered pair, for unweighted battles, added kind by kind."""
    kinds = int(counts.kind.max(initial=-1)) + 1
    planes = np.zeros(kinds * m * m)
    planes[(counts.kind * m + counts.a) * m + counts.b] = counts.n
    y = scoring.by_kind()[:kinds]
    used = ~np.isnan(y)
    y = np.where(used, y, 0.0)
    factors = np.stack([used, y, used * tie_share(y)])
    return np.asarray((factors @ planes.reshape(kinds, m * m)).reshape(3, m, m))


def _folded(sums: Floats, m: int) -> PairScores:
    """Convert sums by ordered pair to unordered pairs: the lower triangle is added to the upper one."""
    weight, score, tie = sums
    score = score + (weight - score).T
    weight, tie = weight + weight.T, tie + tie.T
    met = np.flatnonzero(np.triu(weight, 1))
    i = met // max(m, 1)
    return PairScores(m, i, met - i * m, weight.ravel()[met], score.ravel()[met], tie.ravel()[met])


def pairs_from_points(points: Floats) -> PairScores:
    """Pairs from a matrix of the row model's score against the column model; a tie is half a win."""
    met = points + points.T
    i, j = np.nonzero(np.triu(met))
    return PairScores(len(points), i, j, met[i, j], points[i, j], np.zeros(len(i)))


def pairs_by_sorting(a: Ints, b: Ints, columns: tuple[Floats, Floats, Floats], m: int) -> PairScores:
    """Sums by pair of any cells, for any number of models."""
    used = columns[0] > 0.0
    a, b = a[used], b[used]
    weight, score, tie = (column[used] for column in columns)
    score = np.where(a > b, weight - score, score)
    met, place = np.unique(np.minimum(a, b) * m + np.maximum(a, b), return_inverse=True)
    i, j = np.divmod(met, m)
    return PairScores(m, i, j, *(sum_by_index(place, column, len(met)) for column in (weight, score, tie)))


def tie_share(score: Floats) -> Floats:
    """The tied part of a battle: all of it at one half, none at a win or a loss."""
    return 1.0 - np.abs(2.0 * score - 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class BattleRecord:
    """Each model's unweighted number of battles by result."""

    wins: Ints
    losses: Ints
    ties: Ints
    #: Battles with the outcome ``both_bad``, unless the method counts it as a tie.
    unrated: Ints
    #: Battles whose responses were both called bad: by that outcome, or by a judge's flag beside another one.
    both_bad: Ints

    @property
    def battles(self) -> Ints:
        """Battles that rate skill."""
        return self.wins + self.losses + self.ties


#: The result of each kind for A: won, lost, tied, both bad.
_FOR_A = {
    Kind.WIN_A: 0,
    Kind.LEAN_A: 0,
    Kind.WIN_B: 1,
    Kind.LEAN_B: 1,
    Kind.TIE: 2,
    Kind.INCONSISTENT: 2,
    Kind.BOTH_BAD: 3,
}


def count_records(counts: Counts, n_models: int, scoring: Scoring) -> BattleRecord:
    """The results of every model's battles; a battle with itself is ignored."""
    kinds = scoring.counted_kinds()
    for_a = np.array([_FOR_A[kind.plain] for kind in kinds])
    for_b = np.array([1, 0, 2, 3])[for_a]
    n = np.where(counts.a == counts.b, 0, counts.n).astype(np.float64)  # exact below 2^53 battles
    total = sum_by_index(counts.a * 4 + for_a[counts.kind], n, n_models * 4)
    total += sum_by_index(counts.b * 4 + for_b[counts.kind], n, n_models * 4)
    wins, losses, ties, unrated = total.reshape(n_models, 4).astype(np.int64).T
    flagged = np.where(np.array([kind.flagged for kind in kinds])[counts.kind], n, 0.0)
    flags = sum_by_index(counts.a, flagged, n_models) + sum_by_index(counts.b, flagged, n_models)
    return BattleRecord(wins, losses, ties, unrated, unrated + flags.astype(np.int64))
