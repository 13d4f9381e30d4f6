"""The one scale on which all intervals of a board are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

#: Rows do not determine the scale if it shrinks to less than this without them, and they are few.
_SHRUNK_SCALE_RATIO = 1 / 3
#: The part of all rows that are few.
_FEW_ROWS_RATIO = 0.125
#: Ends that are no further outside than this part of the scale are taken in again.
_MARGIN_RATIO = 0.1


@dataclass(frozen=True, slots=True)
class DrawnInterval:
    """An interval with its estimate, in points."""

    low: float
    estimate: float
    high: float


@dataclass(frozen=True, slots=True)
class BarPosition:
    """Where an interval is drawn, in percent of the scale. An end outside of the scale is cut off at its edge."""

    low: float
    #: ``None`` if the estimate is outside of the scale.
    estimate: float | None
    high: float
    #: Whether the interval goes on to the left, and to the right.
    cut_low: bool
    cut_high: bool


@dataclass(frozen=True, slots=True)
class IntervalScale:
    """The points at the left and the right edge."""

    least: float
    most: float

    def position(self, interval: DrawnInterval) -> BarPosition:
        """Where an interval is drawn."""
        within = self.least <= interval.estimate <= self.most
        return BarPosition(
            low=self._percent(interval.low),
            estimate=self._percent(interval.estimate) if within else None,
            high=self._percent(interval.high),
            cut_low=interval.low < self.least,
            cut_high=interval.high > self.most,
        )

    def _percent(self, points: float) -> float:
        return 100.0 * min(max((points - self.least) / ((self.most - self.least) or 1.0), 0.0), 1.0)


def interval_scale(drawn: Sequence[DrawnInterval]) -> IntervalScale | None:
    """The scale from the lowest end to the highest, without outliers; ``None`` if nothing is drawn.

    An outlier would squash all other bars. So rows do not determine the scale while few of them take more than two
    thirds of it, at either side or at both: at most an eighth of the rows, but one of three rows or more. As few as
    possible are left out, and ends that are hardly outside are taken in again. Bars that reach beyond the scale are cut off at its edge, and marked there.
    """
    if not drawn:
        return None
    by_low = sorted(drawn, key=lambda interval: interval.low)
    by_high = sorted(drawn, key=lambda interval: -interval.high)
    few = max(int(_FEW_ROWS_RATIO * len(drawn)), int(len(drawn) > 2))
    ways = []
    for left, right in product(range(few + 1), repeat=2):
        left_out = {id(interval) for interval in (*by_low[:left], *by_high[:right])}
        if len(left_out) <= few:
            scale = IntervalScale(by_low[left].low, by_high[right].high)
            ways.append((len(left_out), scale.most - scale.least, scale))
    ways.sort(key=lambda way: way[:2])
    _, span, scale = ways[0]
    for _, shorter, without in ways:
        if shorter < _SHRUNK_SCALE_RATIO * span:
            span, scale = shorter, without
    margin = _MARGIN_RATIO * span
    return IntervalScale(
        min(interval.low for interval in drawn if interval.low >= scale.least - margin),
        max(interval.high for interval in drawn if interval.high <= scale.most + margin),
    )
