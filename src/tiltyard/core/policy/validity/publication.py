"""Publication: when a board may be called officially stable.

Three rules speak of the first k = min(``policy.published_top``, M) models; an arena of fewer than
two models has nothing to publish, and none of them holds. What is missing is counted in votes of the
whole arena at its present mix of lanes.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.pair_floors import PairFloor, adjacent_floors, votes_to_floor
from tiltyard.core.policy.validity.prompt_coverage import count_lacking_cells, decisive_votes_to_mean
from tiltyard.core.policy.validity.rules import FREE_PROMPTS_CASE, Rule, check_rule
from tiltyard.core.policy.validity.vote_forecast import (
    adjacent_rate,
    decisive_share,
    exposure_rate,
    short_prompt_rate,
    votes_to_gain,
    votes_to_rd,
)
from tiltyard.core.ratings.sentences import Values, first_of

Ints = npt.NDArray[np.int64]


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


def top_pairs_rule(standing: Standing) -> Rule:
    """Neighbours at the top must have met, or their order is hearsay from other opponents.

    Missing: direct votes of the pairs that lack fewest, over the share of the arena's votes that
    goes to adjacent pairs of the top (`pace.adjacent_rate`).
    """
    policy, top = standing.policy, _top(standing)
    values = {
        "top": policy.published_top,
        "share": policy.published_pairs,
        "votes": policy.adjacent_votes,
        "prompts": policy.adjacent_prompts,
        **_case(standing),
    }
    if len(top) < 2:
        return _nobody("top-pairs", values, policy.published_pairs)
    floors = adjacent_floors(standing, len(top))
    bar = pairs_needed(len(top), policy.published_pairs)
    met = sum(floor.met for floor in floors)
    overall = decisive_share(standing)
    cheapest = sorted(votes_to_floor(floor, overall) for floor in floors if not floor.met)
    missing = votes_to_gain(math.fsum(cheapest[: max(bar - met, 0)]), adjacent_rate(standing, top))
    return check_rule("top-pairs", values, met, bar, missing=missing, detail=_short(standing, floors))


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
    short = [{"model": standing.models[k], "coverage": share} for k, share in _below(top, coverage, bar)]
    below = {"short": len(short), "all": len(top), **first_of("models", short)}
    return check_rule(
        "top-coverage",
        values,
        mean,
        bar,
        missing=0.0 if mean >= bar else _votes_to_mean_coverage(standing, top, coverage),
        detail=below if short else None,
    )


def _top(standing: Standing) -> Ints:
    return standing.order[: standing.policy.published_top]


def _case(standing: Standing) -> Values:
    return FREE_PROMPTS_CASE if standing.policy.free_prompts else {}


def _nothing_shared(standing: Standing) -> str:
    return "no-category" if standing.policy.free_prompts else "no-prompt"


def _nobody(name: str, values: Values, bar: float, *, at_most: bool = False) -> Rule:
    return check_rule(name, values, None, bar, at_most=at_most, missing=None, detail={"case": "too-few"})


def _below(top: Ints, coverage: npt.NDArray[np.float64], bar: float) -> list[tuple[int, float]]:
    return [(k, share) for k, share in zip(top.tolist(), coverage.tolist(), strict=True) if share < bar]


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


def _short(standing: Standing, floors: tuple[PairFloor, ...]) -> Values | None:
    short = [_lacking(standing, floor) for floor in floors if not floor.met]
    counts = {"short": len(short), "all": len(floors)}
    return {**counts, **first_of("pairs", short, most=3)} if short else None


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
