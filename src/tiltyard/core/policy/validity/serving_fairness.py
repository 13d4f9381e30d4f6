"""How an arena's matchups were shared out: exposures against their targets, the mix of lanes, and what a board says of both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiltyard.core.policy.state.exposure_window import ExposureWindow
from tiltyard.core.policy.state.policy import Fairness, Lane, Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.ratings import Finding
from tiltyard.foundation.arrays import Bools, Ints

#: Of the two models of a contender matchup, how many belong to the band: 1.856 of 2.
_CONTENDER_BAND_SHARE = 0.928


@dataclass(frozen=True, slots=True)
class ExposureDeviation:
    """How far one model's exposures stood from their target in one window."""

    model: str
    #: The arena's matchups served so far, when the window ended.
    served: int
    exposures: int
    target: float
    tolerance: float

    @property
    def strain(self) -> float:
        """|exposures − target| over the tolerance: more than 1 is outside."""
        return abs(self.exposures - self.target) / max(self.tolerance, 1e-9)

    @property
    def within(self) -> bool:
        """Whether it is within tolerance."""
        return self.strain <= 1.0 + 1e-9


def largest_exposure_deviation(
    window: ExposureWindow, models: tuple[str, ...], enabled: Bools
) -> ExposureDeviation | None:
    """The enabled model whose exposures stand furthest from their target, in tolerances."""
    due, exposures = window.due(), window.counted()
    codes = np.flatnonzero(enabled)
    if not len(codes):
        return None
    stray = np.abs(exposures - due.target) / np.maximum(due.tolerance, 1e-9)
    model = int(codes[np.argmax(stray[codes])])
    return ExposureDeviation(
        models[model],
        window.served,
        int(exposures[model]),
        float(due.target[model]),
        float(due.tolerance[model]),
    )


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


@dataclass(frozen=True, slots=True)
class ServingFairness:
    """Exposures in the window now, and lanes since the log began."""

    #: In ``scoped`` mode exposures by the contender lane count for no tolerance.
    fairness: Fairness
    #: The enabled model that strays furthest from its target, in tolerances; ``None`` before any matchup, and where
    #: voters write prompts: exposures count open battles, and would tell which models answer in one.
    widest: ExposureDeviation | None
    #: Whether enough has been served for exposures to be steered.
    steered: bool
    #: Whether the window is full and its roster unchanged: only then is the tolerance promised.
    settled: bool
    #: Lanes drawn and lanes that chose, and whether the contender lane's share can be had at all.
    lanes: LaneMix

    @property
    def deviation(self) -> float | None:
        """(exposures − target) / target of the model that strays furthest."""
        if self.widest is None or self.widest.target <= 0.0:
            return None
        return (self.widest.exposures - self.widest.target) / self.widest.target

    @property
    def within(self) -> bool | None:
        """Whether every enabled model is within tolerance; ``None`` before any matchup."""
        return None if self.widest is None else self.widest.within


def measure_serving(standing: Standing) -> ServingFairness:
    """The fairness of an arena now."""
    window, policy = standing.window, standing.policy
    return ServingFairness(
        fairness=policy.fairness,
        widest=largest_exposure_deviation(window, standing.models, standing.enabled)
        if window.served and not policy.free_prompts
        else None,
        steered=window.active(),
        settled=window.settled(),
        lanes=lane_mix(policy, standing.n_enabled, standing.lanes),
    )


def serving_findings(serving: ServingFairness, models: int) -> tuple[Finding, ...]:
    """What of it asks for a look; ``models`` is how many are enabled."""
    findings: list[Finding] = []
    widest = serving.widest
    if widest is not None and serving.settled and not serving.within:
        strayed = ("model", "exposures", "target", "tolerance")
        findings.append(Finding("outside-tolerance", {name: getattr(widest, name) for name in strayed}))
    infeasible = infeasible_mix_finding(serving.lanes, models)
    return (*findings, infeasible) if infeasible is not None else tuple(findings)
