"""The quality floor: how often voters call both responses bad.

A person's ``both_bad`` is an outcome that moves no rating, because it tells nothing of who is better.
A judge's is a flag beside an outcome that is rated. Either tells that a model, or a prompt, is not good
enough to be compared, and that somebody should look.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.state.prompt_cells import BOTH_BAD
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.state.vote_log import RecentVotes, is_both_bad
from tiltyard.core.policy.validity.prompt_coverage import servable_prompts
from tiltyard.core.policy.validity.rules import FREE_PROMPTS_CASE
from tiltyard.core.ratings.findings import Finding
from tiltyard.core.ratings.sentences import first_of

Ints = npt.NDArray[np.int64]

#: Fewer recent votes than this raise no finding. Where one vote in 14 is both_bad, a quarter of
#: 20 votes is passed by luck less than once in 400 times.
MIN_RECENT_VOTES = 20
#: Votes in one step of the trend.
_TREND_STEP_VOTES = 20


@dataclass(frozen=True, slots=True)
class BothBadQuality:
    """Both-bad votes of one model. Rates are ``None`` without votes."""

    votes: int
    both_bad: int
    #: both_bad over all votes.
    rate: float | None
    #: 1 − rate.
    floor_score: float | None
    #: The same over the last ``policy.both_bad_over`` votes.
    recent_votes: int
    recent_rate: float | None
    #: Rates of successive runs of 20 of those votes, oldest first; the last run is the newest.
    trend: tuple[float, ...]


def model_quality(standing: Standing, model: int) -> BothBadQuality:
    """How often this model's matchups were called both bad."""
    record = standing.record[model]
    recent = standing.model_votes
    both_bad = int(record[BOTH_BAD] + recent.flagged[model])
    return _quality(int(record.sum()), both_bad, recent.last(model))


def flagged_models(standing: Standing) -> Ints:
    """Enabled models whose recent both-bad rate is above the bar, highest first."""
    return _flagged(standing, standing.model_votes, standing.enabled)


def flagged_prompts(standing: Standing) -> Ints:
    """Prompts still in play whose recent both-bad rate is above the bar, highest first."""
    return _flagged(standing, standing.prompt_votes, servable_prompts(standing))


def quality_findings(standing: Standing) -> tuple[Finding, ...]:
    """What to look at: models, and prompts, that voters too often find nothing good in."""
    share, findings = standing.policy.both_bad_bar, list[Finding]()
    models = _told(flagged_models(standing), standing.models, standing.model_votes)
    if models:
        findings.append(Finding("both-bad-models", {"share": share, **first_of("models", models)}))
    prompts = _told(flagged_prompts(standing), standing.prompts, standing.prompt_votes)
    if prompts:
        values = {"share": share, **first_of("prompts", prompts)}
        case = FREE_PROMPTS_CASE if standing.policy.free_prompts else {}
        findings.append(Finding("both-bad-prompts", {**case, **values}))
    return tuple(findings)


def _quality(votes: int, both_bad: int, recent: npt.NDArray[np.uint8]) -> BothBadQuality:
    bad = is_both_bad(recent)
    rate = both_bad / votes if votes else None
    first = len(bad) % _TREND_STEP_VOTES if len(bad) > _TREND_STEP_VOTES else 0
    steps = [bad[k : k + _TREND_STEP_VOTES] for k in range(first, len(bad), _TREND_STEP_VOTES)]
    return BothBadQuality(
        votes,
        both_bad,
        rate,
        None if rate is None else 1.0 - rate,
        len(bad),
        float(bad.mean()) if len(bad) else None,
        tuple(float(step.mean()) for step in steps),
    )


def _flagged(standing: Standing, votes: RecentVotes, among: npt.NDArray[np.bool_]) -> Ints:
    share = np.nan_to_num(votes.both_bad_share())
    known = np.minimum(votes.total, votes.ring.shape[1]) >= MIN_RECENT_VOTES
    codes = np.flatnonzero(among & known & (share > standing.policy.both_bad_bar))
    return codes[np.argsort(-share[codes], kind="stable")]


def _told(codes: Ints, names: tuple[str, ...], votes: RecentVotes) -> list[dict[str, object]]:
    """Each with its share of both-bad votes among those that are remembered."""
    share, kept = votes.both_bad_share(), np.minimum(votes.total, votes.ring.shape[1])
    return [{"name": names[k], "share": float(share[k]), "votes": int(kept[k])} for k in codes.tolist()]
