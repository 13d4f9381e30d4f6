"""Shares with intervals for clustered trials.

The pairs on one prompt, and the two orders of one pair, are not independent trials. Therefore the
variance of a share is computed between clusters and converted to an effective number of trials, for
which Wilson's interval is computed.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from tiltyard.errors import BadOption

Counts = npt.NDArray[np.integer[Any]]


def wilson_interval(p: float, n: float, dof: float, level: float) -> tuple[float, float]:
    """Wilson's interval (JASA 22, 1927) for ``n`` trials, with Student's t for the normal quantile."""
    t = float(stdtrit(dof, (1.0 + level) / 2.0))
    spread = t * t / n
    middle = (p + spread / 2.0) / (1.0 + spread)
    half = math.sqrt(spread * (p * (1.0 - p) + spread / 4.0)) / (1.0 + spread)
    return min(max(middle - half, 0.0), p), max(min(middle + half, 1.0), p)


@dataclass(frozen=True, slots=True)
class ShareEstimate:
    """A share with its interval: ``n`` trials in ``clusters`` prompts.

    The interval refers to prompts like these. With a single prompt it covers the whole range,
    because one prompt does not show how others would differ.
    """

    value: float
    low: float
    high: float
    n: int
    clusters: int
    level: float

    def excludes(self, value: float) -> bool:
        """Whether ``value`` lies outside the interval."""
        return not self.low <= value <= self.high

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def estimate_share(hits: Counts, trials: Counts, level: float = 0.95) -> ShareEstimate | None:
    """The share of hits, given the hits and trials of each cluster; ``None`` without trials.

    With y_c hits in n_c trials, N = Σn_c, p = Σy_c / N and k clusters, the linearised variance of
    p is v = k/(k − 1) · Σ(y_c − p·n_c)² / N² (Cochran, Sampling Techniques, 1977, ch. 9A), the
    design effect D = v / (p(1 − p)/N), and N/D the effective number of trials (Kish 1965). The
    interval is Wilson's with N/D for N and Student's t for the normal quantile.

    - D is at least 1. Clusters may truly vary less than by chance (a judge that is not biased by the
      slot picks each slot once in every pair), but an estimate below 1 from a few prompts
      is more often luck, and an interval that is too narrow is the worse error.
    - If all trials had the same result they do not show how clusters differ, and each cluster
      counts as one: N/D = N² / Σn_c², its value if all trials of a cluster are equal.
    - t has N² / Σn_c² − 1 degrees of freedom: k − 1 for equal clusters, fewer if some outweigh others.

    In simulation (5 to 50 prompts, intraclass correlation up to 0.4) the 95 % interval covers at least 91 %
    for shares from a fifth to four fifths. It is weakest for rare hits that are clustered: at a share
    of 5 % and correlation 0.4 it covers 83 to 92 % on 10 to 50 prompts.

    All sums are of integers, so the result does not depend on the order of the clusters.
    """
    if not 0.0 < level < 1.0:
        raise BadOption(f"level is {level}; expected a number between 0 and 1")
    y, n = hits[trials > 0].astype(np.int64), trials[trials > 0].astype(np.int64)
    total, won, k = int(n.sum()), int(y.sum()), len(n)
    if total == 0:
        return None
    p = won / total
    if k == 1:
        return ShareEstimate(p, 0.0, 1.0, total, 1, level)
    alike = total * total / int(n @ n)
    effective = alike
    if 0 < won < total:
        strayed = total**2 * int(y @ y) - 2 * total * won * int(y @ n) + won**2 * int(n @ n)
        effective = total / max(k * strayed / (won * (total - won) * total * (k - 1)), 1.0)
    low, high = wilson_interval(p, effective, alike - 1.0, level)
    return ShareEstimate(p, low, high, total, k, level)


def share_difference(one: ShareEstimate, other: ShareEstimate) -> ShareEstimate:
    """The difference of two shares, with an interval made from both intervals.

    Newcombe's method 10 (Statistics in Medicine 17, 1998). It treats the two shares as independent:
    those of two judges on the same matches are usually positively correlated, which makes the true
    interval narrower than this one.
    """
    value = one.value - other.value
    low = value - math.hypot(one.value - one.low, other.high - other.value)
    high = value + math.hypot(one.high - one.value, other.value - other.low)
    clusters = min(one.clusters, other.clusters)
    return ShareEstimate(value, max(low, -1.0), min(high, 1.0), one.n + other.n, clusters, one.level)
