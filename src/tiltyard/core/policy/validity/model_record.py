"""How a model has done: its record, its recent form, its results prompt by prompt, and how often both were called bad.

Results are those that rate skill: a win counts 1, a tie ½, a loss 0. ``both_bad`` votes moved no
rating and are left out of every mean here; they are counted beside it.

A person's ``both_bad`` tells nothing of who is better. A judge's is a flag beside an outcome that is rated. Either tells
that a model, or a prompt, is not good enough to be compared, and that somebody should look.

A standing of one model's votes knows as much of that model as a standing of all votes does; its counts of anybody else
are not to be shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.state.events import NO_SESSION, Event, Events
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.prompt_cells import BOTH_BAD, BOTH_BAD_FLAG_OFFSET, LOSS, TIE, WIN
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.state.strengths import Strengths
from tiltyard.core.policy.state.vote_log import RecentVotes, is_both_bad
from tiltyard.core.policy.validity.pair_floors import floor_of, neighbours_of, pair_coverage
from tiltyard.core.policy.validity.prompt_coverage import servable_prompts
from tiltyard.core.policy.validity.rules import FREE_PROMPTS_CASE
from tiltyard.core.ratings.findings import Finding
from tiltyard.core.ratings.sentences import first_of
from tiltyard.foundation.arrays import Bools, Floats, Ints

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


@dataclass(frozen=True, slots=True, eq=False)
class VoteColumns:
    """Votes as columns: ``a`` on the left, ``b`` on the right, and the kind in which each ended."""

    a: Ints
    b: Ints
    prompt: Ints
    kind: Ints
    #: The prompts that were written, where these are free; ``prompt`` is then the category.
    free_prompt: Ints | None = None


def build_standing(
    policy: Policy,
    models: Sequence[str],
    prompts: Sequence[str],
    *,
    answered: Bools,
    enabled: Bools,
    votes: VoteColumns,
    strengths: Strengths,
) -> Standing:
    """The standing that these votes make of this roster, under these strengths."""
    standing = Standing(policy, models, prompts, answered)
    roster = Events.of([{"event": Event.ENABLE, "a": k} for k in np.flatnonzero(enabled).tolist()])
    standing.fold(Events.joined([roster, _events(votes)]))
    standing.rank(strengths)
    return standing


def _events(votes: VoteColumns) -> Events:
    n = len(votes.kind)
    zero, small = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.uint8)
    return Events(
        event=np.full(n, Event.VOTE, dtype=np.uint8),
        a=votes.a,
        b=votes.b,
        prompt=votes.prompt,
        kind=votes.kind.astype(np.uint8),
        lane=small,
        nominal=small,
        serial=zero,
        session=np.full(n, NO_SESSION, dtype=np.int64),
        time=zero,
        free_prompt=zero if votes.free_prompt is None else votes.free_prompt,
    )


@dataclass(frozen=True, slots=True)
class OpponentRecord:
    """Another model: how votes against it went, and how the ratings expect them to go."""

    model: int
    record: VoteRecord
    #: Mean result of the votes that rate skill.
    score: float | None
    #: By rating, a tie counting half: no probability of winning.
    expected: float
    #: Share of its floor that the pair lacks; ``None`` for a model that is retired.
    deficit: float | None


def opponent_records(standing: Standing, model: int) -> tuple[OpponentRecord, ...]:
    """Every other model, those met most often first; then by number."""
    expected = expected_scores(standing, model).tolist()
    deficit = opponent_deficits(standing, model).tolist()
    found = []
    for other in range(len(standing.models)):
        if other == model:
            continue
        cells = standing.meetings.cells(model, other)
        low, high, ties, both_bad = (0, 0, 0, 0) if cells is None else cells.tally.sum(axis=0).tolist()
        wins, losses = (low, high) if model < other else (high, low)
        record = VoteRecord(wins, losses, ties, both_bad)
        lacking = None if deficit[other] != deficit[other] else deficit[other]
        found.append(OpponentRecord(other, record, score_of(record), expected[other], lacking))
    return tuple(sorted(found, key=lambda one: (-one.record.votes, one.model)))


def prompt_records(standing: Standing, model: int) -> tuple[tuple[int, VoteRecord], ...]:
    """The model's record on each prompt on which it has votes, those with most first; then by number."""
    tally = standing.cells.tally[model]
    found = [
        (prompt, VoteRecord(*tally[prompt].tolist())) for prompt in np.flatnonzero(tally.any(axis=1)).tolist()
    ]
    return tuple(sorted(found, key=lambda each: (-each[1].votes, each[0])))


def score_of(record: VoteRecord) -> float | None:
    """Mean result of the votes that rate skill: a win counts 1, a tie ½, a loss 0."""
    return (record.wins + record.ties / 2.0) / record.rated if record.rated else None


@dataclass(frozen=True, slots=True)
class Heatmap:
    """Prompts down, opponents across, those with the largest deficits first.

    A cell's deficit is the mean of its prompt's and its opponent's, 0 to 1; ``None`` where the two
    models cannot meet. ``votes`` are those of any kind that the two have on the prompt.
    """

    model: int
    prompts: tuple[int, ...]
    opponents: tuple[int, ...]
    prompt_deficit: tuple[float, ...]
    opponent_deficit: tuple[float, ...]
    deficit: tuple[tuple[float | None, ...], ...]
    votes: tuple[tuple[int, ...], ...]
    #: What did not fit.
    prompts_left_out: int
    opponents_left_out: int


def coverage_heatmap(
    standing: Standing, model: int, *, most_prompts: int = 50, most_opponents: int = 30
) -> Heatmap:
    """Eligible prompts and enabled opponents of this model, at most so many of each."""
    by_prompt, by_opponent = prompt_deficits(standing, model), opponent_deficits(standing, model)
    prompts, opponents = _largest(by_prompt, most_prompts), _largest(by_opponent, most_opponents)
    rows, columns = by_prompt[prompts], by_opponent[opponents]
    meets = standing.cells.answered[np.ix_(opponents, prompts)].T
    mean = (rows[:, None] + columns[None, :]) / 2.0
    return Heatmap(
        model,
        tuple(prompts.tolist()),
        tuple(opponents.tolist()),
        tuple(rows.tolist()),
        tuple(columns.tolist()),
        tuple(
            tuple(value if met else None for value, met in zip(line, can, strict=True))
            for line, can in zip(mean.tolist(), meets.tolist(), strict=True)
        ),
        tuple(tuple(line) for line in _votes(standing, model, prompts, opponents).tolist()),
        int((~np.isnan(by_prompt)).sum()) - len(prompts),
        int((~np.isnan(by_opponent)).sum()) - len(opponents),
    )


def prompt_deficits(standing: Standing, model: int) -> Floats:
    """Share of its floor that each prompt lacks; 0 once exhausted, NaN where not eligible.

    The floor is the contender band's for a model in it.
    """
    cells = standing.cells
    floor = int(cells.floor[model])
    decisive = cells.tally[model, :, WIN] + cells.tally[model, :, LOSS]
    lacking = np.where(cells.short[model], np.maximum(floor - decisive, 0) / floor, 0.0)
    return np.where(cells.eligible[model], lacking, np.nan)


def opponent_deficits(standing: Standing, model: int) -> Floats:
    """Share of its floor that the pair with each enabled model lacks; NaN for others and for itself.

    A neighbour in rank needs the floor of adjacent pairs, unless the pair is indistinguishable so
    far; anybody else ``policy.pair_floor`` decisive votes.
    """
    floor = standing.policy.pair_floor
    lacking = np.maximum(floor - standing.meetings.decisive[model], 0) / floor
    for other in neighbours_of(standing, model):
        if other is not None:
            adjacent = floor_of(standing, model, other)
            lacking[other] = 0.0 if adjacent.indistinguishable else 1.0 - pair_coverage(adjacent)
    deficit = np.where(standing.enabled, lacking, np.nan)
    deficit[model] = np.nan
    return np.asarray(deficit)


def _largest(deficit: Floats, most: int) -> Ints:
    """Where deficits are largest, codes breaking ties; what is not known is left out."""
    known = np.flatnonzero(~np.isnan(deficit))
    return known[np.argsort(-deficit[known], kind="stable")][:most]


def _votes(standing: Standing, model: int, prompts: Ints, opponents: Ints) -> Ints:
    place = np.full(len(standing.prompts), -1)
    place[prompts] = np.arange(len(prompts))
    votes = np.zeros((len(prompts), len(opponents)), dtype=np.int64)
    for column, other in enumerate(opponents.tolist()):
        cells = standing.meetings.cells(model, other)
        if cells is not None:
            met, attempts = cells.attempts()
            rows = place[met.astype(np.int64)]
            votes[rows[rows >= 0], column] = attempts[rows >= 0]
    return votes
