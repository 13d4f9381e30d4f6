"""How an arena's matchups were shared out: what a board must say of its fairness."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiltyard.ratings import Finding
from tiltyard.standing.policy import Fairness, Lane
from tiltyard.standing.state import Standing
from tiltyard.validity.report.findings import infeasible_mix
from tiltyard.validity.report.parts import LaneMix, LaneShare, Strain
from tiltyard.validity.report.replaying import widest_strain
from tiltyard.validity.report.sections import contender_ceiling

__all__ = ["Serving", "serving_findings", "serving_of"]


@dataclass(frozen=True, slots=True)
class Serving:
    """Exposures in the window now, and lanes since the log began."""

    #: In ``scoped`` mode exposures by the contender lane count for no tolerance.
    fairness: Fairness
    #: The enabled model that strays furthest from its target, in tolerances; ``None`` before any matchup.
    widest: Strain | None
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
        return None if self.widest is None else self.widest.strain <= 1.0 + 1e-9


def serving_of(standing: Standing) -> Serving:
    """The fairness of an arena now."""
    window, policy = standing.window, standing.policy
    return Serving(
        fairness=policy.fairness,
        widest=widest_strain(window, standing.models, standing.enabled) if window.served else None,
        steered=window.active(),
        settled=window.served >= policy.window and len(window.matchups) == 1,
        lanes=_lanes(standing),
    )


def serving_findings(serving: Serving, models: int) -> tuple[Finding, ...]:
    """What of it asks for a look; ``models`` is how many are enabled."""
    findings: list[Finding] = []
    widest = serving.widest
    if widest is not None and serving.settled and not serving.within:
        text = (
            f"{widest.model} has {widest.exposures} exposures in the window; {widest.target:.0f} were due, "
            f"give or take {widest.tolerance:.0f}."
        )
        advice = "Look for models that share few prompts with the others, or for matchups that were not chosen by the lanes."
        findings.append(Finding("outside-tolerance", text, advice))
    infeasible = infeasible_mix(serving.lanes, models)
    return (*findings, infeasible) if infeasible is not None else tuple(findings)


def _lanes(standing: Standing) -> LaneMix:
    policy, served = standing.policy, standing.lanes
    nominal, realised = served.sum(axis=1), served.sum(axis=0)
    ceiling = contender_ceiling(policy, standing.n_enabled)
    return LaneMix(
        lanes=tuple(
            LaneShare(lane.name.lower(), policy.lane_weights[lane], int(nominal[lane]), int(realised[lane]))
            for lane in Lane
        ),
        matchups=int(served.sum()),
        gave_way=int(served.sum() - np.trace(served)),
        contender_ceiling=ceiling,
        feasible=policy.lane_weights[Lane.CONTENDER] <= ceiling + 1e-9,
    )
