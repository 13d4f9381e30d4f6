"""The mix of lanes: what was drawn, what chose, and whether the contender lane can have its share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.state.policy import Lane, Policy
from tiltyard.core.ratings.findings import Finding

__all__ = [
    "LaneMix",
    "LaneShare",
    "contender_ceiling",
    "infeasible_mix_finding",
    "is_mix_feasible",
    "lane_mix",
]

Ints = npt.NDArray[np.int64]

#: Of the two models of a contender matchup, how many belong to the band: 1.856 of 2.
_CONTENDER_BAND_SHARE = 0.928


@dataclass(frozen=True, slots=True)
class LaneShare:
    """Matchups that were drawn for a lane, and that it chose."""

    lane: str
    target: float
    nominal: int
    realised: int


@dataclass(frozen=True, slots=True)
class LaneMix:
    """How the lanes shared matchups."""

    lanes: tuple[LaneShare, ...]
    matchups: int
    #: Matchups that another lane chose than the one drawn.
    gave_way: int
    #: The largest share of the contender lane that exposure fairness leaves room for, and whether
    #: its weight fits. Always 1 and true in scoped mode.
    contender_ceiling: float
    feasible: bool


def lane_mix(policy: Policy, models: int, served: Ints) -> LaneMix:
    """Of matchups counted by lane drawn (row) and lane that chose (column), with so many models enabled."""
    nominal, realised = served.sum(axis=1), served.sum(axis=0)
    return LaneMix(
        tuple(
            LaneShare(lane.name.lower(), policy.lane_weights[lane], int(nominal[lane]), int(realised[lane]))
            for lane in Lane
        ),
        int(served.sum()),
        int(served.sum() - np.trace(served)),
        contender_ceiling(policy, models),
        is_mix_feasible(policy, models),
    )


def is_mix_feasible(policy: Policy, models: int) -> bool:
    """Whether the contender lane's weight leaves every exposure within tolerance."""
    return policy.lane_weights[Lane.CONTENDER] <= contender_ceiling(policy, models) + 1e-9


def contender_ceiling(policy: Policy, models: int) -> float:
    """The largest share of matchups that the contender lane can have under strict fairness.

    The band's K models may have (1 + tolerance)·K of M shares of all exposures, and a contender
    matchup takes 0.928 of its two exposures from them.

    === =====
      M share
    === =====
     20  0.48
     33  0.29
    100  0.10
    === =====
    """
    if policy.fairness == "scoped" or models <= policy.contenders:
        return 1.0
    return min((1.0 + policy.tolerance) * policy.contenders / (_CONTENDER_BAND_SHARE * models), 1.0)


def infeasible_mix_finding(lanes: LaneMix, models: int) -> Finding | None:
    """The contender lane wants more than exposure fairness leaves."""
    if lanes.feasible:
        return None
    weight = lanes.lanes[Lane.CONTENDER].target
    return Finding("mix-infeasible", {"models": models, "ceiling": lanes.contender_ceiling, "weight": weight})
