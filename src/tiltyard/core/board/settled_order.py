"""What a board may claim: which model is settled above which, the ranks that are shared, and the tiers.

Everything that a page, a file or an interface says about order comes from here. All claims of one
scope hold together, at every look, with the probability that the policy names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tiltyard.core.board.cross_check import BatchRatings
from tiltyard.core.policy.state.standing import NEVER_ARRIVED_VOTES, Standing
from tiltyard.core.ratings.findings import MIN_DOF, Finding
from tiltyard.core.ratings.ranks import close_order, tier_numbers
from tiltyard.core.ratings.result import Uncertainty
from tiltyard.core.ratings.sentences import first_of
from tiltyard.core.ratings.variance import ZERO_VARIANCE_TOLERANCE
from tiltyard.errors import BadOption
from tiltyard.foundation.arrays import Bools, Floats, Ints

#: What an order is settled for: the prompts of the arena, or the population that they are a sample of.
Scope = Literal["these prompts", "prompts like these"]
THESE: Scope = "these prompts"
LIKE_THESE: Scope = "prompts like these"
#: Whether the place of a model is settled; of one that is not placed, nothing is.
PlaceWord = Literal["settled", "shared", "unplaced"]
#: For each scope, whether the model of the row is settled above that of the column.
Settled = Mapping[Scope, Bools]
#: So many of the models that share first place are named.
_NAMED_MODEL_COUNT = 3
#: With fewer prompts, most of what stays open would be settled by more of them (docs/evidence/data/small-arenas.md).
SETTLING_PROMPT_COUNT = 20
#: The share of alpha that is kept for models that arrive after the first vote.
_LATER_SHARE = 0.2
#: Nothing is settled in a small arena before this share of what it can collect, and before so many votes.
_LEAST_VOTES_SHARE = 0.12
_SMALL_ARENA_LEAST_VOTES = 25
#: The exponent is limited, so that few degrees of freedom make a wide interval, not an overflow.
_MAX_EXPONENT_RATIO = 50.0


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
    roster that is planned. Where voters of different days differ, an order must be clear beyond that, unless people are
    invited.
    """
    rule = ConfidenceSequence(standing.policy.settled_alpha, min_votes=least_votes(standing))
    level = pair_levels(standing, rule.alpha, family=family)
    scopes = (LIKE_THESE,) if standing.policy.free_prompts else (THESE, LIKE_THESE)
    found: dict[Scope, Bools] = {}
    for scope in scopes:
        uncertainty = _uncertainty_of(batch, scope)
        if uncertainty is None:
            found[scope] = np.zeros(level.shape, dtype=bool)
        else:
            found[scope] = rule.settled(batch.rating, batch.group, uncertainty, level, batch.votes)
    return found


def settling_half_widths(standing: Standing, batch: BatchRatings) -> Floats:
    """The differences, in points, that these votes settle for prompts like these; infinite where they settle none."""
    uncertainty = _uncertainty_of(batch, LIKE_THESE)
    rule = ConfidenceSequence(standing.policy.settled_alpha)
    level = pair_levels(standing, rule.alpha)
    if uncertainty is None or batch.votes < least_votes(standing):
        return np.full(level.shape, np.inf)
    return rule.half_width(uncertainty, level)


def _uncertainty_of(batch: BatchRatings, scope: Scope) -> Uncertainty | None:
    """The uncertainty by which an order is claimed; ``None`` where there is too little for any claim."""
    if batch.voters_lacking or 0 < batch.days < (batch.least_days or 0):
        return None
    across_days = None if batch.least_days is None else batch.across_days
    like_these, these = across_days or (batch.uncertainty, batch.these_prompts)
    if scope == THESE:
        return these
    return None if batch.prompts_lacking else like_these


def least_votes(standing: Standing) -> int:
    """Votes before which nothing is settled: 300, in a small arena the same share of what it can collect, at least 25."""
    can = _LEAST_VOTES_SHARE * standing.collectable_votes
    return max(_SMALL_ARENA_LEAST_VOTES, int(min(can, ConfidenceSequence().min_votes)))


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
            above,
            FirstPlaces.of(list(zip(low.tolist(), high.tolist(), strict=True))),
            sum(LIKE_THESE in mark for mark in marks),
            votes,
            [names[k] for k in ranked],
        ),
    )


def place_of(low: int, high: int, ranked: int) -> PlaceWord:
    """Whether the place of a model is settled, from its lowest and highest rank among so many models."""
    if low == high:
        return "settled"
    return "unplaced" if (low, high) == (1, ranked) else "shared"


@dataclass(frozen=True, slots=True)
class FirstPlaces:
    """Who may be first, by the ranks that are claimed: the one definition of every sentence about first place.

    Rows are counted from 0, in the order of the board.
    """

    #: Models that are first, or share first place: no other is settled above them, and they are settled above one.
    leaders: tuple[int, ...]
    #: Models about which nothing is settled: any rank is possible, the first and the last too.
    unplaced: tuple[int, ...]

    @classmethod
    def of(cls, ranges: Sequence[tuple[int, int]]) -> FirstPlaces:
        """From the lowest and the highest rank of each ranked model."""
        first = [
            (row, place_of(low, high, len(ranges))) for row, (low, high) in enumerate(ranges) if low == 1
        ]
        return cls(
            tuple(row for row, place in first if place != "unplaced"),
            tuple(row for row, place in first if place == "unplaced"),
        )


def claims_nothing(sentence: Finding | None) -> bool:
    """Whether a board's sentence claims no order at all: then badges say that enough votes were seen, and no more."""
    return sentence is not None and sentence.values["case"] in ("nothing", "too-few")


def _sentence(
    above: Bools, places: FirstPlaces, neighbours_settled: int, votes: int, names: Sequence[str]
) -> Finding:
    """The sentence of these models, in the order of the board."""
    n, sharing = len(names), [names[row] for row in places.leaders]
    values: dict[str, object] = {
        "models": n,
        "first": len(sharing),
        "unplaced": len(places.unplaced),
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
    else:
        case = "first" if len(sharing) == 1 else "shared-first"
        if places.unplaced:
            case = f"{case}-of-placed"
        values |= first_of("sharing", sharing, _NAMED_MODEL_COUNT)
    return Finding("order-settled", {"case": case, **values})


def pair_levels(standing: Standing, alpha: float, *, family: int | None = None) -> Floats:
    """The probability of ever claiming a false order that each pair of models is allowed.

    A level is fixed when the later model of a pair arrives, before the pair has a vote; all levels together never
    exceed ``alpha``, however many models will come. The m models that are there before the first vote share four fifths of
    it. The k-th model to arrive, k > m, shares α/5 · m/(k(k − 1)) among its k − 1 pairs, which adds up to α/5 for k
    without end.

    With ``family``, the number of pairs of the largest roster that is planned, all pairs have α/family instead, as long as
    there are no more of them.
    """
    models = len(standing.models)
    if family is not None and family >= math.comb(models, 2):
        return np.full((models, models), alpha / family)
    arrived = standing.arrived
    order = np.lexsort(
        (np.arange(models), np.where(arrived == NEVER_ARRIVED_VOTES, np.iinfo(np.int64).max, arrived))
    )
    founders = int(np.count_nonzero(arrived == 0))
    level = np.full(models, np.nan)
    for k, model in enumerate(order.tolist(), start=1):
        if k <= founders:
            level[model] = (1.0 - _LATER_SHARE) * alpha / max(math.comb(founders, 2), 1)
        else:
            level[model] = _LATER_SHARE * alpha * max(founders, 1) / (k * max(k - 1, 1) ** 2)
    return np.asarray(np.minimum(level[:, None], level[None, :]))


@dataclass(frozen=True, slots=True)
class ConfidenceSequence:
    """Differences that are settled at every look, with probability 1 − ``alpha`` that none is ever wrong.

    The half-width of a difference with standard error s is s·z with z² = (1 + r)(2 ln(1/level) + ln(1 + 1/r)): Robbins's
    normal mixture, in its asymptotic form for estimated variances (Waudby-Smith, Arbour, Sinha, Kennedy and
    Ramdas, Annals of Statistics 52, 2024). r = ``reference_ratio``·(s/``reference_se``)² makes it narrowest around the standard
    errors at which orders are settled; any r that is fixed beforehand is valid. For ν degrees of freedom, z² becomes
    ν(e^{z²/(ν+1)} − 1), the t² that weighs as much.

    Alpha is shared by both orders of every pair. As in Holm's procedure, what settled orders had of it is shared by the others:
    at the first false claim of any look all claims before it are true, so the false orders never have less than their share.

    Until ``min_votes`` votes, and for differences with fewer than three degrees of freedom, nothing is settled.
    """

    alpha: float = 0.05
    reference_ratio: float = 0.08
    reference_se: float = 25.0
    min_votes: int = 300

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha < 1.0:
            raise BadOption(f"alpha is {self.alpha}; expected a number between 0 and 1")
        if not (self.reference_ratio > 0.0 and self.reference_se > 0.0 and self.min_votes >= 0):
            raise BadOption("reference_ratio and reference_se must be above 0, min_votes 0 or more")

    def half_width(self, uncertainty: Uncertainty, level: Floats) -> Floats:
        """Half of the sequence of each difference, in points; infinite where it says nothing.

        ``level`` is the probability of ever being wrong about each pair.
        """
        variance, dof = uncertainty.differences(), uncertainty.difference_dof()
        known = (variance > ZERO_VARIANCE_TOLERANCE) & (dof >= MIN_DOF)
        r = self.reference_ratio * np.where(known, variance, 1.0) / self.reference_se**2
        z2 = (1.0 + r) * (2.0 * np.log(1.0 / level) + np.log1p(1.0 / r))
        finite = np.where(known & np.isfinite(dof), dof, MIN_DOF)
        t2 = finite * np.expm1(np.minimum(z2 / (finite + 1.0), _MAX_EXPONENT_RATIO))
        return np.where(known, np.sqrt(np.where(np.isfinite(dof), t2, z2) * variance), np.inf)

    def settled(
        self, rating: Floats, group: Ints, uncertainty: Uncertainty, level: Floats, votes: int
    ) -> Bools:
        """Which model (row) is settled above which (column), after so many votes.

        ``level`` is the part of alpha that each pair has; the parts add up to alpha or less. What follows from two
        settled orders is settled too.
        """
        above = np.zeros((len(rating), len(rating)), dtype=bool)
        if votes < self.min_votes:
            return above
        same = (group[:, None] == group[None, :]) & (group >= 0)[:, None]
        value = np.nan_to_num(rating)
        difference = np.where(same, value[:, None] - value[None, :], 0.0)
        while True:
            left = 1.0 - 0.5 * float(level[above].sum()) / self.alpha
            more = close_order(difference > self.half_width(uncertainty, level / left))
            if (more == above).all():
                return above
            above = more
