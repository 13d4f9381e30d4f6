"""The report as one value, and how it is made of a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from tiltyard.core.policy.state.events import Events
from tiltyard.core.policy.state.policy import Lane, Policy
from tiltyard.core.policy.state.rating_fold import RaterSettings
from tiltyard.core.policy.state.vote_log import VoteLog
from tiltyard.core.policy.validity.arena_fold import ArenaFold
from tiltyard.core.policy.validity.model_record import quality_findings
from tiltyard.core.policy.validity.publication import evaluate
from tiltyard.core.policy.validity.report.report_records import (
    Churn,
    ExplorationBoard,
    ExposureFairness,
    MatchupCounts,
    PairCompleteness,
    PromptCoverage,
    PublicationStatus,
    RatingConfidence,
    ReportSpan,
    SideBalance,
    SpanUnit,
)
from tiltyard.core.policy.validity.report.report_sections import (
    churn,
    confidence,
    exploration_board,
    exposure_fairness,
    find_span,
    is_timed,
    matchups,
    pair_completeness,
    prompt_coverage,
    publication,
    replay_span,
    sides,
    span_lanes,
    votes_of_lane,
)
from tiltyard.core.policy.validity.serving_fairness import LaneMix, infeasible_mix_finding
from tiltyard.core.ratings.bradley_terry import BradleyTerry
from tiltyard.core.ratings.findings import Finding
from tiltyard.core.ratings.sentences import first_of
from tiltyard.foundation.arrays import Bools, Ints


@dataclass(frozen=True, slots=True)
class ValidityReport:
    """One arena over one span. Counts of the span are its own; states are those at its end."""

    span: ReportSpan
    policy: Policy
    rater: RaterSettings
    n_models: int
    n_enabled: int
    n_prompts: int
    publication: PublicationStatus
    matchups: MatchupCounts
    fairness: ExposureFairness
    lanes: LaneMix
    sides: SideBalance
    pairs: PairCompleteness
    coverage: PromptCoverage
    confidence: RatingConfidence
    churn: Churn
    exploration: ExplorationBoard
    findings: tuple[Finding, ...] = ()

    @property
    def status(self) -> str:
        """``official`` or ``calibrating``."""
        return "official" if self.publication.official else "calibrating"

    def to_dict(self) -> dict[str, object]:
        """Plain values that JSON keeps."""
        return {"status": self.status, **_plain(asdict(self))}


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
    rows = find_span(events, since, until)
    following = ArenaFold(policy, rater, models, prompts, answered=answered)
    following.fold(events[: rows.start])
    explored, chosen = VoteLog(), votes_of_lane(events[: rows.stop], Lane.EXPLORATION)
    explored.add_many(chosen.a, chosen.b, chosen.compared_on, chosen.session, chosen.kind)
    by: SpanUnit = "time" if is_timed(events) else "votes"
    return report_on_span(
        following, events[rows], explored, since=since, until=until, by=by, given_up=given_up
    )


def report_on_span(
    following: ArenaFold,
    events: Events,
    explored: VoteLog,
    *,
    since: int | None,
    until: int | None,
    by: SpanUnit,
    given_up: Ints | None,
) -> ValidityReport:
    """The report of a span from the fold of everything before it, which goes on to the span's end.

    ``events`` are those of the span, ``explored`` all votes of the exploration lane up to its end.
    """
    replayed = replay_span(following, events)
    standing, policy = replayed.standing, following.policy
    times = events.time if len(events) else np.zeros(1, dtype=np.int64)
    looks = replayed.history.evaluations[-replayed.n_evaluations - 1 :]
    found = ValidityReport(
        span=ReportSpan(
            since,
            until,
            by,
            len(events),
            replayed.votes_before,
            standing.votes,
            int(times[0]),
            int(times[-1]),
        ),
        policy=policy,
        rater=following.settings,
        n_models=len(standing.models),
        n_enabled=standing.n_enabled,
        n_prompts=len(standing.prompts),
        publication=publication(replayed, evaluate(standing)),
        matchups=matchups(replayed, events, given_up),
        fairness=exposure_fairness(replayed),
        lanes=span_lanes(replayed, events),
        sides=sides(replayed, events),
        pairs=pair_completeness(replayed),
        coverage=prompt_coverage(replayed),
        confidence=confidence(replayed),
        churn=churn(looks, standing.models, policy.published_top),
        exploration=exploration_board(standing, explored, BradleyTerry()),
    )
    return replace(found, findings=(*_findings(found), *quality_findings(standing)))


def _findings(report: ValidityReport) -> tuple[Finding, ...]:
    fairness, uneven = report.fairness, report.sides.uneven
    windows = {"case": "windows", "outside": fairness.settled_outside, "windows": fairness.settled}
    found = (
        lost_status_finding(report.publication),
        Finding("outside-tolerance", windows) if fairness.settled_outside else None,
        infeasible_mix_finding(report.lanes, report.n_enabled),
        Finding("sides-uneven", first_of("models", uneven)) if uneven else None,
        churn_finding(report.churn),
        contradiction_finding(report.exploration),
    )
    return tuple(finding for finding in found if finding is not None)


def _plain(value: Any) -> Any:
    """Tuples as the lists that JSON would make of them."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value


def lost_status_finding(publication: PublicationStatus) -> Finding | None:
    """The board was official within the span, and then no longer."""
    lost = [new.votes for old, new in pairwise(publication.history) if old.official and not new.official]
    if not lost:
        return None
    return Finding("official-lost", first_of("lost", [{"votes": votes} for votes in lost]))


def churn_finding(churn: Churn) -> Finding | None:
    """Models changed places at the top although even their bands of two RD did not overlap."""
    torn = [{"model": pair.model, "other": pair.other} for pair in churn.pairs if pair.far_beyond]
    if not torn:
        return None
    return Finding("churn-beyond-bands", first_of("pairs", torn))


def contradiction_finding(exploration: ExplorationBoard) -> Finding | None:
    """The exploration lane contradicts the order of the board beyond its uncertainty."""
    if not exploration.reversed:
        return None
    pairs = [{"above": pair.below, "below": pair.above} for pair in exploration.reversed]
    return Finding("order-contradicted", first_of("pairs", pairs))
