"""Votes of pairs by prompt, and the marks that are made of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.state.policy import Policy
from tiltyard.errors import BadOption

__all__ = ["LIKE_THESE", "THESE", "OrderMark", "OrderMarks", "PairVotes", "Scope", "claimed_scopes"]

Scope = Literal["these prompts", "prompts like these"]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Tally = npt.NDArray[np.integer[Any]]

THESE: Scope = "these prompts"
LIKE_THESE: Scope = "prompts like these"


def claimed_scopes(policy: Policy) -> tuple[Scope, ...]:
    """The scopes in which an arena says anything of order.

    Free prompts are no fixed set: every vote may bring another one, so that *these prompts* would be others at each look.
    """
    return (LIKE_THESE,) if policy.free_prompts else (THESE, LIKE_THESE)


@dataclass(frozen=True, slots=True)
class OrderMark:
    """What the direct votes of one pair prove about its order.

    ``estimate`` is the mean score difference (a win of ``low`` +1, of ``high`` −1, a tie 0), prompts
    weighed nearly alike; NaN without a rated vote. ``lower`` to ``upper`` is its confidence sequence
    at ``level``: the order is proven if and only if 0 lies outside.
    """

    low: int
    high: int
    #: Who is ahead by the estimate; ``None`` if nobody is.
    leader: int | None
    scope: Scope
    #: Probability of ever being wrong that this pair was allowed.
    level: float
    estimate: float
    lower: float
    upper: float
    #: Votes of any kind, and the prompts with a rated one.
    votes: int
    prompts: int
    proven: bool
    #: About how many more votes would prove it if the estimate stays: ``None`` where none would.
    missing: int | None


@dataclass(frozen=True, slots=True, eq=False)
class OrderMarks:
    """The marks of many pairs as columns; ``marks[k]`` is one of them.

    ``leader`` and ``missing`` are −1 where a single mark says ``None``.
    """

    scope: Scope
    low: Ints
    high: Ints
    leader: Ints
    level: Floats
    estimate: Floats
    lower: Floats
    upper: Floats
    votes: Ints
    prompts: Ints
    proven: Bools
    missing: Ints

    def __len__(self) -> int:
        return len(self.low)

    def __getitem__(self, k: int) -> OrderMark:
        leader, missing = int(self.leader[k]), int(self.missing[k])
        return OrderMark(
            low=int(self.low[k]),
            high=int(self.high[k]),
            leader=leader if leader >= 0 else None,
            scope=self.scope,
            level=float(self.level[k]),
            estimate=float(self.estimate[k]),
            lower=float(self.lower[k]),
            upper=float(self.upper[k]),
            votes=int(self.votes[k]),
            prompts=int(self.prompts[k]),
            proven=bool(self.proven[k]),
            missing=missing if missing >= 0 else None,
        )


@dataclass(frozen=True, slots=True, eq=False)
class PairVotes:
    """Direct votes of many pairs, one cell for each prompt on which a pair met.

    The cells of pair k are ``tally[start[k] : start[k + 1]]``, each with four counts: wins of
    ``low``, wins of ``high``, ties, both_bad. Which prompt a cell speaks of does not matter here.
    """

    low: Ints
    high: Ints
    start: Ints
    tally: Tally

    def __post_init__(self) -> None:
        pairs = len(self.low)
        if len(self.high) != pairs or len(self.start) != pairs + 1:
            raise BadOption(
                f"{pairs} pairs with {len(self.high)} higher codes and {len(self.start)} starts; "
                f"expected {pairs} and {pairs + 1}"
            )
        if self.tally.ndim != 2 or self.tally.shape[1] != 4:
            raise BadOption(f"the tally has the shape {self.tally.shape}; expected four counts for each cell")
        if self.start[0] != 0 or self.start[-1] != len(self.tally) or (np.diff(self.start) < 0).any():
            raise BadOption(f"the starts must rise from 0 to the number of cells, {len(self.tally)}")

    @classmethod
    def of_pairs(cls, pairs: Iterable[tuple[int, int, Tally]]) -> PairVotes:
        """The votes of pairs one after the other: lower code, higher code, tally."""
        every = list(pairs)
        low, high = (np.array([pair[side] for pair in every], dtype=np.int64) for side in (0, 1))
        sizes = [len(tally) for _, _, tally in every]
        cells = np.concatenate([np.zeros((0, 4), dtype=np.int64), *(tally for _, _, tally in every)])
        return cls(low, high, np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))), cells)

    def __len__(self) -> int:
        return len(self.low)
