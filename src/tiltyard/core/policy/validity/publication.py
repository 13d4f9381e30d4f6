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
from tiltyard.core.policy.validity.rules import Rule, check_rule
from tiltyard.core.policy.validity.vote_forecast import (
    adjacent_rate,
    decisive_share,
    exposure_rate,
    short_prompt_rate,
    votes_to_gain,
    votes_to_rd,
)
from tiltyard.core.ratings.findings import join_names

__all__ = ["pairs_needed", "publication_rules", "top_coverage_rule", "top_pairs_rule", "top_rd_rule"]

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
    text = f"The median RD of the top {policy.published_top} is at most {bar:g}."
    if len(top) < 2:
        return _nobody("top-rd", text, bar, at_most=True)
    rd = standing.strengths.rd[top]
    rate = exposure_rate(standing)[top]
    needed = votes_to_rd(standing, top, bar)
    with np.errstate(divide="ignore", invalid="ignore"):
        arena = np.where(needed > 0.0, needed / rate, 0.0)
    missing = float(np.sort(arena)[len(top) // 2])
    above = [f"{standing.models[k]} {standing.strengths.rd[k]:.0f}" for k in top[rd > bar].tolist()]
    detail = f"{len(above)} of {len(top)} have a larger RD: {join_names(above)}" if above else ""
    return check_rule("top-rd", text, float(np.median(rd)), bar, at_most=True, missing=missing, detail=detail)


def top_pairs_rule(standing: Standing) -> Rule:
    """Neighbours at the top must have met, or their order is hearsay from other opponents.

    Missing: direct votes of the pairs that lack fewest, over the share of the arena's votes that
    goes to adjacent pairs of the top (`pace.adjacent_rate`).
    """
    policy, top = standing.policy, _top(standing)
    text = (
        f"Of the adjacent pairs of the top {policy.published_top}, {policy.published_pairs:.0%} have "
        f"{policy.adjacent_votes} decisive votes on {policy.adjacent_prompts} prompts, or on all that they share."
    )
    if len(top) < 2:
        return _nobody("top-pairs", text, policy.published_pairs)
    floors = adjacent_floors(standing, len(top))
    bar = pairs_needed(len(top), policy.published_pairs)
    met = sum(floor.met for floor in floors)
    overall = decisive_share(standing)
    cheapest = sorted(votes_to_floor(floor, overall) for floor in floors if not floor.met)
    missing = votes_to_gain(sum(cheapest[: max(bar - met, 0)]), adjacent_rate(standing, top))
    return check_rule("top-pairs", text, met, bar, missing=missing, detail=_short(standing, floors))


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
    text = f"The mean prompt coverage of the top {policy.published_top} is at least {bar:g}."
    if len(top) < 2:
        return _nobody("top-coverage", text, bar)
    coverage = standing.cells.coverage()[top]
    unseen = [standing.models[k] for k in top[np.isnan(coverage)].tolist()]
    if unseen:
        detail = f"no prompt to be compared on: {join_names(unseen)}"
        return check_rule("top-coverage", text, None, bar, missing=None, detail=detail)
    mean = float(coverage.mean())
    short = [f"{standing.models[k]} {share:.2f}" for k, share in _below(top, coverage, bar)]
    return check_rule(
        "top-coverage",
        text,
        mean,
        bar,
        missing=0.0 if mean >= bar else _votes_to_mean_coverage(standing, top, coverage),
        detail=f"{len(short)} of {len(top)} are below: {join_names(short)}" if short else "",
    )


_TOO_FEW = "fewer than two models are enabled"


def _top(standing: Standing) -> Ints:
    return standing.order[: standing.policy.published_top]


def _nobody(name: str, text: str, bar: float, *, at_most: bool = False) -> Rule:
    return check_rule(name, text, None, bar, at_most=at_most, missing=None, detail=_TOO_FEW)


def _below(top: Ints, coverage: npt.NDArray[np.float64], bar: float) -> list[tuple[int, float]]:
    return [(k, share) for k, share in zip(top.tolist(), coverage.tolist(), strict=True) if share < bar]


def _votes_to_mean_coverage(standing: Standing, top: Ints, coverage: npt.NDArray[np.float64]) -> float:
    gap = standing.policy.published_coverage - float(coverage.mean())
    lacking = np.stack([count_lacking_cells(standing, model) for model in top.tolist()])
    missing = decisive_votes_to_mean(lacking, standing.cells.n_eligible[top], gap)
    if math.isinf(missing):
        return missing
    short = lacking.any(axis=1)
    covered = float(coverage[short].mean())
    after = covered + gap * len(top) / int(short.sum())
    each = float(exposure_rate(standing)[top[short]].sum())
    return votes_to_gain(
        missing, each * decisive_share(standing) * short_prompt_rate(standing, covered, after)
    )


def _short(standing: Standing, floors: tuple[PairFloor, ...]) -> str:
    short = [floor for floor in floors if not floor.met]
    if not short:
        return ""
    return f"{len(short)} of {len(floors)} adjacent pairs are short: " + join_names(
        [_told(standing, floor) for floor in short], most=3
    )


def _told(standing: Standing, floor: PairFloor) -> str:
    pair = f"{standing.models[floor.above]}–{standing.models[floor.below]}"
    if not floor.prompts_needed:
        return f"{pair} share no prompt"
    parts = [
        f"{have} of {need} {what}"
        for have, need, what in (
            (floor.votes, floor.votes_needed, "votes"),
            (floor.prompts, floor.prompts_needed, "prompts"),
        )
        if have < need
    ]
    told = f"{pair} {' and '.join(parts)}"
    return f"{told} (indistinguishable so far)" if floor.indistinguishable else told
