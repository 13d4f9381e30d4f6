"""The cross-check of a board: batch Bradley–Terry over all votes, with prompt-clustered intervals.

The policy's ratings take votes one by one, in the order of their coming; a batch fit takes them all at
once and says how sure it is for prompts like these. Where the two orders part beyond that uncertainty,
one of them is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tiltyard.core.battles import CodedBattles, Kind, Table
from tiltyard.core.battles.cluster_keys import hash_texts
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.rules import float_or_none
from tiltyard.core.ratings import BradleyTerry, Finding, Interval
from tiltyard.core.ratings.ranks import rank_models, tiers_of
from tiltyard.core.ratings.sentences import first_of

__all__ = [
    "BatchRatings",
    "CrossCheck",
    "CrossCheckRow",
    "Disagreement",
    "batch_ratings",
    "cross_check",
    "votes_table",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

#: What each column of a pair's tally is, with the lower code on the left.
_KINDS = np.array([Kind.WIN_A, Kind.WIN_B, Kind.TIE, Kind.BOTH_BAD], dtype=np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class BatchRatings:
    """Batch ratings of a standing's models, by its codes. NaN where the votes support no number."""

    method: BradleyTerry
    rating: Floats
    #: Only models of one group may be compared; group 0 has the most battles, −1 is none.
    group: Ints
    #: ``None`` if the method makes none.
    interval: Interval | None
    #: Who (row) is proven above whom (column), all pairs at once at the method's level.
    above: Bools
    #: The one-sided confidence level of "row is above column", one pair at a time; NaN where they cannot be compared.
    confidence: Floats
    findings: tuple[Finding, ...]

    @property
    def score(self) -> Floats:
        """Ratings that belong in one order: those of the group with the most battles."""
        return np.where(self.group == 0, self.rating, np.nan)


@dataclass(frozen=True, slots=True)
class CrossCheckRow:
    """One model of the published order. What the votes do not support is ``None``."""

    #: Place in the published order, and among the published models of its group by batch rating.
    published: int
    rank: int | None
    model: str
    group: int | None
    rating: float | None
    low: float | None
    high: float | None
    #: Places not ruled out, among the same models; all ranges hold together.
    rank_low: int | None
    rank_high: int | None
    #: Models of one tier are not told apart from its first.
    tier: int | None
    #: The one-sided confidence level that it is above the next of the published order, not corrected for looking at many.
    above_next: float | None


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Two models that the published order and the batch ratings put the other way round."""

    #: As published.
    above: str
    below: str
    #: Points by which the batch ratings put the second above the first.
    gap: float


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """Batch ratings beside a published order, and where the two part beyond uncertainty."""

    rows: tuple[CrossCheckRow, ...]
    level: float
    #: ``prompts like these``, with the number of prompts behind it; ``None`` without intervals.
    scope: str | None
    n_clusters: int | None
    #: Widest gap first.
    disagreements: tuple[Disagreement, ...]
    #: Of the fit; the alarm is apart.
    findings: tuple[Finding, ...]

    @property
    def alarm(self) -> Finding | None:
        """The orders disagree; ``None`` if they do not."""
        if not self.disagreements:
            return None
        pairs = [{"above": pair.below, "below": pair.above} for pair in self.disagreements]
        return Finding("orders-disagree", first_of("pairs", pairs))


def batch_ratings(standing: Standing, method: BradleyTerry | None = None) -> BatchRatings:
    """Fit all votes of a standing at once, those of retired models too.

    The default method makes sandwich intervals clustered by prompt.
    """
    method = BradleyTerry() if method is None else method
    m = len(standing.models)
    if not m:
        return BatchRatings(
            method, np.empty(0), np.empty(0, np.int64), None, np.empty((0, 0), bool), np.empty((0, 0)), ()
        )
    ratings = method(votes_table(standing))
    place = _places(standing.models)
    ranks = rank_models(ratings, level=method.level)
    square = np.ix_(place, place)
    return BatchRatings(
        method=method,
        rating=ratings.rating[place],
        group=ratings.group[place],
        interval=None if ratings.interval is None else _by_code(ratings.interval, place),
        above=np.zeros((m, m), dtype=bool) if ranks is None else ranks.above[square],
        confidence=np.full((m, m), np.nan) if ranks is None else ranks.confidence[square],
        findings=ratings.findings,
    )


def votes_table(standing: Standing) -> Table:
    """Every vote that a standing holds, pair by pair: when it was cast is not known, nor on which side."""
    met = [(low, high, cells) for low, high, cells in standing.meetings if len(cells)]
    sizes = np.array([len(cells) for _, _, cells in met], dtype=np.int64)
    tally = np.concatenate([np.empty((0, 4), dtype=np.uint32), *(cells.tally for _, _, cells in met)])
    prompt = np.concatenate([np.empty(0, dtype=np.uint32), *(cells.prompts for _, _, cells in met)])
    narrow = np.uint16 if len(standing.models) <= 1 << 16 else np.int32
    place: npt.NDArray[np.integer[Any]] = _places(standing.models).astype(narrow)
    low, high = (np.repeat(np.array([pair[side] for pair in met], dtype=np.int64), sizes) for side in (0, 1))
    counts = tally.ravel().astype(np.int64)
    cell = np.repeat(np.arange(len(counts)) // 4, counts)
    codes = CodedBattles(
        place[low[cell]],
        place[high[cell]],
        np.repeat(np.tile(_KINDS, len(tally)), counts),
        prompt=hash_texts(standing.prompts)[prompt[cell]],
    )
    return Table.from_codes(sorted(standing.models), codes)


def cross_check(standing: Standing, batch: BatchRatings, published: Ints | None = None) -> CrossCheck:
    """Lay batch ratings beside an order: codes of its models, best first; by conservative score if not said.

    The yardstick is the uncertainty of the batch ratings for all pairs at once. RD is bookkeeping
    and excuses nothing.
    """
    order = standing.order if published is None else published
    interval = batch.interval
    return CrossCheck(
        rows=_rows(standing.models, batch, order),
        level=batch.method.level,
        scope=None if interval is None else interval.scope,
        n_clusters=None if interval is None else interval.n_clusters,
        disagreements=_disagreements(standing.models, batch, order),
        findings=batch.findings,
    )


def _places(names: tuple[str, ...]) -> Ints:
    """Where each code's name stands among the sorted names."""
    place = {name: k for k, name in enumerate(sorted(names))}
    return np.array([place[name] for name in names], dtype=np.int64)


def _by_code(interval: Interval, place: Ints) -> Interval:
    return replace(interval, low=interval.low[place], high=interval.high[place])


def _rows(names: tuple[str, ...], batch: BatchRatings, order: Ints) -> tuple[CrossCheckRow, ...]:
    rating, group, above = batch.rating[order], batch.group[order], batch.above[np.ix_(order, order)]
    peers = (group[:, None] == group[None, :]) & (group >= 0)[:, None]
    rank = 1 + (peers & (rating[None, :] > rating[:, None])).sum(axis=1)
    low, high = 1 + above.sum(axis=0), peers.sum(axis=1) - above.sum(axis=1)
    tier = tiers_of(np.lexsort((-rating, group)), rating, group, above)
    rows: list[CrossCheckRow] = []
    for k, model in enumerate(order.tolist()):
        rated = group[k] >= 0
        below = order[k + 1 : k + 2]
        rows.append(
            CrossCheckRow(
                published=k + 1,
                rank=int(rank[k]) if rated else None,
                model=names[model],
                group=int(group[k]) if rated else None,
                rating=float_or_none(rating[k]),
                low=None if batch.interval is None else float_or_none(batch.interval.low[model]),
                high=None if batch.interval is None else float_or_none(batch.interval.high[model]),
                rank_low=int(low[k]) if rated else None,
                rank_high=int(high[k]) if rated else None,
                tier=int(tier[k]) if rated else None,
                above_next=float_or_none(batch.confidence[model, below[0]]) if len(below) else None,
            )
        )
    return tuple(rows)


def _disagreements(names: tuple[str, ...], batch: BatchRatings, order: Ints) -> tuple[Disagreement, ...]:
    """Pairs of the order whose lower model is proven above the higher, widest gap first."""
    wrong = np.argwhere(np.triu(batch.above[np.ix_(order, order)].T, 1))
    pairs = [
        Disagreement(names[above], names[below], float(batch.rating[below] - batch.rating[above]))
        for above, below in order[wrong].tolist()
    ]
    return tuple(sorted(pairs, key=lambda pair: -pair.gap))
