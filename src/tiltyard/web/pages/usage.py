"""Cost and speed of an arena's models beside their ratings, where responses say what they took to make; and how they write."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response

from tiltyard.arena.boards.battle_effects import StyledRow, StyleEffect
from tiltyard.arena.content.model_details import ArenaModelDetails, ModelDetails
from tiltyard.arena.content.response_details import ModelUsage, read_usage
from tiltyard.errors import NotFound
from tiltyard.web.access.access import registry_of
from tiltyard.web.access.route_access import ReadableArena, boards_of, source_number
from tiltyard.web.pages.board_data import BoardPageCache, gather_board_page, send_view
from tiltyard.web.pages.board_query import BoardQuery
from tiltyard.web.pages.board_view import BoardLine
from tiltyard.web.pages.model import SourceWord

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


router = APIRouter(include_in_schema=False)

_MILLION_TOKENS = 1e6


@dataclass(frozen=True, slots=True)
class AnswerCost:
    """What a model's responses cost on average: as stated with them, or by their tokens and the model's price."""

    usd: float
    basis: Literal["stated", "priced"]
    #: The responses that the mean is over.
    responses: int


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One model: its row on the board, what its responses took, and what they cost, if that is known."""

    number: int
    line: BoardLine
    usage: ModelUsage
    cost: AnswerCost | None

    @property
    def usd(self) -> float | None:
        """The mean cost of a response in US dollars."""
        return None if self.cost is None else self.cost.usd


@dataclass(frozen=True, slots=True)
class UsageTable:
    """The models of a board with what they took; unknown numbers are left out of the plots, and counted."""

    rows: tuple[UsageRow, ...]
    cost_plot: ScatterPlot | None
    latency_plot: ScatterPlot | None

    @property
    def without_cost(self) -> int:
        """Models whose cost is not known."""
        return sum(row.cost is None for row in self.rows)

    @property
    def without_latency(self) -> int:
        """Models whose latency is not known."""
        return sum(row.usage.median_latency_seconds is None for row in self.rows)


@router.get("/arenas/{arena}/usage")
async def usage_page(arena: ReadableArena, request: Request) -> Response:
    """Cost, latency, and both over the rating."""
    whole = await gather_board_page(request, arena, BoardQuery())
    if not whole.facts.used:
        raise NotFound("no response of this arena says what it took to make; see its board")
    usage = await read_usage(registry_of(request).pool, arena.arena)

    def read(kept: BoardPageCache) -> dict[str, object]:
        return {"table": make_usage_table(kept.view(whole.first).lines, usage, whole.details)}

    return await send_view(request, whole, "board/usage.html", (whole.key(), tuple(usage)), read)


def make_usage_table(
    lines: Sequence[BoardLine], usage: Sequence[ModelUsage], details: ArenaModelDetails
) -> UsageTable:
    """The rows of the models that are not retired, in the order of the board."""
    known: Mapping[str, ModelUsage] = {one.model: one for one in usage}
    shown = [line for line in lines if not line.retired and line.model in known]
    rows = tuple(
        UsageRow(number, line, known[line.model], answer_cost(known[line.model], details.of(line.model)))
        for number, line in enumerate(shown, start=1)
    )
    return UsageTable(
        rows,
        scatter_plot([point for row in rows if (point := _point(row, row.usd))]),
        scatter_plot([point for row in rows if (point := _point(row, row.usage.median_latency_seconds))]),
    )


def answer_cost(usage: ModelUsage, details: ModelDetails) -> AnswerCost | None:
    """The mean cost of a response; ``None`` if it is stated nowhere and cannot be computed. It is never taken as zero."""
    if usage.mean_cost_usd is not None:
        return AnswerCost(usage.mean_cost_usd, "stated", usage.costed)
    if usage.mean_input_tokens is None or usage.mean_output_tokens is None:
        return None
    if details.input_usd is None or details.output_usd is None:
        return None
    spent = usage.mean_input_tokens * details.input_usd + usage.mean_output_tokens * details.output_usd
    return AnswerCost(spent / _MILLION_TOKENS, "priced", usage.counted)


def _point(row: UsageRow, taken: float | None) -> PlotPoint | None:
    line = row.line
    if taken is None or line.bradley_terry is None:
        return None
    return PlotPoint(row.number, line.model, taken, line.bradley_terry, line.low, line.high)


#: Standard errors beyond which an effect is named.
_NAMED_STANDARD_ERRORS = 2.0


@dataclass(frozen=True, slots=True)
class ModelStyle:
    """One model: its ratings, and how it writes on average."""

    row: StyledRow
    usage: ModelUsage | None

    @property
    def change(self) -> float | None:
        """The points that the rating gains at equal style."""
        plain, equal = self.row["plain"]["rating"], self.row["equal_style"]["rating"]
        return None if plain is None or equal is None else round(equal) - round(plain)


@router.get("/arenas/{arena}/style")
async def style_page(arena: ReadableArena, request: Request, source: SourceWord = "human") -> Response:
    """How models write, and their ratings at equal style."""
    whole = await gather_board_page(request, arena, BoardQuery(source=source))
    if not whole.facts.styled:
        raise NotFound(
            "the style of this arena's responses is not known, or there are no votes; see its board"
        )
    said = await boards_of(request).styled(arena, source_number(source))
    usage = await read_usage(registry_of(request).pool, arena.arena)

    def read(kept: BoardPageCache) -> dict[str, object]:
        rows, known = {row["model"]: row for row in said["rows"]}, {one.model: one for one in usage}
        lines = [line for line in kept.view(whole.first).lines if not line.retired and line.model in rows]
        return {
            "favoured": [(one["trait"], trait_favoured(one)) for one in said["effects"]],
            "said": said,
            "styles": [ModelStyle(rows[line.model], known.get(line.model)) for line in lines],
        }

    key = (whole.key(), said["snapshot"], tuple(usage))
    return await send_view(request, whole, "board/style.html", key, read)


def trait_favoured(effect: StyleEffect) -> bool | None:
    """Whether more of a trait wins votes (or loses them); ``None`` if that is within chance."""
    error = effect["standard_error"]
    if (
        error is None
        or not math.isfinite(error)
        or abs(effect["coefficient"]) < _NAMED_STANDARD_ERRORS * error
    ):
        return None
    return effect["coefficient"] > 0.0
