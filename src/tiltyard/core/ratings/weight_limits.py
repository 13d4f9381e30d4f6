"""Limits what one prompt or one voter can weigh.

If a few prompts or voters have most of the battles, a rating is their opinion, and nothing tells how others would
decide. So each weighs at most a share of the total; rating and interval use the same weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiltyard.core.battles import CodedBattles, Table
from tiltyard.core.battles.cluster_keys import MISSING_KEY, Keys
from tiltyard.core.ratings.findings import Finding
from tiltyard.core.ratings.leave_one_out import KeyIndex, KeyOf, prompt_key, sorted_distinct, voter_key
from tiltyard.core.ratings.pairs import Scoring, sum_by_index
from tiltyard.foundation.arrays import Floats

#: With few clusters a limit below 1/n cannot hold: each may weigh this much more than the same for all.
_FEW_CLUSTERS_RATIO = 1.3
#: A share this much above its limit, relative to it, is close enough.
_SHARE_TOLERANCE = 1e-3
#: Prompts and voters are limited in turn, because each changes the shares of the other.
_ROUND_LIMIT = 40
#: Factors are rounded to this many significant bits. Sums of rounded weights are exact, whatever the order of the log.
_FACTOR_BITS = 16

_KEYS: dict[str, KeyOf] = {"prompt": prompt_key, "voter": voter_key}


@dataclass(frozen=True, slots=True)
class ClusterShares:
    """How the weight of the battles is spread over prompts, or over voters."""

    #: Clusters with a battle that counts.
    count: int
    #: The largest share of the total weight, before and after the limit, and how many clusters were reduced.
    largest_before: float
    largest: float
    limited: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class LimitedTable:
    """A table in which no prompt and no voter weighs more than its limit, and the shares by kind of cluster."""

    table: Table
    shares: dict[str, ClusterShares]

    @property
    def largest(self) -> dict[str, float]:
        """The largest share that one prompt, and one voter, has, by kind."""
        return {kind: shares.largest for kind, shares in self.shares.items()}

    def findings(self) -> list[Finding]:
        """What was reduced."""
        return [
            Finding(
                "weight-limited",
                {
                    "case": kind,
                    "limited": shares.limited,
                    "share": shares.largest_before,
                    "most": shares.largest,
                },
            )
            for kind, shares in self.shares.items()
            if shares.limited
        ]


def limit_shares(table: Table, scoring: Scoring, most: float | None) -> LimitedTable:
    """Reduce the weights of large prompts and voters until each has at most ``most`` of the total.

    Scans the log once for prompts and once for voters if nothing is too large, and then once for each round, of which
    a few are enough. ``None`` leaves all weights as they are. If no weights keep the limit for prompts and voters at
    once, the limit is doubled.
    """
    if not table.has_log:
        return LimitedTable(table, {})
    ways = [_Way(kind, table, scoring) for kind in _KEYS if kind in table.keyed]
    ways = [way for way in ways if len(way.keys)]
    while most is not None and not _limit_in_turn(table, scoring, ways, most):
        most *= 2.0
    if any(way.is_limited for way in ways):
        table = table.reweighted(lambda run: _factors(ways, run))
    return LimitedTable(table, {way.kind: way.shares() for way in ways})


class _Way:
    """Clusters of one kind: their keys, the factor of each, and what each weighs."""

    def __init__(self, kind: str, table: Table, scoring: Scoring) -> None:
        self.kind = kind
        self._key = _KEYS[kind]
        self.keys, self.weight, self.alone = _weigh(table, scoring, self._key)
        self._index = KeyIndex(self.keys)
        self.factor = np.ones(len(self.keys))
        self._before = self.largest

    @property
    def total(self) -> float:
        return float(self.weight.sum()) + self.alone

    @property
    def largest(self) -> float:
        return float(self.weight.max(initial=0.0)) / self.total if self.total else 0.0

    @property
    def is_limited(self) -> bool:
        return bool((self.factor < 1.0).any())

    def _limit(self, most: float) -> float:
        return max(most, _FEW_CLUSTERS_RATIO / len(self.keys))

    def is_above(self, most: float) -> bool:
        """Whether some cluster has more than its limit."""
        return self.largest > self._limit(most) * (1.0 + _SHARE_TOLERANCE)

    def reduce(self, most: float) -> None:
        """Reduce the clusters above the limit."""
        kept = _kept(self.weight, self.alone, self._limit(most))
        self.factor *= kept / self.weight
        self.weight = kept

    def recount(self, table: Table, scoring: Scoring, ways: list[_Way]) -> None:
        """What each cluster weighs under the present factors."""
        _, self.weight, self.alone = _weigh(table, scoring, self._key, ways)

    def factor_of(self, run: CodedBattles) -> Floats:
        keys = self._key(run)
        if keys is None:
            return np.ones(len(run))
        # Battles that do not count may have a key of their own.
        place = np.minimum(self._index.positions(keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, self.factor[place], 1.0)

    def shares(self) -> ClusterShares:
        return ClusterShares(len(self.keys), self._before, self.largest, int((self.factor < 1.0).sum()))


def _limit_in_turn(table: Table, scoring: Scoring, ways: list[_Way], most: float) -> bool:
    """Whether a few rounds are enough; if not, all weights are as before."""
    for number in range(_ROUND_LIMIT):
        if not any(way.is_above(most) for way in ways):
            return True
        way = ways[number % len(ways)]
        if way.is_above(most):
            way.reduce(most)
            for other in ways:
                if other is not way:
                    other.recount(table, scoring, ways)
    for way in ways:
        way.factor[:] = 1.0
    for way in ways:
        way.recount(table, scoring, ways)
    return False


def _factors(ways: list[_Way], run: CodedBattles) -> Floats:
    return round_factors(np.prod([way.factor_of(run) for way in ways], axis=0))


def round_factors(factors: Floats) -> Floats:
    """Factors of weights that add up exactly."""
    significand, exponent = np.frexp(factors)
    return np.asarray(np.ldexp(np.rint(np.ldexp(significand, _FACTOR_BITS)), exponent - _FACTOR_BITS))


def _weigh(
    table: Table, scoring: Scoring, key: KeyOf, ways: list[_Way] | None = None
) -> tuple[Keys, Floats, float]:
    """The distinct keys of battles that count, the weight of each, and the weight of those without a key."""
    alone = 0.0
    found: list[tuple[Keys, Floats]] = [(np.empty(0, dtype=np.uint64), np.empty(0))]
    for run in table.scan():
        weight = np.ones(len(run)) if run.weight is None else run.weight
        used = ~np.isnan(scoring.of(run)) & (weight > 0.0)
        weight = weight * _factors(ways, run) if ways else weight
        keys = key(run)
        named = np.zeros(len(run), dtype=bool) if keys is None else used & (keys != MISSING_KEY)
        alone += float(weight[used & ~named].sum())
        if keys is not None:
            found.append(_summed(keys[named], weight[named]))
    keys, weight = (np.concatenate(column) for column in zip(*found, strict=True))
    return *_summed(keys, weight), alone


def _summed(keys: Keys, weight: Floats) -> tuple[Keys, Floats]:
    known = sorted_distinct(keys)
    return known, sum_by_index(KeyIndex(known).positions(keys), weight, len(known))


def _kept(weight: Floats, alone: float, limit: float) -> Floats:
    """The largest weights, none above its own, of which none exceeds ``limit`` of the total.

    With the j largest at the limit, the total T is (1 − j·limit)⁻¹ times the rest.
    """
    largest = np.sort(weight)[::-1]
    rest = alone + np.cumsum(largest[::-1])[::-1]
    j = np.arange(len(largest))
    total = rest / np.maximum(1.0 - j * limit, 1e-12)
    # The first j whose next cluster is within the limit. There is one: n·limit is above 1.
    first = int(np.argmax(largest <= limit * total * (1.0 + 1e-12)))
    return np.asarray(np.minimum(weight, limit * total[first]))
