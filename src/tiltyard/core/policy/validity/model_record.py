"""How a model has done: its record, its recent form, its results prompt by prompt, and how often both were called bad.

Results are those that rate skill: a win counts 1, a tie ½, a loss 0. ``both_bad`` votes moved no
rating and are left out of every mean here; they are counted beside it.

A person's ``both_bad`` tells nothing of who is better. A judge's is a flag beside an outcome that is rated. Either tells
that a model, or a prompt, is not good enough to be compared, and that somebody should look.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.state.prompt_cells import BOTH_BAD, BOTH_BAD_FLAG_OFFSET, LOSS, TIE, WIN
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.state.vote_log import RecentVotes, is_both_bad
from tiltyard.core.policy.validity.prompt_coverage import servable_prompts
from tiltyard.core.policy.validity.rules import FREE_PROMPTS_CASE
from tiltyard.core.ratings.findings import Finding
from tiltyard.core.ratings.sentences import first_of
from tiltyard.foundation.arrays import Floats, Ints

#: Votes on a prompt from which a mean result there counts.
_MIN_PROMPT_VOTES = 2
#: Prompts from which a spread is given.
_MIN_SPREAD_PROMPTS = 3
_LETTERS = "WLTB"
#: Fewer recent votes than this raise no finding. Where one vote in 14 is both_bad, a quarter of
#: 20 votes is passed by luck less than once in 400 times.
MIN_RECENT_VOTES = 20
#: Votes in one step of the trend.
_TREND_STEP_VOTES = 20


@dataclass(frozen=True, slots=True)
class VoteRecord:
    """Votes by how they went for one model."""

    wins: int
    losses: int
    ties: int
    both_bad: int

    @property
    def votes(self) -> int:
        """Votes of any kind."""
        return self.rated + self.both_bad

    @property
    def rated(self) -> int:
        """Votes that rate skill: both_bad left out."""
        return self.wins + self.losses + self.ties

    @property
    def win_rate(self) -> float | None:
        """Wins over votes that rate skill, as they went: not corrected for who the opponents were."""
        return self.wins / self.rated if self.rated else None


@dataclass(frozen=True, slots=True)
class RecentForm:
    """The last votes of a model, oldest first: W, L, T or B (both bad) for each."""

    letters: str
    record: VoteRecord
    #: Mean result of those that rate skill.
    score: float | None


def vote_record(standing: Standing, model: int) -> VoteRecord:
    """The model's votes since the log began."""
    return VoteRecord(*standing.record[model].tolist())


def recent_form(standing: Standing, model: int) -> RecentForm:
    """Its last ``policy.form_votes`` votes."""
    last = standing.model_votes.last(model, standing.policy.form_votes) % BOTH_BAD_FLAG_OFFSET
    record = VoteRecord(*(int((last == result).sum()) for result in (WIN, LOSS, TIE, BOTH_BAD)))
    score = (record.wins + record.ties / 2.0) / record.rated if record.rated else None
    return RecentForm("".join(_LETTERS[result] for result in last.tolist()), record, score)


def prompt_results(standing: Standing, model: int) -> Floats:
    """The model's mean result on each prompt where it has at least two votes that rate skill."""
    tally = standing.cells.tally[model]
    rated = tally[:, WIN] + tally[:, LOSS] + tally[:, TIE]
    enough = rated >= _MIN_PROMPT_VOTES
    return np.asarray((tally[enough, WIN] + tally[enough, TIE] / 2.0) / rated[enough])


def average_score(standing: Standing, model: int) -> float | None:
    """Mean over prompts of `prompt_results`: every prompt counts alike, however many votes it drew."""
    results = prompt_results(standing, model)
    return float(results.mean()) if len(results) else None


def prompt_result_spread(standing: Standing, model: int) -> float | None:
    """Population deviation of `prompt_results`, from three prompts on. It holds the votes' own noise too."""
    results = prompt_results(standing, model)
    return float(results.std()) if len(results) >= _MIN_SPREAD_PROMPTS else None


def expected_scores(standing: Standing, model: int) -> Floats:
    """Expected score of this model against every other by rating, a tie counting half; NaN against itself.

    Elo's curve, 1 / (1 + 10^(gap/400)). With ties counted half it is no probability of winning.
    """
    expected = standing.strengths.expected(model)
    expected[model] = np.nan
    return expected


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
    votes = int(record.sum())
    bad = is_both_bad(recent.last(model))
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


def _flagged(standing: Standing, votes: RecentVotes, among: npt.NDArray[np.bool_]) -> Ints:
    share = np.nan_to_num(votes.both_bad_share())
    known = np.minimum(votes.total, votes.ring.shape[1]) >= MIN_RECENT_VOTES
    codes = np.flatnonzero(among & known & (share > standing.policy.both_bad_bar))
    return codes[np.argsort(-share[codes], kind="stable")]


def _told(codes: Ints, names: tuple[str, ...], votes: RecentVotes) -> list[dict[str, object]]:
    """Each with its share of both-bad votes among those that are remembered."""
    share, kept = votes.both_bad_share(), np.minimum(votes.total, votes.ring.shape[1])
    return [{"name": names[k], "share": float(share[k]), "votes": int(kept[k])} for k in codes.tolist()]
