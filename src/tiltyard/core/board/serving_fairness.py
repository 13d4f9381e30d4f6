"""How an arena's matchups were shared out: what a board must say of its fairness."""

from __future__ import annotations

from dataclasses import dataclass

from tiltyard.core.policy.state.policy import Fairness
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.exposure_deviation import ExposureDeviation, largest_exposure_deviation
from tiltyard.core.policy.validity.lane_mix import LaneMix, infeasible_mix_finding, lane_mix
from tiltyard.core.ratings import Finding

__all__ = ["ServingFairness", "measure_serving", "serving_findings"]


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
