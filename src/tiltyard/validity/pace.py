"""How fast votes bring a bar nearer: the assumptions behind every "about so many votes".

Each is a rough law with its reason. Where a law has nothing to go by it says infinity, which a rule
shows as "no number can be given".
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tiltyard.standing.cells import LOSS
from tiltyard.standing.policy import Lane
from tiltyard.standing.state import Standing

__all__ = [
    "FULL_RD",
    "adjacent_rate",
    "coverage_hits",
    "decisive_share",
    "exposure_rate",
    "matchups_in_window",
    "pair_decisive_share",
    "votes_at",
    "votes_to_rd",
]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: RD of a model of which nothing is known.
FULL_RD = 350.0
#: The arena's decisive share counts as much as this many of a pair's own votes.
_WEIGHT = 10.0
#: Of the contender lane's draws, the least share that goes to adjacent pairs while one is short.
_TO_ADJACENT = 0.5


def votes_at(missing: float, useful: float) -> float:
    """Votes that bring what is missing, if each brings ``useful`` of it; infinite if none does."""
    if missing == 0.0:
        return 0.0
    return missing / useful if useful > 0.0 else math.inf


def decisive_share(standing: Standing) -> float:
    """How many votes of the arena are decisive; NaN before the first."""
    total = int(standing.record.sum())
    return float(standing.record[:, : LOSS + 1].sum()) / total if total else float("nan")


def pair_decisive_share(decisive: int, attempts: int, overall: float) -> float:
    """The same for a pair: its own votes, pulled to the arena's share while they are few."""
    return (decisive + _WEIGHT * overall) / (attempts + _WEIGHT)


def matchups_in_window(standing: Standing) -> int:
    """Served matchups that the window counts."""
    return int(standing.window.exposures[0].sum()) // 2


def exposure_rate(standing: Standing) -> Floats:
    """Exposures of each model for every vote of the arena: those of the window; evenly before it fills.

    The mix of lanes is taken to stay as it is.
    """
    matchups = matchups_in_window(standing)
    if not matchups:
        return np.where(standing.enabled, 2.0 / max(standing.n_enabled, 1), 0.0)
    return np.asarray(standing.window.exposures[0] / matchups)


def votes_to_rd(standing: Standing, models: Ints, bar: float) -> Floats:
    """Votes that each of these models needs until its RD is at most ``bar``.

    1/RD² grows by about the same amount with each vote, so what a model's votes have brought so far
    is taken as what the next ones will bring. Too many while opponents are still unknown; too few
    where volatility keeps RD from falling further.
    """
    precision = standing.strengths.rd[models] ** -2.0
    votes = standing.record[models].sum(axis=1)
    gained = np.maximum(precision - FULL_RD**-2.0, 0.0)
    lacking = np.maximum(bar**-2.0 - precision, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = np.where(gained > 0.0, lacking * votes / gained, np.inf)
    return np.where(lacking > 0.0, needed, 0.0)


def coverage_hits(standing: Standing, covered: float, bar: float) -> float:
    """How many of a model's votes fall on a prompt that is still short, on the way from here to the bar.

    Those of the coverage lane do; the others fall evenly, so that they hit as large a share as is
    still uncovered. Hits so become rarer on the way: the answer is the logarithmic mean of the rate
    now and at the bar, by which the time it takes comes out right.
    """
    lanes = standing.lanes.sum(axis=0)
    total = int(lanes.sum())
    sought = lanes[Lane.COVERAGE] / total if total else standing.policy.lane_weights[Lane.COVERAGE]
    now, then = (float(sought + (1.0 - sought) * (1.0 - share)) for share in (covered, bar))
    if now <= then or then <= 0.0:
        return now
    return (now - then) / math.log(now / then)


def adjacent_rate(standing: Standing, top: Ints) -> float:
    """Meetings of adjacent models of the top for every vote of the arena.

    As many as the window holds, and at least half of its contender lane: that half goes to adjacent
    pairs as long as one is short, whichever pairs were adjacent before. The order is taken to stay;
    while it still changes, new neighbours start anew and the estimate is too low.
    """
    window = standing.window
    matchups = matchups_in_window(standing)
    if not matchups:
        return 0.0
    place = np.full(len(standing.models), -2 * len(standing.models))
    place[top] = np.arange(len(top))
    apart = np.abs(place[window.a] - place[window.b])
    met = int(np.count_nonzero((apart == 1) & (window.state > 0)))
    contender = int(window.exposures[1].sum()) / 2.0
    return max(float(met), _TO_ADJACENT * contender) / matchups
