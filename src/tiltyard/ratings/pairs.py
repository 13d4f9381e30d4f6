"""Scores by pair: all that a Bradley–Terry fit needs to know of a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from tiltyard.battles import Counts, Kind
from tiltyard.ratings.scoring import Scoring
from tiltyard.ratings.sums import sum_by

__all__ = ["Pairs", "Record", "pairs_of", "record_of", "tied"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Unordered pairs i < j that met: their battles' weight, i's score, and the part that was tied."""

    n_models: int
    i: Ints
    j: Ints
    weight: Floats
    score: Floats
    tie: Floats

    @property
    def met(self) -> npt.NDArray[np.bool_]:
        """Which models have a pair at all."""
        met = np.zeros(self.n_models, dtype=bool)
        met[self.i] = met[self.j] = True
        return met

    def among(self, members: Ints) -> Pairs:
        """The pairs inside a set of models, which are numbered by their place in ``members``."""
        place = np.full(self.n_models, -1)
        place[members] = np.arange(len(members))
        i, j = place[self.i], place[self.j]
        keep = (i >= 0) & (j >= 0)
        return Pairs(len(members), i[keep], j[keep], self.weight[keep], self.score[keep], self.tie[keep])

    def groups(self, *, strong: bool) -> Ints:
        """The group of each model: those that battles connect; ``strong``: by points both ways."""
        took = self.score > 0
        gave = self.score < self.weight
        rows = np.concatenate([self.i[took], self.j[gave]])
        cols = np.concatenate([self.j[took], self.i[gave]])
        graph = coo_array((np.ones(len(rows)), (rows, cols)), shape=(self.n_models,) * 2)
        _, group = connected_components(graph, connection="strong" if strong else "weak")
        return np.asarray(group, dtype=np.int64)


def pairs_of(counts: Counts, n_models: int, scoring: Scoring) -> Pairs:
    """Counts under a scoring. Battles of a model with itself, of no weight or of a kind left out do not enter."""
    y = scoring.by_kind()[counts.kind]
    moments = counts.moments()
    keep = ~np.isnan(y) & (counts.a != counts.b) & (moments[:, 0] > 0.0)
    a, b, y, moments = counts.a[keep], counts.b[keep], y[keep], moments[keep]
    weight = moments[:, 0]
    score = weight * y
    if scoring.soft:
        score = np.where(counts.soft[keep], moments[:, 2], score)
    swap = a > b
    score = np.where(swap, weight - score, score)
    keys = np.where(swap, b * n_models + a, a * n_models + b)
    unique, place = np.unique(keys, return_inverse=True)
    i, j = np.divmod(unique, max(n_models, 1))
    sums = (sum_by(place, column, len(unique)) for column in (weight, score, weight * tied(y)))
    return Pairs(n_models, i, j, *sums)


def tied(score: Floats) -> Floats:
    """How much of a battle was a tie: all of it at one half, none at a win or a loss."""
    return 1.0 - np.abs(2.0 * score - 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """Each model's battles by how they ended for it, unweighted. ``battles`` leaves both_bad out."""

    wins: Ints
    losses: Ints
    ties: Ints
    both_bad: Ints

    @property
    def battles(self) -> Ints:
        return self.wins + self.losses + self.ties


_WON = (Kind.WIN_A, Kind.LEAN_A)
_LOST = (Kind.WIN_B, Kind.LEAN_B)
_TIED = (Kind.TIE, Kind.INCONSISTENT)


def record_of(counts: Counts, n_models: int) -> Record:
    """Wins, losses, ties and both_bad of every model; a battle with itself counts for nothing."""

    def tally(for_a: tuple[Kind, ...], for_b: tuple[Kind, ...]) -> Ints:
        total = np.zeros(n_models, dtype=np.int64)
        for side, kinds in ((counts.a, for_a), (counts.b, for_b)):
            keep = np.isin(counts.kind, kinds) & (counts.a != counts.b)
            np.add.at(total, side[keep], counts.n[keep])
        return total

    return Record(
        tally(_WON, _LOST), tally(_LOST, _WON), tally(_TIED, _TIED), tally((Kind.BOTH_BAD,), (Kind.BOTH_BAD,))
    )
