"""Pair by pair: how often each model beat each other one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from tiltyard.core.battles import Kind, Table

__all__ = ["PairRow", "PairScore", "pair_rows"]


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
    #: Both responses were called bad: as the outcome, or by a judge's flag beside one of the above.
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


def pair_rows(table: Table) -> list[PairRow]:
    """Every pair that met, in alphabetical order."""
    counts, m = table.counts, len(table.models)
    met = counts.a != counts.b
    a, b, n = counts.a[met], counts.b[met], counts.n[met]
    kind = counts.kind[met]
    column = np.array([_COLUMN[kind.plain] for kind in Kind])[kind]
    flagged = np.array([kind.flagged for kind in Kind])[kind]
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
