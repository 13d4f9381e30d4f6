"""Badges of models, and when a board may be called officially stable.

A model is *provisional* until it is *established* (enough decisive votes, coverage and a small
enough RD), and *stable* once its RD and coverage are better still and it has met both neighbours
in rank often enough. What is missing is counted in votes of this model.

Three rules of publication speak of the first k = min(``policy.published_top``, M) models; an arena of fewer than two
models has nothing to publish, and none of them holds. What is missing is counted in votes of the whole arena at its
present mix of lanes.

They are looked at every ``policy.evaluated_every`` votes, in a small arena more often; a board is official once they
have held ``policy.evaluations`` times in a row.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.prompt_cells import LOSS
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.pair_floors import (
    PairFloor,
    adjacent_floors,
    floor_of,
    neighbours_of,
    votes_to_floor,
)
from tiltyard.core.policy.validity.prompt_coverage import (
    count_lacking_cells,
    decisive_votes_to_mean,
    votes_to_coverage,
)
from tiltyard.core.policy.validity.rules import (
    FREE_PROMPTS_CASE,
    Rule,
    adjacent_rate,
    check_rule,
    decisive_share,
    exposure_rate,
    pair_decisive_share,
    short_prompt_rate,
    votes_to_gain,
    votes_to_rd,
)
from tiltyard.core.ratings.sentences import Values, first_of
from tiltyard.foundation.arrays import Floats, Ints

#: In a small arena there is an evaluation for each such share of what it can collect, but not after fewer votes than this.
_SMALL_ARENA_SHARE = 0.1
_LEAST_INTERVAL_VOTES = 25


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """What was known after so many votes. Arrays are by the codes of that moment."""

    votes: int
    #: Seconds since 1970, or 0 where nobody asked.
    time: int
    #: Enabled models by conservative score, best first.
    order: Ints
    rating: Floats
    rd: Floats
    #: Strict prompt coverage; NaN for a model without an eligible prompt.
    coverage: Floats
    #: The publication rules, and whether all of them held.
    rules: tuple[Rule, ...]
    holds: bool

    def conservative(self, model: int) -> float | None:
        """The model's conservative score; ``None`` if it was not enabled then."""
        if not (self.order == model).any():
            return None
        return float(self.rating[model] - 2.0 * self.rd[model])


@dataclass(frozen=True, slots=True)
class ConfidencePoint:
    """One row of a model's confidence history."""

    votes: int
    time: int
    rating: float
    rd: float
    conservative: float
    #: ``None`` on boards of versions that did not say it.
    volatility: float | None = None


@dataclass(frozen=True, slots=True)
class EvaluationHistory:
    """Evaluations of one arena, oldest first. ``in_a_row`` of them must hold for an official board."""

    evaluations: tuple[Evaluation, ...] = ()
    in_a_row: int = 3
    #: Votes after which the rules are looked at next (`look`).
    next_votes: int = _LEAST_INTERVAL_VOTES

    @classmethod
    def under(cls, policy: Policy) -> EvaluationHistory:
        """Nothing evaluated yet, under this policy."""
        return cls((), policy.evaluations, min(policy.evaluated_every, _LEAST_INTERVAL_VOTES))

    def after(self, evaluation: Evaluation) -> EvaluationHistory:
        """With one more evaluation."""
        return replace(self, evaluations=(*self.evaluations, evaluation))

    def until_official(self, now: Standing) -> tuple[int, int]:
        """Evaluations that must still hold for an official board, and after how many votes from now the last of them is."""
        left = max(self.in_a_row - self._run(), 1)
        return left, self.next_votes - now.votes + (left - 1) * votes_between_evaluations(now)

    @property
    def official(self) -> bool:
        """Whether the board is officially stable now; if not, it is calibrating."""
        return self._run() >= self.in_a_row

    def official_since(self) -> int | None:
        """Votes at which the present official stretch began (its last evaluation that was needed)."""
        run = self._run()
        return self.evaluations[self.in_a_row - 1 - run].votes if run >= self.in_a_row else None

    def first_official(self) -> int | None:
        """Votes at which the board first became official, whatever came after."""
        run = 0
        for evaluation in self.evaluations:
            run = run + 1 if evaluation.holds else 0
            if run == self.in_a_row:
                return evaluation.votes
        return None

    def recent_delta(self, model: int, now: Standing) -> float | None:
        """Conservative score now against that of the last evaluation at least ``policy.evaluated_every`` votes ago."""
        score = float(now.strengths.conservative()[model]) if now.enabled[model] else None
        for before in reversed(self.evaluations):
            if before.votes <= now.votes - now.policy.evaluated_every:
                was = before.conservative(model)
                return None if score is None or was is None else score - was
        return None

    def _run(self) -> int:
        """How many of the last evaluations held, without a gap."""
        run = 0
        for evaluation in reversed(self.evaluations):
            if not evaluation.holds:
                break
            run += 1
        return run


def votes_between_evaluations(standing: Standing) -> int:
    """``policy.evaluated_every``, or a tenth of what a small arena can collect; doubled whenever it has ten times as many.

    ===============================  ======
    3 models, 6 prompts, 100 votes   25
    … 300 votes                      50
    3 models, 20 prompts, 100 votes  72
    20 models, 100 prompts           250
    ===============================  ======
    """
    most = standing.policy.evaluated_every
    every = max(_LEAST_INTERVAL_VOTES, int(min(_SMALL_ARENA_SHARE * standing.collectable_votes, most)))
    while every < most and standing.votes * _SMALL_ARENA_SHARE >= every:
        every *= 2
    return min(every, most)


def look(standing: Standing, history: EvaluationHistory, *, time: int = 0) -> EvaluationHistory:
    """What follows after ``history.next_votes``: an evaluation, unless the arena has turned out to be larger, and the next."""
    every = votes_between_evaluations(standing)
    if history.evaluations or standing.votes % every == 0:
        history = history.after(evaluate(standing, time=time))
    return replace(history, next_votes=(standing.votes // every + 1) * every)


def evaluate(standing: Standing, *, time: int = 0) -> Evaluation:
    """Look at the rules of publication now."""
    rules = publication_rules(standing)
    return Evaluation(
        votes=standing.votes,
        time=time,
        order=standing.order.copy(),
        rating=standing.strengths.rating.copy(),
        rd=standing.strengths.rd.copy(),
        coverage=standing.cells.coverage(),
        rules=rules,
        holds=all(rule.holds for rule in rules),
    )


class Badge(enum.StrEnum):
    """From least to most settled."""

    PROVISIONAL = "provisional"
    ESTABLISHED = "established"
    STABLE = "stable"


@dataclass(frozen=True, slots=True)
class BadgeCard:
    """A badge with the rules behind it."""

    model: int
    badge: Badge
    established: tuple[Rule, ...]
    stable: tuple[Rule, ...]

    @property
    def waiting(self) -> tuple[Rule, ...]:
        """Rules that hold up the next badge; none for a stable model."""
        rules = self.established if self.badge is Badge.PROVISIONAL else self.stable
        return tuple(rule for rule in rules if not rule.holds)


def badge_of(standing: Standing, model: int) -> BadgeCard:
    """The model's badge now."""
    established, stable = established_rules(standing, model), stable_rules(standing, model)
    return BadgeCard(model, badge_from_rules(established, stable), established, stable)


def badge_from_rules(established: tuple[Rule, ...], stable: tuple[Rule, ...]) -> Badge:
    """The badge that these rules give: the later ones count only when the earlier ones hold."""
    if not all(rule.holds for rule in established):
        return Badge.PROVISIONAL
    return Badge.STABLE if all(rule.holds for rule in stable) else Badge.ESTABLISHED


def established_rules(standing: Standing, model: int) -> tuple[Rule, ...]:
    """What makes a provisional model established."""
    policy = standing.policy
    return (
        _decisive_rule(standing, model),
        _coverage_rule(standing, model, "established-coverage", policy.established_coverage),
        _rd_rule(standing, model, "established-rd", policy.established_rd),
    )


def stable_rules(standing: Standing, model: int) -> tuple[Rule, ...]:
    """What makes an established model stable."""
    policy = standing.policy
    return (
        _coverage_rule(standing, model, "stable-coverage", policy.stable_coverage),
        _rd_rule(standing, model, "stable-rd", policy.stable_rd),
        _neighbours_rule(standing, model),
    )


def _decisive_rule(standing: Standing, model: int) -> Rule:
    """Too few votes, and a rating is an accident. Missing: decisive votes over the model's decisive share."""
    bar = standing.policy.established_votes
    decisive, votes = int(standing.record[model, : LOSS + 1].sum()), int(standing.record[model].sum())
    share = pair_decisive_share(decisive, votes, decisive_share(standing))
    return check_rule(
        "decisive-votes",
        {"bar": bar},
        decisive,
        bar,
        missing=votes_to_gain(max(bar - decisive, 0), share),
        detail={"decisive": decisive, "votes": votes},
    )


def _coverage_rule(standing: Standing, model: int, name: str, bar: float) -> Rule:
    """A model seen on some prompts only may owe its place to them."""
    filled, eligible = int(standing.cells.n_filled[model]), int(standing.cells.n_eligible[model])
    exhausted = int(standing.cells.n_exhausted[model])
    case = FREE_PROMPTS_CASE if standing.policy.free_prompts else {}
    return check_rule(
        name,
        {"bar": bar, **case},
        filled / eligible if eligible else None,
        bar,
        missing=votes_to_coverage(standing, model, bar),
        detail={"filled": filled, "eligible": eligible, "exhausted": exhausted, **case},
    )


def _rd_rule(standing: Standing, model: int, name: str, bar: float) -> Rule:
    """RD is the policy's bookkeeping of uncertainty; a large one says that the rating is still a guess."""
    rd = float(standing.strengths.rd[model])
    missing = float(votes_to_rd(standing, np.array([model]), bar)[0])
    return check_rule(name, {"bar": bar}, rd, bar, at_most=True, missing=missing, detail={"rd": rd})


def _neighbours_rule(standing: Standing, model: int) -> Rule:
    """A place is a claim about the neighbours: both must have been met often enough.

    A model at an end has one neighbour, and one that stands alone or is retired has none and
    cannot be stable. Missing: direct votes with each neighbour that is short.
    """
    around = [other for other in neighbours_of(standing, model) if other is not None]
    floors = [floor_of(standing, model, other) for other in around]
    overall = decisive_share(standing)
    short = tuple(
        {"model": standing.models[floor.below], "votes": floor.votes} for floor in floors if not floor.met
    )
    return check_rule(
        "neighbour-floors",
        {},
        sum(floor.met for floor in floors) if floors else None,
        max(len(floors), 1),
        missing=sum(votes_to_floor(floor, overall) for floor in floors) if floors else math.inf,
        detail={"neighbours": short} if short else None,
    )


def publication_rules(standing: Standing) -> tuple[Rule, ...]:
    """The three rules; a board is official when all have held at several evaluations in a row."""
    return top_rd_rule(standing), top_pairs_rule(standing), top_coverage_rule(standing)


def top_rd_rule(standing: Standing) -> Rule:
    """The middle of the top must be known well enough that its order means something.

    Missing: the votes until so many models have reached the bar that the median must have.
    """
    policy, top = standing.policy, _top(standing)
    bar = policy.published_rd
    values = {"top": policy.published_top, "bar": bar}
    if len(top) < 2:
        return _nobody("top-rd", values, bar, at_most=True)
    rd = standing.strengths.rd[top]
    rate = exposure_rate(standing)[top]
    needed = votes_to_rd(standing, top, bar)
    with np.errstate(divide="ignore", invalid="ignore"):
        arena = np.where(needed > 0.0, needed / rate, 0.0)
    missing = float(np.sort(arena)[len(top) // 2])
    above = [
        {"model": standing.models[k], "rd": float(standing.strengths.rd[k])} for k in top[rd > bar].tolist()
    ]
    detail = {"above": len(above), "all": len(top), **first_of("models", above)} if above else None
    return check_rule(
        "top-rd", values, float(np.median(rd)), bar, at_most=True, missing=missing, detail=detail
    )


def neighbouring_top(standing: Standing) -> Ints:
    """The first models that are not provisional, best first: those whose adjacent pairs a rule looks at.

    A newcomer would be a neighbour of two models that it has hardly met, and take the official status of the board away.
    """
    found: list[int] = []
    for model in standing.order.tolist():
        if len(found) < standing.policy.published_top and all(
            rule.holds for rule in established_rules(standing, model)
        ):
            found.append(model)
    return np.array(found, dtype=np.int64)


def top_pairs_rule(standing: Standing) -> Rule:
    """Neighbours at the top must have met, or their order is hearsay from other opponents.

    Provisional models are nobody's neighbours.

    Missing: direct votes of the pairs that lack fewest, over the share of the arena's votes that
    goes to adjacent pairs of the top (`pace.adjacent_rate`).
    """
    policy, top = standing.policy, neighbouring_top(standing)
    values = {
        "top": policy.published_top,
        "share": policy.published_pairs,
        "votes": policy.adjacent_votes,
        "prompts": policy.adjacent_prompts,
        **_case(standing),
    }
    if len(top) < 2:
        case = {"case": "provisional" if standing.n_enabled > 1 else "too-few"}
        missing = _votes_to_second_established(standing) if standing.n_enabled > 1 else None
        return check_rule("top-pairs", values, None, policy.published_pairs, missing=missing, detail=case)
    floors = adjacent_floors(standing, top)
    bar = pairs_needed(len(top), policy.published_pairs)
    met = sum(floor.met for floor in floors)
    overall = decisive_share(standing)
    cheapest = sorted(votes_to_floor(floor, overall) for floor in floors if not floor.met)
    missing = votes_to_gain(math.fsum(cheapest[: max(bar - met, 0)]), adjacent_rate(standing, top))
    short = [_lacking(standing, floor) for floor in floors if not floor.met]
    counts = {"short": len(short), "all": len(floors)}
    return check_rule(
        "top-pairs",
        values,
        met,
        bar,
        missing=missing,
        detail=({**counts, **first_of("pairs", short, most=3)} if short else None),
    )


def pairs_needed(top: int, share: float) -> int:
    """ceil(share · (top − 1)), whatever the share's last bit."""
    return math.ceil(share * (top - 1) - 1e-9)


def top_coverage_rule(standing: Standing) -> Rule:
    """The top must have been seen on nearly all prompts, or a place may be a prompt's luck.

    Missing: decisive votes lacking in the cells of the top that raise the mean most, over how many of
    them one vote of the arena brings: exposures of models that have such cells, decisive, on a prompt
    that is short.
    """
    policy, top = standing.policy, _top(standing)
    bar = policy.published_coverage
    values = {"top": policy.published_top, "bar": bar, **_case(standing)}
    if len(top) < 2:
        return _nobody("top-coverage", values, bar)
    coverage = standing.cells.coverage()[top]
    unseen = [standing.models[k] for k in top[np.isnan(coverage)].tolist()]
    if unseen:
        detail = {"case": _nothing_shared(standing), **first_of("models", unseen)}
        return check_rule("top-coverage", values, None, bar, missing=None, detail=detail)
    mean = _mean(coverage)
    short = [
        {"model": standing.models[k], "coverage": share}
        for k, share in zip(top.tolist(), coverage.tolist(), strict=True)
        if share < bar
    ]
    below = {"short": len(short), "all": len(top), **first_of("models", short)}
    return check_rule(
        "top-coverage",
        values,
        mean,
        bar,
        missing=0.0 if mean >= bar else _votes_to_mean_coverage(standing, top, coverage),
        detail=below if short else None,
    )


def _votes_to_second_established(standing: Standing) -> float:
    """Votes of the arena until two models are more than provisional."""
    rate = exposure_rate(standing)
    waiting = [
        max(math.inf if rule.missing is None else rule.missing for rule in established_rules(standing, model))
        / rate[model]
        for model in standing.order.tolist()
    ]
    return float(sorted(waiting)[1])


def _top(standing: Standing) -> Ints:
    return standing.order[: standing.policy.published_top]


def _case(standing: Standing) -> Values:
    return FREE_PROMPTS_CASE if standing.policy.free_prompts else {}


def _nothing_shared(standing: Standing) -> str:
    return "no-category" if standing.policy.free_prompts else "no-prompt"


def _nobody(name: str, values: Values, bar: float, *, at_most: bool = False) -> Rule:
    return check_rule(name, values, None, bar, at_most=at_most, missing=None, detail={"case": "too-few"})


def _votes_to_mean_coverage(standing: Standing, top: Ints, coverage: npt.NDArray[np.float64]) -> float:
    gap = standing.policy.published_coverage - _mean(coverage)
    lacking = np.stack([count_lacking_cells(standing, model) for model in top.tolist()])
    missing = decisive_votes_to_mean(lacking, standing.cells.n_eligible[top], gap)
    if math.isinf(missing):
        return missing
    short = lacking.any(axis=1)
    covered = _mean(coverage[short])
    after = covered + gap * len(top) / int(short.sum())
    each = math.fsum(exposure_rate(standing)[top[short]])
    return votes_to_gain(
        missing, each * decisive_share(standing) * short_prompt_rate(standing, covered, after)
    )


def _mean(values: npt.NDArray[np.float64]) -> float:
    """The mean by the exact sum, which no order of adding changes: evaluations are folded state."""
    return math.fsum(values) / len(values)


def _lacking(standing: Standing, floor: PairFloor) -> dict[str, object]:
    """A pair that has not met often enough, and what it lacks."""
    lacks = [
        what
        for have, need, what in (
            (floor.votes, floor.votes_needed, "votes"),
            (floor.prompts, floor.prompts_needed, "prompts"),
        )
        if have < need
    ]
    case = "-and-".join(lacks) + ("-indistinguishable" if floor.indistinguishable else "")
    return {
        "case": case if floor.prompts_needed else _nothing_shared(standing),
        "above": standing.models[floor.above],
        "below": standing.models[floor.below],
        "votes": floor.votes,
        "votes_needed": floor.votes_needed,
        "prompts": floor.prompts,
        "prompts_needed": floor.prompts_needed,
    }
