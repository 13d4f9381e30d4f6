"""Simultaneous rank ranges, and how few battles, prompts or voters the first place rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array, csr_array
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from tiltyard.core.battles import KIND_COUNT, Counts, Table
from tiltyard.core.battles.cluster_keys import MISSING_KEY
from tiltyard.core.ratings import newton
from tiltyard.core.ratings.findings import MIN_DOF
from tiltyard.core.ratings.group_fit import FittedStrengths, fit_groups
from tiltyard.core.ratings.pairs import PairScores, Scoring, comparable_groups, score_pairs
from tiltyard.core.ratings.result import Ratings
from tiltyard.core.ratings.variance import ZERO_VARIANCE_TOLERANCE
from tiltyard.foundation.arrays import Bools, Floats, Ints

#: A lead of this many logits or less is a tie, not a flip.
_TIED_LEAD_LOGITS = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """What the ratings settle about order, within each group of comparable models.

    ``low`` to ``high`` is the range of ranks that are not ruled out (1 is first; 0 for a model
    without a rating). All ranges hold simultaneously at ``level``: a pair counts as ordered only if
    its difference exceeds ``critical`` of its own standard errors (infinite if there is too little
    data), or if a third model is between the two. ``above[i, j]`` means that i is settled above j.
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
    """Tiers within each group: a new one begins where every model above is settled above every model below; 0 if unrated.

    ``order`` is by group, best first.
    """
    tier = np.zeros(len(group), dtype=np.int64)
    for g in range(int(group.max(initial=-1)) + 1):
        members = order[group[order] == g]
        tier[members] = tier_numbers(above[np.ix_(members, members)])
    return tier


def tier_numbers(above: Bools) -> Ints:
    """The tiers of models in order, best first, from which of them is settled above which."""
    lines = [above[:k, k:].all() for k in range(1, len(above))]
    return 1 + np.cumsum([0, *lines])[: len(above)]


#: What is left out: single battles, or prompts or voters with all of theirs.
FlipUnit = Literal["vote", "prompt", "voter"]


@dataclass(frozen=True, slots=True)
class Flip:
    """Leaving out ``count`` of ``of`` votes, prompts or voters puts ``rival`` above ``first``; fewer may be sufficient.

    ``of`` counts those with battles between models that are comparable with these two.
    """

    first: str
    rival: str
    count: int
    of: int
    unit: FlipUnit = "vote"


def votes_to_flip(
    table: Table, scoring: Scoring | None = None, *, rivals: int = 3, unit: FlipUnit = "vote"
) -> Flip | None:
    """The smallest number of battles whose removal would put another of the nearest ``rivals`` first, as far as found.

    An exact answer needs a search over all subsets. This is an upper bound: battles are removed in the order of their
    influence on the gap between the first model and a rival (the approximation of Broderick, Giordano and Meager, 2020),
    and the number is then verified by refitting without them. With ``unit``, whole prompts or voters are removed in the
    order of their summed influence.

    ``None`` if no removal was found, and also if a model without a rating may be first: one that won every point against rated ones.
    Weighted or soft battles are not handled: every battle must count one.
    """
    scoring = scoring or Scoring()
    counts, m = table.counts, len(table.models)
    if counts.sums is not None or (unit != "vote" and not (unit in table.keyed and table.has_log)):
        return None
    pairs = score_pairs(counts, m, scoring)
    fitted = fit_groups(pairs, comparable_groups(pairs, prior=False))
    ranked = np.argsort(np.where(fitted.group == 0, -fitted.theta, np.inf), kind="stable")
    ranked = ranked[: int((fitted.group == 0).sum())]
    if len(ranked) < 2 or _lost_outside(pairs, fitted.group == 0):
        return None
    clusters = None if unit == "vote" else _battles_by_cluster(table, unit)
    first, bounds = int(ranked[0]), []
    for rival in ranked[1 : 1 + rivals]:
        count = _Removal.by_influence(counts, fitted, scoring, (first, int(rival)), clusters).fewest()
        if count is not None:
            bounds.append((count, int(rival)))
    if not bounds:
        return None
    count, rival = min(bounds)
    counted = ~np.isnan(scoring.by_kind()[counts.kind]) & (counts.a != counts.b)
    counted &= (fitted.group[counts.a] == 0) & (fitted.group[counts.b] == 0)
    of = counts.n[counted].sum() if clusters is None else np.count_nonzero(clusters @ counted)
    return Flip(table.models[first], table.models[rival], count, int(of), unit)


def _lost_outside(pairs: PairScores, inside: npt.NDArray[np.bool_]) -> bool:
    """Whether a model of the group lost points to one outside of it, which then is above them all or above some."""
    won_by_i = ~inside[pairs.i] & inside[pairs.j] & (pairs.score > 0.0)
    won_by_j = inside[pairs.i] & ~inside[pairs.j] & (pairs.score < pairs.weight)
    return bool((won_by_i | won_by_j).any())


def _battles_by_cluster(table: Table, unit: FlipUnit) -> csr_array:
    """How many battles each prompt or voter (row) has in each cell of the counts (column)."""
    log, counts, m = table.log(), table.counts, len(table.models)
    keys = np.asarray(getattr(log, unit))
    named = keys != MISSING_KEY
    known, cluster = np.unique(keys[named], return_inverse=True)
    cells = (counts.a * m + counts.b) * KIND_COUNT + counts.kind
    order = np.argsort(cells)
    theirs = (log.a[named].astype(np.int64) * m + log.b[named]) * KIND_COUNT + log.kind[named]
    at = order[np.searchsorted(cells, theirs, sorter=order)]
    return coo_array((np.ones(len(at)), (cluster, at)), shape=(len(known), len(cells))).tocsr()


@dataclass(frozen=True, slots=True, eq=False)
class _Removal:
    """Cells, or clusters of battles, in the order in which they are left out: the one that narrows a gap most first."""

    counts: Counts
    fitted: FittedStrengths
    scoring: Scoring
    pair: tuple[int, int]
    order: Ints
    clusters: csr_array | None

    @classmethod
    def by_influence(
        cls,
        counts: Counts,
        fitted: FittedStrengths,
        scoring: Scoring,
        pair: tuple[int, int],
        clusters: csr_array | None,
    ) -> _Removal:
        lever = fitted.bread[pair[0]] - fitted.bread[pair[1]]
        residual = scoring.by_kind()[counts.kind] - fitted.expected()[counts.a, counts.b]
        influence = np.nan_to_num((lever[counts.a] - lever[counts.b]) * residual)
        if clusters is not None:
            influence = clusters @ influence
        order = np.argsort(-influence, kind="stable")
        return cls(counts, fitted, scoring, pair, order[influence[order] > 0.0], clusters)

    def fewest(self) -> int | None:
        """The smallest prefix of the order whose removal, verified by a refit, puts the rival ahead.

        As battles are removed, the rival is first behind, then ahead, then no longer comparable: the
        search is for the end of the first phase.
        """
        total = len(self.order) if self.clusters is not None else int(self.counts.n[self.order].sum())
        low, high, best = 0, 1, None
        while (lead := self.lead(high)) is not None and lead <= _TIED_LEAD_LOGITS:
            if high >= total:
                return None
            low, high = high, min(high * 2, total)
        if lead is not None:
            best = high
        while high - low > 1:
            middle = (low + high) // 2
            lead = self.lead(middle)
            if lead is not None and lead <= _TIED_LEAD_LOGITS:
                low = middle
            else:
                high = middle
                best = best if lead is None else middle
        return best

    def lead(self, count: int) -> float | None:
        """How far the rival is ahead without so many; ``None`` if not all models are comparable then."""
        n = self.counts.n.copy()
        if self.clusters is None:
            n[self.order] -= np.diff(np.minimum(np.cumsum(n[self.order]), count), prepend=0)
        else:
            n -= self.clusters[self.order[:count]].sum(axis=0).astype(n.dtype)
        pairs = score_pairs(replace(self.counts, n=n), len(self.fitted.theta), self.scoring)
        members = np.flatnonzero(self.fitted.group == 0)
        among = pairs.among(members)
        if among.groups(strong=True).max(initial=0) > 0:
            return None
        theta = newton.fit_pairs(among, start=self.fitted.theta[members], bread=False).theta
        first, rival = np.searchsorted(members, self.pair)
        return float(theta[rival] - theta[first])
