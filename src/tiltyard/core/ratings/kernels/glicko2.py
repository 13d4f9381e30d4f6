"""Glicko-2's state, and one vote at a time. The same source runs as Python or compiled.

Letters and steps are those of Glickman, "Example of the Glicko-2 system" (2013): μ, φ, σ, g, E, v, Δ. Each vote is a
rating period of its own for its two models.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tiltyard.core.ratings.kernels.exponential import exp
from tiltyard.foundation.arrays import Floats
from tiltyard.foundation.compiled_kernels import Kernel

Ints = npt.NDArray[np.integer[Any]]

#: Rating points per unit of the Glicko-2 scale (step 2 of the paper).
GLICKO_POINTS = 173.7178


@dataclass(frozen=True, slots=True, eq=False)
class Glicko2State:
    """A checkpoint: everything needed to resume.

    μ, φ² and σ² are stored unrounded, so that a fold that is saved and resumed gives bit for bit the
    same result as an uninterrupted one. Ratings in points are derived.
    """

    models: tuple[str, ...]
    mu: Floats
    phi2: Floats
    sigma2: Floats
    #: The rating at μ = 0.
    start: float
    votes: int
    kernel: Kernel

    @property
    def rating(self) -> Floats:
        return self.start + GLICKO_POINTS * self.mu

    @property
    def rd(self) -> Floats:
        return GLICKO_POINTS * np.sqrt(self.phi2)

    @property
    def volatility(self) -> Floats:
        return np.sqrt(self.sigma2)

    def conservative(self) -> Floats:
        """Rating minus two RD, by which the ranking policy sorts."""
        return self.rating - 2.0 * self.rd

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON preserves exactly."""
        return {
            "models": list(self.models),
            "mu": self.mu.tolist(),
            "phi2": self.phi2.tolist(),
            "sigma2": self.sigma2.tolist(),
            "start": self.start,
            "votes": self.votes,
            "kernel": self.kernel,
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Glicko2State:
        return cls(
            models=tuple(saved["models"]),
            mu=np.array(saved["mu"], dtype=np.float64),
            phi2=np.array(saved["phi2"], dtype=np.float64),
            sigma2=np.array(saved["sigma2"], dtype=np.float64),
            start=float(saved["start"]),
            votes=int(saved["votes"]),
            kernel=saved["kernel"],
        )


def fold_votes(
    a: Ints | Sequence[int],
    b: Ints | Sequence[int],
    score: Floats | Sequence[float],
    mu: Floats | list[float],
    phi2: Floats | list[float],
    sigma2: Floats | list[float],
    tau: float,
    phi2_floor: float,
) -> None:
    """Fold votes into the state (μ, φ², σ²), in order and in place. NaN scores are skipped."""
    scale = 3.0 / (math.pi * math.pi)
    stiff = 1.0 / (tau * tau)
    for vote in range(len(a)):
        y = score[vote]
        if y != y:  # a vote that rates nothing
            continue
        # Both updates use the opponent's state before this vote.
        i, o = a[vote], b[vote]
        mu_i, mu_o, phi2_i, phi2_o = mu[i], mu[o], phi2[i], phi2[o]
        for side in range(2):
            if side == 1:
                i, mu_i, mu_o, phi2_i, phi2_o, y = o, mu_o, mu_i, phi2_o, phi2_i, 1.0 - y
            g = 1.0 / math.sqrt(1.0 + scale * phi2_o)
            e = 1.0 / (1.0 + exp(g * (mu_o - mu_i)))
            precision = max(g * g * e * (1.0 - e), 1e-300)  # step 3: 1 / v
            pull = g * (y - e)
            v = 1.0 / precision
            delta2 = (pull * v) * (pull * v)  # step 4: Δ²
            # Step 5: σ'² = σ²·exp(u), where u is the root of f by Newton's method in a shrinking bracket.
            # f is almost linear: after a step below 1e-4 the error is about its cube.
            s2 = sigma2[i]
            u, low, high = 0.0, -60.0, 60.0
            for _ in range(100):  # pragma: no branch (halving alone needs fewer)
                d = 1.0 / (phi2_i + v + s2)
                share = s2 * d
                excess = delta2 * d - 1.0
                f = 0.5 * share * excess - u * stiff
                if f > 0.0:
                    low = u
                else:
                    high = u
                step = f / (0.5 * share * (excess * (1.0 - 2.0 * share) - share) - stiff)
                if not (low <= u - step <= high):
                    step = u - 0.5 * (low + high)
                u -= step
                if abs(step) < 1e-2:  # exp(−step) by its series: below 1e-12 of error
                    s2 *= 1.0 - step * (1.0 - step * (1.0 / 2.0 - step * (1.0 / 6.0 - step * (1.0 / 24.0))))
                else:
                    s2 = sigma2[i] * exp(u)
                if abs(step) < 1e-4:
                    break
            sigma2[i] = s2
            star = phi2_i + s2  # step 6
            after = star / (1.0 + star * precision)  # step 7
            mu[i] = mu_i + after * pull
            phi2[i] = max(after, phi2_floor)
