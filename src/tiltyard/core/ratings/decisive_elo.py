"""Elo over decisive matches alone, averaged over NumPy's permutations: the arithmetic of tournament scripts.

Its figures can be compared with those of such scripts. `Elo` counts ties and leans too, and has an interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tiltyard.core.ratings.scoring import require_above_zero, require_at_least
from tiltyard.foundation.arrays import Floats, Ints

#: The largest number of matches in the orders that are played in parallel.
_MATCHES_LIMIT = 1 << 25
#: Standard errors from the mean to the limits of the 95 % that the scripts write.
_STANDARD_ERRORS = 1.96


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
