"""Weights with which pairs that met often do not outweigh the others.

Who meets whom is decided by a scheduler. If it serves some pairs far more often, ratings answer for those pairs most
of all; with even weights every pair that met often enough counts the same.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tiltyard.core.battles import CodedBattles, Table
from tiltyard.core.ratings.pairs import score_pairs
from tiltyard.core.ratings.scoring import Scoring
from tiltyard.core.ratings.weight_limits import round_factors

__all__ = ["weigh_pairs_evenly"]


def weigh_pairs_evenly(table: Table, scoring: Scoring, enough: int) -> Table:
    """Divide each battle's weight by that of its pair, or by ``enough`` if that is more; the mean factor is 1."""
    pairs = score_pairs(table.counts, len(table.models), scoring)
    factor = 1.0 / np.maximum(pairs.weight, enough)
    factor = round_factors(factor * pairs.weight.sum() / (factor @ pairs.weight))

    def factor_of(run: CodedBattles) -> npt.NDArray[np.float64]:
        a, b = run.a.astype(np.int64), run.b.astype(np.int64)
        place = np.minimum(pairs.places(a, b), len(factor) - 1)
        return factor[place]

    return table.reweighted(factor_of) if len(factor) else table
