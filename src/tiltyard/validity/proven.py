"""The marks of a whole standing: who is proven above whom."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tiltyard.standing.state import Standing
from tiltyard.validity.order_marks import LIKE_THESE, THESE, PairVotes, Scope
from tiltyard.validity.order_proven import OrderProven

__all__ = ["proven_orders"]

Bools = npt.NDArray[np.bool_]


def proven_orders(standing: Standing) -> dict[Scope, Bools]:
    """For each scope a matrix: whether the model of the row is proven above that of the column.

    The family is every pair of the standing's models, retired ones too: neighbours are chosen by
    the data, so none may be left out afterwards.
    """
    models = len(standing.models)
    rule = OrderProven(alpha=standing.policy.proven_alpha)
    met = [(low, high, cells.tally) for low, high, cells in standing.meetings if len(cells)]
    votes = PairVotes.of_pairs(met)
    family = max(models * (models - 1) // 2, 1)
    proven: dict[Scope, Bools] = {}
    for scope in (THESE, LIKE_THESE):
        above = np.zeros((models, models), dtype=bool)
        leader = rule.leaders(votes, scope, family=family, prompts=len(standing.prompts))
        known = leader >= 0
        above[leader[known], (votes.low + votes.high - leader)[known]] = True
        proven[scope] = above
    return proven
