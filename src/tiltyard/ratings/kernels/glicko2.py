"""Glicko-2, one vote at a time. One source, run as Python or compiled.

Letters are those of Glickman, "Example of the Glicko-2 system" (2013): μ, φ, σ, g, E, v, Δ,
and the steps are his. Each vote is a rating period of its own for its two models.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["POINTS", "fold_votes"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer[Any]]


#: Rating points per unit of the Glicko-2 scale (step 2 of the paper).
POINTS = 173.7178


def fold_votes(
    a: Ints,
    b: Ints,
    score: Floats,
    rating: Floats,
    rd: Floats,
    sigma: Floats,
    tau: float,
    start: float,
    rd_floor: float,
) -> None:
    """Fold votes into the state, in order and in place. NaN scores are passed over.

    The state is kept in rating points after every vote, not only after the last, so that a
    fold which stops and goes on reaches the same bits as one that never stopped.
    """
    for vote in range(len(a)):
        y = score[vote]
        if y != y:  # a vote that rates nothing
            continue
        for side in range(2):
            i, o = (a[vote], b[vote]) if side == 0 else (b[vote], a[vote])
            if side == 0:
                # The second model must meet the first as it was before this vote.
                mu_o, phi_o = (rating[o] - start) / POINTS, rd[o] / POINTS
                mu_i, phi_i = (rating[i] - start) / POINTS, rd[i] / POINTS
            else:
                mu_i, phi_i, mu_o, phi_o = mu_o, phi_o, mu_i, phi_i
                y = 1.0 - y
            g = 1.0 / math.sqrt(1.0 + 3.0 * phi_o * phi_o / (math.pi * math.pi))
            e = 1.0 / (1.0 + math.exp(-g * (mu_i - mu_o)))
            precision = g * g * e * (1.0 - e)  # step 3: 1 / v
            v = 1.0 / max(precision, 1e-300)
            gain = g * (y - e)
            delta2 = (v * gain) * (v * gain)  # step 4: Δ²
            # Step 5: the volatility, by Newton on f(x), x = ln σ², kept inside a shrinking bracket.
            phi2 = phi_i * phi_i
            anchor = math.log(sigma[i] * sigma[i])
            low, high = anchor - 60.0, anchor + 60.0
            x = anchor
            for _ in range(100):
                ex = math.exp(x)
                d = phi2 + v + ex
                f = ex * (delta2 - d) / (2.0 * d * d) - (x - anchor) / (tau * tau)
                if f > 0.0:
                    low = x
                else:
                    high = x
                slope = ex * ((delta2 - d) * (d - 2.0 * ex) - ex * d) / (2.0 * d * d * d) - 1.0 / (tau * tau)
                step = f / slope
                following = x - step
                if not (low <= following <= high):
                    following = 0.5 * (low + high)
                if abs(following - x) < 1e-12:
                    x = following
                    break
                x = following
            sigma[i] = math.exp(0.5 * x)
            phi_star2 = phi2 + math.exp(x)  # step 6
            new_phi = 1.0 / math.sqrt(1.0 / phi_star2 + precision)  # step 7
            rating[i] = (mu_i + new_phi * new_phi * gain) * POINTS + start
            rd[i] = max(new_phi * POINTS, rd_floor)
