"""Simultaneous rank ranges, and how few battles the first place rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from tiltyard.core.battles import Counts, Table
from tiltyard.core.ratings import newton
from tiltyard.core.ratings.findings import MIN_DOF
from tiltyard.core.ratings.group_fit import FittedStrengths, fit_groups
from tiltyard.core.ratings.groups import comparable_groups
from tiltyard.core.ratings.pairs import PairScores, score_pairs
from tiltyard.core.ratings.result import Ratings
from tiltyard.core.ratings.scoring import Scoring
from tiltyard.core.ratings.variance import ZERO_VARIANCE_TOLERANCE
from tiltyard.foundation.arrays import Bools, Floats, Ints

#: A lead of this many logits or less is a tie, not a flip.
_TIED_LEAD_LOGITS = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """What the ratings prove about order, within each group of comparable models.

    ``low`` to ``high`` is the range of ranks that are not ruled out (1 is first; 0 for a model
    without a rating). All ranges hold simultaneously at ``level``: a pair counts as ordered only if
    its difference exceeds ``critical`` of its own standard errors (infinite if there is too little
    data), or if a third model is between the two. ``above[i, j]`` means that i is proven above j.
    """

    level: float
    critical: Floats
    low: Ints
    high: Ints
    tier: Ints
    above: Bools
    #: The one-sided confidence level of "i is above j", for one pair at a time: not corrected for looking at many.
    confidence: Floats


def rank_models(ratings: Ratings, *, level: float = 0.95) -> Ranks | None:
    """Rank ranges and tiers, or ``None`` for ratings without uncertainty."""
    uncertainty = ratings.uncertainty
    if uncertainty is None:
        return None
    m = len(ratings.models)
    same = (ratings.group[:, None] == ratings.group[None, :]) & (ratings.group >= 0)[:, None]
    known = uncertainty.ratings() > ZERO_VARIANCE_TOLERANCE
    same &= known[:, None] & known[None, :] & ~np.eye(m, dtype=bool)
    rating = np.nan_to_num(ratings.rating)
    difference = np.where(same, rating[:, None] - rating[None, :], 0.0)
    error, dof = np.sqrt(uncertainty.differences()), uncertainty.difference_dof()
    # The critical number of standard errors: Student's t at a level shared by all pairs.
    #
    # Bonferroni: if each claim is wrong with probability (1 − level) / pairs at most, all hold
    # simultaneously at ``level``, however they depend on each other. Two-sided, because either model may be ahead.
    pairs = max(int(np.count_nonzero(same)) // 2, 1)
    upper = 1.0 - (1.0 - level) / pairs / 2.0
    decided = same & (dof >= MIN_DOF)
    finite = np.where(decided & np.isfinite(dof), dof, MIN_DOF)
    t = np.where(np.isinf(dof), ndtri(upper), stdtrit(finite, upper))
    critical = np.asarray(np.where(decided, t, np.inf), dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        above = close_order(same & (error > 0.0) & (difference > critical * error))
        ratio = np.where(error > 0.0, difference / error, 0.0)
    confidence = np.where(np.isinf(dof), ndtr(ratio), stdtr(finite, ratio))
    rated = ratings.group >= 0
    peers = (ratings.group[:, None] == ratings.group[None, :]).sum(axis=1)
    return Ranks(
        level,
        critical,
        np.where(rated, 1 + above.sum(axis=0), 0),
        np.where(rated, peers - above.sum(axis=1), 0),
        tiers_of(ratings.order(), ratings.group, above),
        above,
        np.where(decided, confidence, np.nan),
    )


def claims_over_all(groups: Sequence[Ranks]) -> list[Bools]:
    """Those claims of each group that hold together with all groups': Holm, Scandinavian Journal of Statistics 6 (1979)."""
    chances = [2.0 * (1.0 - one.confidence) for one in groups]
    tested = np.concatenate([np.fmin(one, one.T)[np.triu_indices(len(one), 1)] for one in chances])
    tested = np.sort(tested[~np.isnan(tested)])
    share = (1.0 - groups[0].level) / np.arange(len(tested), 0, -1)
    limit = max(tested[np.logical_and.accumulate(tested <= share)], default=-1.0)
    return [close_order(one.above & (chance <= limit)) for one, chance in zip(groups, chances, strict=True)]


def close_order(above: Bools) -> Bools:
    """The transitive closure: if i is above j and j above k, then i is above k.

    All claims hold simultaneously, so their consequences do too.
    """
    while True:
        through = above.astype(np.float32)
        more = above | (through @ through > 0.0)
        if (more == above).all():
            return above
        above = more


def tiers_of(order: Ints, group: Ints, above: Bools) -> Ints:
    """Tiers within each group: a new one begins where every model above is proven above every model below; 0 if unrated.

    ``order`` is by group, best first.
    """
    tier = np.zeros(len(group), dtype=np.int64)
    for g in range(int(group.max(initial=-1)) + 1):
        members = order[group[order] == g]
        tier[members] = tier_numbers(above[np.ix_(members, members)])
    return tier


def tier_numbers(above: Bools) -> Ints:
    """The tiers of models in order, best first, from which of them is proven above which."""
    lines = [above[:k, k:].all() for k in range(1, len(above))]
    return 1 + np.cumsum([0, *lines])[: len(above)]


@dataclass(frozen=True, slots=True)
class Flip:
    """Removing ``votes`` of ``of`` battles puts ``rival`` above ``first``; fewer may be sufficient.

    ``of`` counts the battles between models that are comparable with these two.
    """

    first: str
    rival: str
    votes: int
    of: int


def votes_to_flip(table: Table, scoring: Scoring | None = None, *, rivals: int = 3) -> Flip | None:
    """The smallest number of battles whose removal would put another of the nearest ``rivals`` first, as far as found.

    An exact answer needs a search over all subsets. This is an upper bound: battles are removed in the order of their
    influence on the gap between the first model and a rival (the approximation of Broderick, Giordano and Meager, 2020),
    and the number is then verified by refitting without them.

    ``None`` if no removal was found, and also if a model without a rating may be first: one that won every point against rated ones.
    Weighted or soft battles are not handled: every battle must count one.
    """
    scoring = scoring or Scoring()
    counts, m = table.counts, len(table.models)
    if counts.sums is not None:
        return None
    pairs = score_pairs(counts, m, scoring)
    fitted = fit_groups(pairs, comparable_groups(pairs, prior=False))
    ranked = np.argsort(np.where(fitted.group == 0, -fitted.theta, np.inf), kind="stable")
    ranked = ranked[: int((fitted.group == 0).sum())]
    if len(ranked) < 2 or _lost_outside(pairs, fitted.group == 0):
        return None
    first, bounds = int(ranked[0]), []
    for rival in ranked[1 : 1 + rivals]:
        votes = _fewest(counts, fitted, scoring, first, int(rival))
        if votes is not None:
            bounds.append((votes, int(rival)))
    if not bounds:
        return None
    votes, rival = min(bounds)
    among = pairs.among(np.sort(ranked))
    return Flip(table.models[first], table.models[rival], votes, int(among.weight.sum()))


def _lost_outside(pairs: PairScores, inside: npt.NDArray[np.bool_]) -> bool:
    """Whether a model of the group lost points to one outside of it, which then is above them all or above some."""
    won_by_i = ~inside[pairs.i] & inside[pairs.j] & (pairs.score > 0.0)
    won_by_j = inside[pairs.i] & ~inside[pairs.j] & (pairs.score < pairs.weight)
    return bool((won_by_i | won_by_j).any())


def _fewest(counts: Counts, fitted: FittedStrengths, scoring: Scoring, first: int, rival: int) -> int | None:
    """The smallest prefix of the influence order whose removal, verified by a refit, puts the rival ahead.

    As battles are removed, the rival is first behind, then ahead, then no longer comparable: the
    search is for the end of the first phase.
    """
    order, influence = _influence(counts, fitted, scoring, first, rival)
    available = counts.n[order]
    total = int(available.sum())
    reach = np.cumsum(available * influence[order])
    at = int(np.searchsorted(reach, fitted.theta[first] - fitted.theta[rival]))
    refit = _Refit(counts, fitted, scoring, order, first, rival)
    low, high, best = 0, min(int(available[:at].sum()) + 1, total), None
    while (lead := refit.lead(high)) is not None and lead <= _TIED_LEAD_LOGITS:
        if high == total:
            return None
        low, high = high, min(high * 2, total)
    if lead is not None:
        best = high
    while high - low > 1:
        middle = (low + high) // 2
        lead = refit.lead(middle)
        if lead is not None and lead <= _TIED_LEAD_LOGITS:
            low = middle
        else:
            high = middle
            best = best if lead is None else middle
    return best


def _influence(
    counts: Counts, fitted: FittedStrengths, scoring: Scoring, first: int, rival: int
) -> tuple[Ints, Floats]:
    """Cells whose removal narrows the gap, most influential first, and the effect per battle."""
    lever = fitted.bread[first] - fitted.bread[rival]
    residual = scoring.by_kind()[counts.kind] - fitted.expected()[counts.a, counts.b]
    influence = np.nan_to_num((lever[counts.a] - lever[counts.b]) * residual)
    order = np.argsort(-influence, kind="stable")
    return order[influence[order] > 0.0], influence


@dataclass(frozen=True, slots=True, eq=False)
class _Refit:
    counts: Counts
    fitted: FittedStrengths
    scoring: Scoring
    order: Ints
    first: int
    rival: int

    def lead(self, votes: int) -> float | None:
        """How far the rival is ahead without this many battles; ``None`` if not all models are comparable then."""
        n = self.counts.n.copy()
        taken = np.diff(np.minimum(np.cumsum(n[self.order]), votes), prepend=0)
        n[self.order] -= taken
        pairs = score_pairs(replace(self.counts, n=n), len(self.fitted.theta), self.scoring)
        members = np.flatnonzero(self.fitted.group == 0)
        among = pairs.among(members)
        if among.groups(strong=True).max(initial=0) > 0:
            return None
        theta = newton.fit_pairs(among, start=self.fitted.theta[members], bread=False).theta
        return float(theta[members == self.rival][0] - theta[members == self.first][0])
