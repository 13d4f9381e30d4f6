"""The report as one value, and how it is made of a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.state.events import Events
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.rater import RaterSettings
from tiltyard.core.policy.validity.evaluation import evaluate
from tiltyard.core.policy.validity.lanes import LaneMix, infeasible_mix
from tiltyard.core.policy.validity.quality import quality_findings
from tiltyard.core.policy.validity.report.churn import churn
from tiltyard.core.policy.validity.report.exploration import exploration_board
from tiltyard.core.policy.validity.report.findings import (
    beyond_bands,
    contradicted,
    lost_status,
    out_of_tolerance,
    uneven_sides,
)
from tiltyard.core.policy.validity.report.parts import (
    Churn,
    Confidence,
    Exploration,
    ExposureFairness,
    Matchups,
    PairCompleteness,
    PromptCoverage,
    Publication,
    Sides,
    Span,
)
from tiltyard.core.policy.validity.report.replaying import replay, span_of
from tiltyard.core.policy.validity.report.sections import (
    confidence,
    exposure_fairness,
    matchups,
    pair_completeness,
    prompt_coverage,
    publication,
    sides,
    span_lanes,
)
from tiltyard.core.ratings.bradley_terry import BradleyTerry
from tiltyard.core.ratings.findings import Finding

__all__ = ["ValidityReport", "validity_report"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ValidityReport:
    """One arena over one span. Counts of the span are its own; states are those at its end."""

    span: Span
    policy: Policy
    rater: RaterSettings
    n_models: int
    n_enabled: int
    n_prompts: int
    publication: Publication
    matchups: Matchups
    fairness: ExposureFairness
    lanes: LaneMix
    sides: Sides
    pairs: PairCompleteness
    coverage: PromptCoverage
    confidence: Confidence
    churn: Churn
    exploration: Exploration
    findings: tuple[Finding, ...] = ()

    @property
    def status(self) -> str:
        """``official`` or ``calibrating``."""
        return "official" if self.publication.official else "calibrating"

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON keeps."""
        plain: dict[str, Any] = _plain(asdict(self))
        return {"status": self.status, **plain}


def validity_report(
    events: Events,
    models: Sequence[str],
    prompts: Sequence[str],
    policy: Policy,
    *,
    since: int | None = None,
    until: int | None = None,
    answered: Bools | None = None,
    rater: RaterSettings | None = None,
    given_up: Ints | None = None,
) -> ValidityReport:
    """What happened from ``since`` on and before ``until``: by time, or by votes in a log without times.

    ``events`` is the whole log from its first row. ``given_up`` are serials of matchups for which a
    rule of matchmaking had to be given up, where somebody kept them.
    """
    span = span_of(events, since, until)
    settings = RaterSettings() if rater is None else rater
    replayed = replay(events, models, prompts, policy, span, answered=answered, settings=settings)
    within, standing = events[span.first_row : span.end_row], replayed.standing
    looks = replayed.history.evaluations[-replayed.n_evaluations - 1 :]
    found = ValidityReport(
        span=span,
        policy=policy,
        rater=settings,
        n_models=len(models),
        n_enabled=standing.n_enabled,
        n_prompts=len(prompts),
        publication=publication(replayed, evaluate(standing)),
        matchups=matchups(replayed, within, given_up),
        fairness=exposure_fairness(replayed),
        lanes=span_lanes(replayed, within),
        sides=sides(replayed, within),
        pairs=pair_completeness(replayed),
        coverage=prompt_coverage(replayed),
        confidence=confidence(replayed),
        churn=churn(looks, standing.models, policy.published_top),
        exploration=exploration_board(standing, events[: span.end_row], BradleyTerry()),
    )
    return replace(found, findings=(*_findings(found), *quality_findings(standing)))


def _findings(report: ValidityReport) -> tuple[Finding, ...]:
    found = (
        lost_status(report.publication),
        out_of_tolerance(report.fairness),
        infeasible_mix(report.lanes, report.n_enabled),
        uneven_sides(report.sides),
        beyond_bands(report.churn),
        contradicted(report.exploration),
    )
    return tuple(finding for finding in found if finding is not None)


def _plain(value: Any) -> Any:
    """Tuples as the lists that JSON would make of them."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value
