"""Wilson's interval of a share."""

from __future__ import annotations

import math

from scipy.special import stdtrit

__all__ = ["wilson_interval"]


def wilson_interval(p: float, n: float, dof: float, level: float) -> tuple[float, float]:
    """Wilson's interval (JASA 22, 1927) for ``n`` trials, with Student's t for the normal quantile."""
    t = float(stdtrit(dof, (1.0 + level) / 2.0))
    spread = t * t / n
    middle = (p + spread / 2.0) / (1.0 + spread)
    half = math.sqrt(spread * (p * (1.0 - p) + spread / 4.0)) / (1.0 + spread)
    return min(max(middle - half, 0.0), p), max(min(middle + half, 1.0), p)
