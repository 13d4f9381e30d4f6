"""Worlds: models of known strength that meet on prompts of known effect."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from tiltyard.battles import Codes, Kind, Table
from tiltyard.battles.keys import text_keys
from tiltyard.ratings import newton
from tiltyard.ratings.pairs import Pairs

__all__ = ["POINTS", "World", "draw_world"]

Floats = npt.NDArray[np.float64]

#: Rating points per logit.
POINTS = 400.0 / math.log(10.0)
_NODES = 41


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """Strengths in logits, and each model's effect on each prompt of this world.

    A battle on prompt p is won by i over j with log-odds θ_i − θ_j + u_ip − u_jp, plus an
    advantage of side A. Ties and both_bad come at fixed rates.
    """

    models: tuple[str, ...]
    strength: Floats
    effect: Floats
    effect_sd: float
    ties: float = 0.16
    both_bad: float = 0.07
    position_bias: float = 0.1

    def table(self, n: int, rng: np.random.Generator) -> Table:
        """``n`` battles between uniform pairs on uniform prompts."""
        return Table.from_codes(self.models, self.codes(n, rng))

    def codes(self, n: int, rng: np.random.Generator) -> Codes:
        m, prompts = self.effect.shape
        a = rng.integers(0, m, n)
        b = (a + rng.integers(1, m, n)) % m
        p = rng.integers(0, prompts, n)
        d = self.strength[a] - self.strength[b] + self.effect[a, p] - self.effect[b, p] + self.position_bias
        kind = np.where(rng.random(n) < expit(d), Kind.WIN_A, Kind.WIN_B)
        other = rng.random(n)
        kind = np.where(other < self.ties + self.both_bad, Kind.BOTH_BAD, kind)
        kind = np.where(other < self.ties, Kind.TIE, kind)
        keys = text_keys([f"prompt-{k}" for k in range(prompts)])
        return Codes(a.astype(np.uint16), b.astype(np.uint16), kind.astype(np.uint8), prompt=keys[p])

    def truth(self, *, these_prompts: bool = False) -> Floats:
        """Ratings (mean zero, points) that endless battles would give: the Bradley–Terry projection.

        Over the population that prompts are drawn from or, with ``these_prompts``, over this
        world's own prompts; pairs and sides uniform, a tie half a win.
        """
        d = self.strength[:, None] - self.strength[None, :]
        if these_prompts:
            gaps = d[:, :, None] + self.effect[:, None, :] - self.effect[None, :, :]
            weights = np.full(self.effect.shape[1], 1.0 / self.effect.shape[1])
        else:
            nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
            weights = weights / weights.sum()
            gaps = d[:, :, None] + math.sqrt(2.0) * self.effect_sd * nodes
        bias = self.position_bias
        won = 0.5 * (expit(gaps + bias) + expit(gaps - bias)) @ weights
        share = self.ties / (1.0 - self.both_bad)
        score = share / 2.0 + (1.0 - share) * won
        i, j = np.triu_indices(len(self.strength), 1)
        pairs = Pairs(len(self.strength), i, j, np.ones(len(i)), score[i, j], np.zeros(len(i)))
        return newton.fit(pairs, bread=False).theta * POINTS


def draw_world(
    models: int,
    prompts: int,
    rng: np.random.Generator,
    *,
    strength_sd: float = 200.0,
    effect_sd: float = 0.5,
    clones: bool = False,
) -> World:
    """A world at random: strengths normal (points), effects normal (logits).

    ``clones`` makes models equal in pairs, which is where false claims of order are born.
    """
    strength = rng.normal(0.0, strength_sd / POINTS, models)
    if clones:
        strength = np.repeat(strength[::2], 2)[:models]
    effect = rng.normal(0.0, effect_sd, (models, prompts))
    width = len(str(models - 1))
    return World(tuple(f"model-{k:0{width}}" for k in range(models)), strength, effect, effect_sd)
