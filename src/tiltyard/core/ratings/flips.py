"""Votes to flip: the smallest number of battles whose removal would put another model first.

An exact answer needs a search over all subsets. This computes an upper bound: battles are removed
in the order of their influence on the gap between the first model and a rival (the
approximation of Broderick, Giordano and Meager, 2020), and the number is then verified by
refitting without them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tiltyard.core.battles import Counts, Table
from tiltyard.core.ratings import newton
from tiltyard.core.ratings.group_fit import FittedStrengths, fit_groups
from tiltyard.core.ratings.groups import comparable_groups
from tiltyard.core.ratings.pairs import PairScores, score_pairs
from tiltyard.core.ratings.scoring import Scoring

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: A lead of this many logits or less is a tie, not a flip.
_TIED_LEAD_LOGITS = 1e-9


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
    """The smallest verified bound over the nearest ``rivals``; ``None`` if no removal was found.

    ``None`` as well if a model without a rating may be first: one that won every point against rated ones.
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
