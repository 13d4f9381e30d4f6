"""The board of an arena: rows with badges, whether the whole is official, and how many votes would change first place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tiltyard.core.board.cross_check import BatchRatings, CrossCheck, cross_check, votes_table
from tiltyard.core.board.settled_order import (
    SETTLING_PROMPT_COUNT,
    Claims,
    Scope,
    Settled,
    claims_of,
    settled_orders,
    withdrawn_orders,
)
from tiltyard.core.policy.state.rating_fold import Rater
from tiltyard.core.policy.state.standing import NEVER_ARRIVED_VOTES, Standing
from tiltyard.core.policy.validity.consistency import consistency_scores
from tiltyard.core.policy.validity.model_record import (
    BothBadQuality,
    RecentForm,
    VoteRecord,
    average_score,
    model_quality,
    prompt_result_spread,
    quality_findings,
    recent_form,
    vote_record,
)
from tiltyard.core.policy.validity.pair_floors import pair_coverage_score
from tiltyard.core.policy.validity.prompt_coverage import ModelCoverage, band_top_coverage, coverage_of
from tiltyard.core.policy.validity.publication import Badge, EvaluationHistory, badge_of, publication_rules
from tiltyard.core.policy.validity.rules import Rule, float_or_none
from tiltyard.core.policy.validity.serving_fairness import ServingFairness, measure_serving, serving_findings
from tiltyard.core.ratings import BradleyTerry, Finding, newton
from tiltyard.core.ratings.pairs import PairScores, comparable_groups, score_pairs
from tiltyard.core.ratings.sentences import first_of
from tiltyard.errors import BadOption
from tiltyard.foundation.arrays import Bools, Floats, Ints

#: What orders the board, once the arena ranks by the policy at all.
Order = Literal["conservative", "bradley-terry"]
#: What orders the board as it is shown: ``legacy-elo`` in the phases that keep the old ranking.
ShownOrder = Literal["conservative", "bradley-terry", "legacy-elo"]
Status = Literal["official", "calibrating"]
#: More votes than this are not counted one by one.
FIRST_PLACE_VOTE_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class ArenaRow:
    """One model. What the votes do not support is ``None``, never a number.

    In phase 1 everything that the ranking policy adds is ``None`` too, or empty.
    """

    #: Place on the board, 1 first; ``None`` for a model that is retired or has no score, and on a board without votes.
    rank: int | None
    model: str
    #: Whether it may be served; if not, it is retired.
    enabled: bool
    record: VoteRecord
    form: RecentForm
    consistency: float | None
    spread: float | None
    average_score: float | None
    legacy_elo: float | None

    #: Rating − 2·RD, and the two it is made of. RD is bookkeeping, not an interval.
    conservative: float | None = None
    rating: float | None = None
    rd: float | None = None
    volatility: float | None = None
    coverage: ModelCoverage | None = None
    pair_coverage: float | None = None
    quality: BothBadQuality | None = None
    #: Conservative score against that of an evaluation's length ago.
    delta: float | None = None
    #: ``None`` for a retired model.
    badge: Badge | None = None
    #: Rules that hold up the next badge.
    waiting: tuple[Rule, ...] = ()
    #: Votes that were cast before it could first be served; ``None`` if it never could. What it may claim depends on it.
    arrived: int | None = None
    #: Ranks that the votes do not rule out, and its tier: every model of a tier is settled above every one of the next.
    rank_low: int | None = None
    rank_high: int | None = None
    tier: int | None = None
    #: In which scopes its place above the next row is settled, by all votes.
    settled: tuple[Scope, ...] = ()
    #: Batch rating, where batch ratings were given.
    bradley_terry: float | None = None
    #: Whether enough was seen of it and of the board: the board is official, and the model more than provisional.
    official: bool = False

    @property
    def votes(self) -> int:
        """Votes of any kind."""
        return self.record.votes

    @property
    def both_bad(self) -> int:
        return self.record.both_bad

    @property
    def confidence(self) -> float | None:
        """What uncertainty takes off the rating, in points: 2·RD."""
        return None if self.rd is None else 2.0 * self.rd

    def score(self, order: ShownOrder) -> float | None:
        """The number by which a board of this order ranks it."""
        if order == "conservative":
            return self.conservative
        return self.bradley_terry if order == "bradley-terry" else self.legacy_elo


@dataclass(frozen=True, slots=True)
class FirstPlaceMargin:
    """How many more votes for the second model against the first would change first place."""

    first: str
    second: str
    #: ``None`` if ``limit`` votes are not enough.
    votes: int | None
    limit: int


@dataclass(frozen=True, slots=True)
class ArenaBoard:
    """Ranked rows, then models without a score, then retired ones; and the rules behind the status.

    What the ranking policy adds is ``None`` or empty in phase 1, where it is computed unseen.
    """

    rows: tuple[ArenaRow, ...]
    order: ShownOrder
    phase: int
    status: Status | None
    #: Votes at which the board became official; ``None`` if it is not.
    official_since: int | None
    #: The publication rules now; the status rests on several evaluations in a row as well.
    rules: tuple[Rule, ...]
    votes: int
    #: Share of the contender band's prompts at its own, higher floor.
    band_coverage: float | None
    #: Fairness of exposures and the mix of lanes.
    serving: ServingFairness | None
    #: Batch Bradley–Terry beside the order shown, where batch ratings were given.
    cross_check: CrossCheck | None
    findings: tuple[Finding, ...]
    #: What is settled about the order, in one sentence; where batch ratings were given.
    settled: Finding | None
    #: How many votes would change first place; ``None`` with fewer than two ranked models.
    first_place: FirstPlaceMargin | None


@dataclass(frozen=True, slots=True)
class _Given:
    standing: Standing
    history: EvaluationHistory
    legacy_elo: Floats | None
    volatility: Floats | None
    batch: BatchRatings | None
    #: The number of pairs of the largest roster that is planned.
    family: int | None
    #: Which model is settled above which, in each scope; empty without batch ratings.
    settled: Settled

    @property
    def seen(self) -> bool:
        """Whether what the policy computes is shown."""
        return self.standing.policy.phase > 1


def make_arena_board(
    standing: Standing,
    history: EvaluationHistory,
    *,
    order: Order = "conservative",
    legacy_elo: Floats | None = None,
    volatility: Floats | None = None,
    batch: BatchRatings | None = None,
    family: int | None = None,
) -> ArenaBoard:
    """The board now, in the phase that the arena's policy names.

    1 ranks by legacy Elo and shows nothing new. 2 still ranks by legacy Elo, with the policy's
    diagnostics beside. 3 ranks by ``order`` and keeps Elo as a secondary field. 4 looks the same: the
    weekly report that it adds is scheduled by whoever runs the arena.

    ``legacy_elo`` and ``volatility`` are by the codes of the standing. ``family`` is the number of pairs of the largest roster that is
    planned.
    """
    settled = {} if batch is None else settled_orders(standing, batch, family=family)
    given = _Given(standing, history, legacy_elo, volatility, batch, family, settled)
    _check(given, order)
    shown, score = _ranking(given, order)
    ranked = _ranked(standing.enabled & ~np.isnan(score), score)
    pairs = math.comb(len(standing.models), 2)
    outgrown = family is not None and family < pairs
    board = ArenaBoard(
        rows=(),
        order=shown,
        phase=standing.policy.phase,
        status=None,
        official_since=None,
        rules=(),
        votes=standing.votes,
        band_coverage=None,
        serving=None,
        cross_check=None,
        findings=(Finding("family-outgrown", {"planned": family, "pairs": pairs}),) if outgrown else (),
        settled=None,
        first_place=None,
    )
    claims = claims_of(ranked, settled, standing.votes, standing.models) if settled and given.seen else None
    board = _with_policy(board, given, ranked, claims) if given.seen else board
    return replace(board, rows=_rows(given, ranked, score, claims, official=board.status == "official"))


def _about_days(given: _Given) -> Finding | None:
    """What the days on which voters came do to what is settled."""
    batch = given.batch
    if batch is None or batch.least_days is None:
        return None
    if 0 < batch.days < batch.least_days:
        return Finding("few-days", {"days": batch.days, "least": batch.least_days})
    return Finding("days-differ", {"days": batch.days}) if batch.across_days else None


def _few_prompts(standing: Standing, claims: Claims | None) -> Finding | None:
    """How many more prompts would settle more, where an order is still open."""
    prompts = int(np.count_nonzero(standing.cells.n_playing > 1))
    settled = claims is not None and claims.sentence.values["case"] in ("everything", "too-few")
    closed = claims is None or settled or standing.policy.free_prompts or not standing.votes
    if closed or not 0 < prompts < SETTLING_PROMPT_COUNT:
        return None
    case = {"case": "one"} if prompts == 1 else {}
    return Finding(
        "few-prompts-to-settle", {"prompts": prompts, "more": SETTLING_PROMPT_COUNT - prompts, **case}
    )


def _withdrawn(given: _Given) -> Finding | None:
    """What was settled at one of the last evaluations and is not any more."""
    standing, batch = given.standing, given.batch
    if batch is None:
        return None
    evaluated = [replace(one.batch, least_days=batch.least_days) for one in batch.evaluated]
    before = [settled_orders(standing, one, family=given.family) for one in evaluated]
    gone = withdrawn_orders(given.settled, before, standing.enabled)
    pairs = [{"above": standing.models[above], "below": standing.models[below]} for above, below in gone]
    return Finding("order-withdrawn", first_of("pairs", pairs)) if pairs else None


def _check(given: _Given, order: str) -> None:
    m = len(given.standing.models)
    if order not in ("conservative", "bradley-terry"):
        raise BadOption(f"order is {order!r}; expected conservative or bradley-terry")
    by_model = {"legacy_elo": given.legacy_elo, "batch": None if given.batch is None else given.batch.rating}
    for name, ratings in by_model.items():
        if ratings is not None and ratings.shape != (m,):
            raise BadOption(f"{name} has shape {ratings.shape}; expected one rating for each of {m} models")


def _ranking(given: _Given, order: Order) -> tuple[ShownOrder, Floats]:
    """The name of the order that this phase shows, and its scores."""
    phase = given.standing.policy.phase
    if phase <= 2:
        if given.legacy_elo is None:
            raise BadOption(f"phase {phase} ranks by legacy Elo; pass legacy_elo")
        return "legacy-elo", given.legacy_elo
    if order == "bradley-terry":
        if given.batch is None:
            raise BadOption("the order is bradley-terry; pass batch")
        return order, given.batch.score
    return order, given.standing.strengths.conservative()


def _ranked(among: Bools, score: Floats) -> Ints:
    """Codes of these models, highest score first, those without one last; codes break ties."""
    codes = np.flatnonzero(among)
    return codes[np.argsort(np.where(np.isnan(score), np.inf, -score)[codes], kind="stable")]


def _with_policy(board: ArenaBoard, given: _Given, ranked: Ints, claims: Claims | None) -> ArenaBoard:
    """All that the policy has to say of the board as a whole."""
    standing, history, policy = given.standing, given.history, given.standing.policy
    rules, serving = publication_rules(standing), measure_serving(standing)
    check = None
    if given.batch is not None:
        batch = given.batch
        if board.order != "conservative":
            # Evaluations keep the conservative order only: the one that is shown is compared with their ratings.
            batch = replace(batch, evaluated=tuple(replace(one, order=ranked) for one in batch.evaluated))
        check = cross_check(standing, batch, ranked)
    official = history.official and standing.n_enabled >= 2 and all(rule.holds for rule in rules)
    alarm = None if check is None else check.alarm
    # The rules looked at the conservative order: another top has not earned their word.
    top = standing.order[: policy.published_top]
    withheld = None
    if official and not np.array_equal(ranked[: policy.published_top], top):
        withheld = Finding(
            "official-withheld", first_of("models", [standing.models[k] for k in top.tolist()])
        )
    held = Finding("official-held") if official and alarm is not None else None
    following = None
    if not official and all(rule.holds for rule in rules):
        left, votes = history.until_official(standing)
        case = {"case": "one"} if left == 1 else {}
        following = Finding("official-next", {"evaluations": left, "votes": votes, **case})
    official = official and withheld is None and held is None
    alarms = (
        withheld,
        held,
        following,
        _few_prompts(standing, claims),
        alarm,
        _withdrawn(given),
        _about_days(given),
    )
    return replace(
        board,
        status="official" if official else "calibrating",
        official_since=history.official_since() if official else None,
        rules=rules,
        band_coverage=band_top_coverage(standing),
        serving=serving,
        cross_check=check,
        findings=(
            *quality_findings(standing),
            *serving_findings(serving, standing.n_enabled),
            *(one for one in alarms if one is not None),
            *board.findings,
        ),
        settled=None if claims is None else claims.sentence,
    )


def _rows(
    given: _Given, ranked: Ints, score: Floats, claims: Claims | None, *, official: bool
) -> tuple[ArenaRow, ...]:
    """Badges and neighbours are those by conservative score, whatever the order."""
    standing = given.standing
    steady = consistency_scores(standing)
    unranked = _ranked(standing.enabled & np.isnan(score), score)
    retired = _ranked(~standing.enabled, score)
    places = [*ranked.tolist(), *unranked.tolist(), *retired.tolist()]
    n_ranked = len(ranked) if standing.votes else 0
    rows: list[ArenaRow] = []
    for n, model in enumerate(places):
        row = _row(given, model, n + 1 if n < n_ranked else None, steady[model])
        if given.seen:
            row = _row_with_policy(row, given, model, official=official)
        if claims is not None and n < n_ranked:
            row = replace(
                row,
                rank_low=claims.rank_low[n],
                rank_high=claims.rank_high[n],
                tier=claims.tier[n],
                settled=claims.above_next[n],
            )
        rows.append(row)
    return tuple(rows)


def _row(given: _Given, model: int, rank: int | None, consistency: float | None) -> ArenaRow:
    """What a board showed before there was a policy."""
    standing, elo = given.standing, given.legacy_elo
    return ArenaRow(
        rank=rank,
        model=standing.models[model],
        enabled=bool(standing.enabled[model]),
        record=vote_record(standing, model),
        form=recent_form(standing, model),
        consistency=consistency,
        spread=prompt_result_spread(standing, model),
        average_score=average_score(standing, model),
        legacy_elo=None if elo is None else float_or_none(elo[model]),
    )


def _row_with_policy(row: ArenaRow, given: _Given, model: int, *, official: bool) -> ArenaRow:
    standing = given.standing
    rating, rd = float(standing.strengths.rating[model]), float(standing.strengths.rd[model])
    card = badge_of(standing, model) if row.enabled else None
    return replace(
        row,
        conservative=rating - 2.0 * rd,
        rating=rating,
        rd=rd,
        volatility=None if given.volatility is None else float_or_none(given.volatility[model]),
        coverage=coverage_of(standing, model),
        pair_coverage=pair_coverage_score(standing, model),
        quality=model_quality(standing, model),
        delta=given.history.recent_delta(model, standing),
        badge=None if card is None else card.badge,
        waiting=() if card is None else card.waiting,
        arrived=None if standing.arrived[model] == NEVER_ARRIVED_VOTES else int(standing.arrived[model]),
        bradley_terry=None if given.batch is None else float_or_none(given.batch.rating[model]),
        official=official
        and row.rank is not None
        and card is not None
        and card.badge is not Badge.PROVISIONAL,
    )


def with_first_place(board: ArenaBoard, standing: Standing, rater: Rater, method: BradleyTerry) -> ArenaBoard:
    """The board with the number of votes that would change its first place, where it has two ranked models.

    Each vote is one more win of the second model over the first, counted by what orders the board. Who wants to change
    the order needs about so many votes that count.
    """
    first_two = [row.model for row in board.rows if row.rank in (1, 2)]
    if len(first_two) < 2:
        return board
    first, second = first_two
    ahead, behind = standing.models.index(first), standing.models.index(second)
    if board.order == "bradley-terry":
        votes = _by_bradley_terry(standing, method, ahead, behind)
    else:
        votes = rater.votes_to_pass(
            behind, ahead, elo=board.order == "legacy-elo", limit=FIRST_PLACE_VOTE_LIMIT
        )
    return replace(board, first_place=FirstPlaceMargin(first, second, votes, FIRST_PLACE_VOTE_LIMIT))


def _by_bradley_terry(standing: Standing, method: BradleyTerry, ahead: int, behind: int) -> int | None:
    """The fewest votes after which a fit of all votes at once puts the second model first, by bisection."""
    table = method.limited(votes_table(standing)).table
    names = table.models
    pairs = score_pairs(table.counts, len(names), method.scoring())
    members = np.flatnonzero(comparable_groups(pairs, prior=False) == 0)
    first, second = (
        int(np.searchsorted(members, names.index(standing.models[model]))) for model in (ahead, behind)
    )
    among = pairs.among(members)

    def passes(votes: int) -> bool:
        theta = newton.fit_pairs(_with_wins(among, second, first, votes), bread=False).theta
        return bool(theta[second] > theta[first])

    high = 1
    while not passes(high):
        if high == FIRST_PLACE_VOTE_LIMIT:
            return None
        high = min(2 * high, FIRST_PLACE_VOTE_LIMIT)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


def _with_wins(pairs: PairScores, winner: int, loser: int, votes: int) -> PairScores:
    """The same with more wins of one model over another."""
    i, j = min(winner, loser), max(winner, loser)
    won = float(votes) if winner == i else 0.0
    found = np.flatnonzero((pairs.i == i) & (pairs.j == j))
    if not len(found):
        # The same with a pair that has not met, in its place.
        at = int(np.searchsorted(pairs.i * pairs.n_models + pairs.j, i * pairs.n_models + j))
        pairs = PairScores(
            pairs.n_models,
            np.insert(pairs.i, at, i),
            np.insert(pairs.j, at, j),
            *(np.insert(values, at, 0.0) for values in (pairs.weight, pairs.score, pairs.tie)),
        )
        found = np.flatnonzero((pairs.i == i) & (pairs.j == j))
    weight, score = pairs.weight.copy(), pairs.score.copy()
    weight[found] += votes
    score[found] += won
    return replace(pairs, weight=weight, score=score)


@dataclass(frozen=True, slots=True)
class CrowdChange:
    """A change that no operator has explained yet: of a model, in a group of votes (`VOTE_GROUPS`)."""

    model: str
    group: str


def with_crowd_changes(board: ArenaBoard, changes: Sequence[CrowdChange]) -> ArenaBoard:
    """The board with these changes stated. It has none of the votes that made them."""
    if not changes or board.status is None:
        return board
    said = [{"case": change.group, "model": change.model} for change in changes]
    return replace(board, findings=(Finding("crowd-changed", first_of("changes", said)), *board.findings))
