"""Where the points of a small scatter plot lie: ratings with intervals, over something that is above zero."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

#: The size of the drawing, and the room for labels around the plot, in its own units.
_WIDTH_PIXELS, _HEIGHT_PIXELS = 640.0, 360.0
_LEFT_PIXELS, _RIGHT_PIXELS, _TOP_PIXELS, _BOTTOM_PIXELS = 56.0, 16.0, 12.0, 34.0
_TICK_COUNT = 4
#: The part of the span that is left free at each end.
_MARGIN_SHARE = 0.06


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """A model: the number of its row, what it takes, and its rating with its interval."""

    number: int
    model: str
    taken: float
    rating: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class PlacedPoint:
    """A point in the drawing; ``low`` and ``high`` are the ends of its interval."""

    point: PlotPoint
    x: float
    y: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class PlotTick:
    """A value on an axis."""

    at: float
    value: float


@dataclass(frozen=True, slots=True)
class ScatterPlot:
    """A drawing of points, with its axes. The lower axis is logarithmic."""

    points: tuple[PlacedPoint, ...]
    across: tuple[PlotTick, ...]
    up: tuple[PlotTick, ...]
    width: float = _WIDTH_PIXELS
    height: float = _HEIGHT_PIXELS
    left: float = _LEFT_PIXELS
    bottom: float = _HEIGHT_PIXELS - _BOTTOM_PIXELS
    right: float = _WIDTH_PIXELS - _RIGHT_PIXELS
    top: float = _TOP_PIXELS


def scatter_plot(points: Sequence[PlotPoint]) -> ScatterPlot | None:
    """Place points; ``None`` with fewer than two. What is not above zero has no place on a logarithmic axis."""
    shown = [one for one in points if one.taken > 0.0]
    if len(shown) < 2:
        return None
    across = _span([math.log10(one.taken) for one in shown])
    ends = [end for one in shown for end in (one.rating, one.low, one.high) if end is not None]
    up = _span(ends)
    return ScatterPlot(
        tuple(
            PlacedPoint(
                one,
                _x(math.log10(one.taken), across),
                _y(one.rating, up),
                None if one.low is None else _y(one.low, up),
                None if one.high is None else _y(one.high, up),
            )
            for one in shown
        ),
        tuple(PlotTick(_x(at, across), 10.0**at) for at in _ticks(across)),
        tuple(PlotTick(_y(at, up), at) for at in _ticks(up)),
    )


def _span(values: Sequence[float]) -> tuple[float, float]:
    least, most = min(values), max(values)
    margin = _MARGIN_SHARE * (most - least) or 0.1
    return least - margin, most + margin


def _ticks(span: tuple[float, float]) -> list[float]:
    step = (span[1] - span[0]) / (_TICK_COUNT + 1)
    return [span[0] + step * (k + 1) for k in range(_TICK_COUNT)]


def _x(value: float, span: tuple[float, float]) -> float:
    return _LEFT_PIXELS + (value - span[0]) / (span[1] - span[0]) * (
        _WIDTH_PIXELS - _LEFT_PIXELS - _RIGHT_PIXELS
    )


def _y(value: float, span: tuple[float, float]) -> float:
    room = _HEIGHT_PIXELS - _TOP_PIXELS - _BOTTOM_PIXELS
    return _HEIGHT_PIXELS - _BOTTOM_PIXELS - (value - span[0]) / (span[1] - span[0]) * room
