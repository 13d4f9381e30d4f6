"""What a board may claim: which model is settled above which, the ranks that are shared, and the tiers.

Everything that a page, a file or an interface says about order comes from here. All claims of one
scope hold together, at every look, with the probability that the policy names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from tiltyard.core.board.cross_check import BatchRatings
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.pair_levels import pair_levels
from tiltyard.core.ratings.confidence_sequence import ConfidenceSequence
from tiltyard.core.ratings.findings import Finding
from tiltyard.core.ratings.ranks import tier_numbers
from tiltyard.core.ratings.sentences import first_of

__all__ = [
    "LIKE_THESE",
    "THESE",
    "Claims",
    "Scope",
    "Settled",
    "claims_nothing",
    "claims_of",
    "settled_orders",
    "withdrawn_orders",
]

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

#: What an order is settled for: the prompts of the arena, or the population that they are a sample of.
Scope = Literal["these prompts", "prompts like these"]
THESE: Scope = "these prompts"
LIKE_THESE: Scope = "prompts like these"

#: For each scope, whether the model of the row is settled above that of the column.
Settled = Mapping[Scope, Bools]

#: So many of the models that share first place are named.
_NAMED_MODEL_COUNT = 3


@dataclass(frozen=True, slots=True)
class Claims:
    """What may be said of the order of ranked models, by their places on the board."""

    #: The ranks that are not ruled out. One that is shared is a range.
    rank_low: tuple[int, ...]
    rank_high: tuple[int, ...]
    #: A new tier begins where every row above is settled above every row below.
    tier: tuple[int, ...]
    #: In which scopes each model is settled above the next.
    above_next: tuple[tuple[Scope, ...], ...]
    #: One sentence for all of it.
    sentence: Finding


def settled_orders(
    standing: Standing, batch: BatchRatings, *, family: int | None = None
) -> dict[Scope, Bools]:
    """The orders that batch ratings settle, however often one looks.

    Voters are a sample in both scopes. Where they are known but too few, nothing is settled; with a single prompt, nothing
    for prompts like these. Free prompts are no fixed set: every vote may bring another one, so *these prompts* would be
    others at each look, and only *prompts like these* is claimed. ``family`` is the number of pairs of the largest
    roster that is planned.
    """
    rule = ConfidenceSequence(standing.policy.settled_alpha)
    level = pair_levels(standing, rule.alpha, family=family)
    scopes = (LIKE_THESE,) if standing.policy.free_prompts else (THESE, LIKE_THESE)
    found: dict[Scope, Bools] = {}
    for scope in scopes:
        uncertainty = batch.these_prompts if scope == THESE else batch.uncertainty
        if uncertainty is None or batch.voters_lacking or (scope == LIKE_THESE and batch.prompts_lacking):
            found[scope] = np.zeros(level.shape, dtype=bool)
        else:
            found[scope] = rule.settled(batch.rating, batch.group, uncertainty, level, batch.votes)
    return found


def withdrawn_orders(now: Settled, before: Iterable[Settled], among: Bools) -> list[tuple[int, int]]:
    """Pairs of these models that were settled for prompts like these, in this order, and are not any more."""
    gone = np.zeros_like(now[LIKE_THESE])
    for settled in before:
        gone |= settled[LIKE_THESE] & ~now[LIKE_THESE]
    return [(above, below) for above, below in np.argwhere(gone & among[:, None] & among[None, :]).tolist()]


def claims_of(ranked: Ints, settled: Settled, votes: int, names: Sequence[str]) -> Claims:
    """What is settled about models in this order, best first by the board; ``names`` are by code.

    Ranges, tiers and the sentence speak of prompts like these. A rank counts the ranked models alone.
    """
    n = len(ranked)
    above = settled[LIKE_THESE][np.ix_(ranked, ranked)]
    low, high = 1 + above.sum(axis=0), n - above.sum(axis=1)
    pairs = list(zip(ranked[:-1].tolist(), ranked[1:].tolist(), strict=True))
    marks = [tuple(scope for scope, one in settled.items() if one[first, second]) for first, second in pairs]
    return Claims(
        rank_low=tuple(low.tolist()),
        rank_high=tuple(high.tolist()),
        tier=tuple(tier_numbers(above).tolist()),
        above_next=(*marks, ())[:n],
        sentence=_sentence(
            above, sum(LIKE_THESE in mark for mark in marks), votes, [names[k] for k in ranked]
        ),
    )


def claims_nothing(sentence: Finding | None) -> bool:
    """Whether a board's sentence claims no order at all: then badges say that enough votes were seen, and no more."""
    return sentence is not None and sentence.values["case"] in ("nothing", "too-few")


def _sentence(above: Bools, neighbours_settled: int, votes: int, names: Sequence[str]) -> Finding:
    """The sentence of these models, in the order of the board: the rows whose range begins at 1 are those it names."""
    n, sharing = len(names), [names[k] for k in np.flatnonzero(~above.any(axis=0)).tolist()]
    first = len(sharing)
    values: dict[str, object] = {
        "models": n,
        "first": first,
        "neighbours": max(n - 1, 0),
        "neighbours_settled": neighbours_settled,
        "pairs": n * (n - 1) // 2,
        "pairs_settled": int(above.sum()),
        "contradicted": int(np.tril(above, -1).sum()),
        "votes": votes,
    }
    if n < 2:
        case = "too-few"
    elif values["contradicted"]:
        case = "contradicted"
    elif not above.any():
        case = "nothing"
    elif neighbours_settled == n - 1:
        case = "everything"
    elif first == 1:
        case = "first"
    else:
        case = "shared-first"
        values |= first_of("sharing", sharing, _NAMED_MODEL_COUNT)
    return Finding("order-settled", {"case": case, **values})
