"""The estimated strength of each model, passed from the ratings to the lanes and the rules."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from tiltyard.core.ratings.portable_functions import LN_10
from tiltyard.foundation.arrays import Bools, Floats, Ints

_LOGITS_PER_POINT = LN_10 / 400.0


@dataclass(frozen=True, slots=True, eq=False)
class Strengths:
    """One value of each kind for every model, in rating points.

    ``rating`` and ``rd`` are Glicko-2's; ``se`` is the standard error of online Bradley–Terry,
    and ``misorder`` its probability that the model is on the wrong side of a neighbour.
    """

    rating: Floats
    rd: Floats
    se: Floats
    misorder: Floats

    @classmethod
    def unknown(cls, models: int, *, rating: float = 1500.0, rd: float = 350.0) -> Strengths:
        """The strengths before any vote: all equal."""
        return cls(np.full(models, rating), np.full(models, rd), np.full(models, rd), np.full(models, 0.5))

    def conservative(self) -> Floats:
        """Rating − 2·RD, by which the ranking policy sorts."""
        return self.rating - 2.0 * self.rd

    def expected(self, model: int) -> Floats:
        """Expected score of this model against each model, on Elo's curve: ½ at equal ratings."""
        gap = np.clip(_LOGITS_PER_POINT * (self.rating - self.rating[model]), -700.0, 700.0)
        return np.asarray(1.0 / (1.0 + np.exp(gap)))

    def order(self, among: Bools) -> Ints:
        """Codes of these models, highest conservative score first; ties are broken by code."""
        codes = np.flatnonzero(among)
        return codes[np.argsort(-self.conservative()[codes], kind="stable")]

    def widened(self, models: int) -> Strengths:
        """Add more models, of unknown strength."""
        new = Strengths.unknown(models - len(self.rating))
        names = [field.name for field in fields(self)]
        return Strengths(*(np.concatenate([getattr(self, name), getattr(new, name)]) for name in names))
