"""The chart of ratings with their intervals, as a static picture: it needs no script and prints as it is shown.

Its colours are those of a light page, as attributes, so that the picture also stands alone; a page may restyle it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tiltyard.core.board import Board, Row
from tiltyard.report.board_cells import interval_text, model_text, rank_range
from tiltyard.report.html_parts import text_html
from tiltyard.report.svg_text import FONT_FAMILY, text_width, wrap_text

_INK, _SOFT, _LINE, _ACCENT = "#1d2328", "#5d6870", "#d9dee2", "#2f6f8f"
_FONT_PIXELS, _SMALL_FONT_PIXELS = 13.0, 12.0
_LINE_PIXELS = 15.0
_DOT_PIXELS = 4.5
#: Empty space around the picture, and between the names and the intervals.
_MARGIN_PIXELS, _GAP_PIXELS = 8.0, 16.0
#: The height of the axis with its numbers and its title.
_AXIS_PIXELS = 42.0
_NAME_LINES = 2


@dataclass(frozen=True, slots=True)
class ChartLayout:
    """The size of a chart."""

    width: float
    #: The largest width of the names; ``None`` writes each name above its interval.
    names: float | None
    #: Space above and below each row.
    space: float
    ticks: int


#: For papers and screens, and for phones.
WIDE = ChartLayout(width=640.0, names=250.0, space=9.0, ticks=6)
NARROW = ChartLayout(width=350.0, names=None, space=7.0, ticks=4)


@dataclass(frozen=True, slots=True)
class _Axis:
    """Where numbers lie in the picture."""

    low: float
    high: float
    left: float
    right: float

    def at(self, value: float) -> float:
        return self.left + (value - self.low) / (self.high - self.low) * (self.right - self.left)

    def ticks(self, most: int) -> list[float]:
        """Round numbers, at most so many."""
        rough = (self.high - self.low) / most
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= rough)
        first = math.ceil(self.low / step)
        return [k * step for k in range(first, math.floor(self.high / step) + 1)]


def drawn_rows(board: Board) -> list[Row]:
    """The rows that one axis can show: rated, and comparable with each other."""
    return [row for row in board.rows if row.group == 0 and row.rating is not None]


def chart_title(board: Board) -> str:
    return "Ratings" if board.level is None else f"Ratings with {100 * board.level:g}% intervals"


def interval_chart(board: Board, layout: ChartLayout = WIDE) -> str:
    """The chart as SVG; empty if there is nothing to draw."""
    rows = drawn_rows(board)
    if not rows:
        return ""
    ranks = max(text_width(str(row.rank), _FONT_PIXELS) for row in rows)
    start = _MARGIN_PIXELS + ranks + 8.0
    names = [
        wrap_text(model_text(row), _FONT_PIXELS, _name_width(layout, start), _NAME_LINES) for row in rows
    ]
    left = _MARGIN_PIXELS + _DOT_PIXELS
    if layout.names is not None:
        left = start + max(text_width(line, _FONT_PIXELS) for lines in names for line in lines) + _GAP_PIXELS
    axis = _axis(rows, left, layout.width - _MARGIN_PIXELS - _DOT_PIXELS)
    body, y = "", _MARGIN_PIXELS
    for row, lines in zip(rows, names, strict=True):
        height = len(lines) * _LINE_PIXELS + layout.space + (0.0 if layout.names else _LINE_PIXELS)
        body += _row(row, lines, axis, _Place(start, y, height, beside=layout.names is not None))
        y += height
    parts = "".join(_axis_parts(axis, layout, y))
    height = y + _AXIS_PIXELS
    label = text_html(f"{chart_title(board)} of {len(rows)} models")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {layout.width:g} {height:g}" width="{layout.width:g}" '
        f'height="{height:g}" role="img" aria-label="{label}" font-family="{text_html(FONT_FAMILY)}" '
        f'font-size="{_FONT_PIXELS:g}">\n<rect class="paper" width="100%" height="100%" fill="#fff"/>\n{parts}'
        f'<g class="rows" fill="{_INK}" stroke-width="2">\n{body}</g>\n</svg>\n'
    )


def _name_width(layout: ChartLayout, start: float) -> float:
    return layout.width - start - _MARGIN_PIXELS if layout.names is None else layout.names


def _axis(rows: Sequence[Row], left: float, right: float) -> _Axis:
    ends = [end for row in rows for end in (row.low, row.rating, row.high) if end is not None]
    low, high = min(ends), max(ends)
    if high - low < 1.0:
        low, high = low - 10.0, high + 10.0
    return _Axis(low, high, left, right)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a row is drawn; its interval ``beside`` the name, or below it."""

    start: float
    top: float
    height: float
    beside: bool


def _row(row: Row, lines: Sequence[str], axis: _Axis, place: _Place) -> str:
    inside = place.height - (0.0 if place.beside else _LINE_PIXELS)
    first = place.top + (inside - len(lines) * _LINE_PIXELS) / 2.0 + 11.5
    y = place.top + (place.height / 2.0 if place.beside else place.height - _LINE_PIXELS / 2.0 - 3.0)
    texts = "".join(
        f'<text x="{place.start:.1f}" y="{first + k * _LINE_PIXELS:.1f}">{text_html(line)}</text>'
        for k, line in enumerate(lines)
    )
    assert row.rating is not None
    bar = ""
    if row.low is not None and row.high is not None:
        bar = f'<path d="M{axis.at(row.low):.1f} {y:.1f}H{axis.at(row.high):.1f}" stroke="{_ACCENT}"/>'
    # A phone has nothing that hovers.
    title = f"<title>{text_html(_row_title(row))}</title>" if place.beside else ""
    return (
        f'<g>{title}<text class="soft" x="{place.start - 8.0:.1f}" y="{first:.1f}" fill="{_SOFT}" '
        f'text-anchor="end">{row.rank}</text>{texts}{bar}<circle cx="{axis.at(row.rating):.1f}" cy="{y:.1f}" '
        f'r="{_DOT_PIXELS:g}" fill="{_ACCENT}"/></g>\n'
    )


def _row_title(row: Row) -> str:
    interval, ranks = interval_text(row), rank_range(row.rank_low, row.rank_high)
    parts = [
        f"{row.rating:.0f}",
        f"interval {interval}" if interval else "",
        f"ranks {ranks}" if ranks else "",
    ]
    return f"{model_text(row)}: {', '.join(part for part in parts if part)}"


def _axis_parts(axis: _Axis, layout: ChartLayout, bottom: float) -> Iterator[str]:
    ticks = axis.ticks(layout.ticks)
    lines = "".join(f'<path d="M{axis.at(tick):.1f} {_MARGIN_PIXELS:g}V{bottom:.1f}"/>' for tick in ticks)
    yield f'<g class="grid" stroke="{_LINE}">{lines}</g>\n'
    numbers = "".join(
        f'<text x="{min(axis.at(tick), layout.width - 18.0):.1f}" y="{bottom + 15.0:.1f}">{tick:g}</text>'
        for tick in ticks
    )
    middle = (axis.left + axis.right) / 2.0
    yield (
        f'<g class="soft" fill="{_SOFT}" font-size="{_SMALL_FONT_PIXELS:g}" text-anchor="middle">{numbers}'
        f'<text x="{middle:.1f}" y="{bottom + 33.0:.1f}">rating</text></g>\n'
    )
