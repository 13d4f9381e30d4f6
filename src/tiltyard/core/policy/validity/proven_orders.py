"""The marks of a whole standing: who is proven above whom."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.state.pair_counts import PairCells
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.order_marks import THESE, PairVotes, Scope, claimed_scopes
from tiltyard.core.policy.validity.order_test import OrderTest
from tiltyard.core.policy.validity.prompt_coverage import servable_prompts

__all__ = ["proven_orders"]

Bools = npt.NDArray[np.bool_]


def proven_orders(standing: Standing, *, family: int | None = None) -> dict[Scope, Bools]:
    """For each scope a matrix: whether the model of the row is proven above that of the column.

    The family is every pair of the standing's models, retired ones too: neighbours are chosen by
    the data, so none may be left out afterwards. The guarantee holds for a family that is fixed in
    advance. In an arena that grows, ask for the pairs of the largest roster that is planned,
    m(m − 1)/2: of arenas grown one by one from 2 to 20 equal models, 6.3 % had a false mark at some
    time when the family grew along, and 0.3 % with the family fixed at 190.

    *These prompts* are those that can be served now: at least two enabled models have answered them.
    Where none can, they are all that are listed. Votes on withdrawn prompts still count. Free prompts are no fixed set:
    of them, only *prompts like these* is said.
    """
    models = len(standing.models)
    met = [(low, high, cells) for low, high, cells in standing.prompt_meetings if len(cells)]
    votes = PairVotes.of_pairs((low, high, cells.tally) for low, high, cells in met)
    rule = OrderTest(alpha=standing.policy.proven_alpha)
    live = servable_prompts(standing)
    prompts = int(live.sum()) or len(live)
    family = max(models * (models - 1) // 2, family or 1)
    proven: dict[Scope, Bools] = {}
    for scope in claimed_scopes(standing.policy):
        above = np.zeros((models, models), dtype=bool)
        leader = rule.leaders(votes, scope, family=family, prompts=prompts)
        known = leader >= 0
        if scope == THESE:
            known &= _met_enough([cells for _, _, cells in met], votes, live, rule.min_prompts)
        above[leader[known], (votes.low + votes.high - leader)[known]] = True
        proven[scope] = above
    return proven


def _met_enough(met: list[PairCells], votes: PairVotes, live: Bools, least: int) -> Bools:
    """Which pairs have met on so many prompts, or on all that are live or that they ever met on.

    With one prompt left, votes on another that is gone prove nothing of it.
    """
    prompts = np.concatenate([np.empty(0, dtype=np.uint32), *(cells.prompts for cells in met)])
    pair = np.repeat(np.arange(len(met)), np.diff(votes.start))
    rated = votes.tally[:, :3].any(axis=1)
    on = np.bincount(pair[rated], minlength=len(met))
    gone = np.bincount(pair[rated & ~live[prompts]], minlength=len(met))
    return np.asarray(on >= np.minimum(least, live.sum() + gone))
