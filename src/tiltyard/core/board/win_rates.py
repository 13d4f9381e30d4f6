"""Pair by pair: how often each model beat each other one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from tiltyard.core.battles import Kind, Table
from tiltyard.core.ratings import BradleyTerry, RatingMethod
from tiltyard.core.ratings.scoring import Scoring

__all__ = ["PairRow", "PairScore", "pair_rows", "scoring_of"]


class PairScore(TypedDict):
    """Two models of an arena, in the document from which heatmaps are drawn. ``score`` is the first one's."""

    model_a: str
    model_b: str
    battles: int
    both_bad: int
    score: float | None


@dataclass(frozen=True, slots=True)
class PairRow:
    """Two models in alphabetical order and how their battles ended, inconsistent results apart."""

    model_a: str
    model_b: str
    a_wins: int
    b_wins: int
    ties: int
    inconsistent: int
    #: Both responses were called bad: as the outcome (a tie too, if the method counts it as one), or by a judge's flag.
    both_bad: int

    @property
    def battles(self) -> int:
        """Battles that rate skill."""
        return self.a_wins + self.b_wins + self.ties + self.inconsistent

    @property
    def a_score(self) -> float | None:
        """A's share of the points, a tie or an inconsistent result counting half."""
        if not self.battles:
            return None
        return (self.a_wins + 0.5 * (self.ties + self.inconsistent)) / self.battles


_COLUMN = {
    Kind.WIN_A: 0,
    Kind.LEAN_A: 0,
    Kind.WIN_B: 1,
    Kind.LEAN_B: 1,
    Kind.TIE: 2,
    Kind.INCONSISTENT: 3,
    Kind.BOTH_BAD: 4,
}


def scoring_of(method: RatingMethod) -> Scoring:
    """How battles are scored and counted beside the ratings of a method."""
    if isinstance(method, BradleyTerry):
        return method.scoring()
    return Scoring(soft=getattr(method, "soft", False))


def pair_rows(table: Table, method: RatingMethod) -> list[PairRow]:
    """Every pair that met, in alphabetical order, counted as the method counts."""
    counts, m, kinds = table.counts, len(table.models), scoring_of(method).counted_kinds()
    met = counts.a != counts.b
    a, b, n = counts.a[met], counts.b[met], counts.n[met]
    kind = counts.kind[met]
    column = np.array([_COLUMN[kind.plain] for kind in kinds])[kind]
    flagged = np.array([kind.flagged for kind in kinds])[kind]
    swap = a > b
    column = np.where(swap & (column < 2), 1 - column, column)
    keys = np.where(swap, b * m + a, a * m + b)
    pairs, place = np.unique(keys, return_inverse=True)
    cells = np.zeros((len(pairs), 5), dtype=np.int64)
    np.add.at(cells, (place, column), n)
    np.add.at(cells, (place[flagged], _COLUMN[Kind.BOTH_BAD]), n[flagged])
    return [
        PairRow(table.models[key // m], table.models[key % m], *row)
        for key, row in zip(pairs.tolist(), cells.tolist(), strict=True)
    ]
