"""Cost and speed of an arena's models beside their ratings, where responses say what they took to make."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.content.model_details import ArenaModelDetails, ModelDetails
from tiltyard.arena.content.response_details import ModelUsage, read_usage
from tiltyard.errors import NotFound
from tiltyard.web.access.access import registry_of
from tiltyard.web.access.route_access import ReadableArena
from tiltyard.web.pages.board_data import board_page_cache_of, gather_board_page
from tiltyard.web.pages.board_query import BoardQuery
from tiltyard.web.pages.board_view import BoardLine
from tiltyard.web.pages.layout import localization_of, pages_of, send_page, theme_of
from tiltyard.web.pages.scatter_plot import PlotPoint, ScatterPlot, scatter_plot

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


@router.get("/arenas/{arena}/usage", response_class=HTMLResponse)
async def usage_page(arena: ReadableArena, request: Request) -> Response:
    """Cost, latency, and both over the rating."""
    whole = await gather_board_page(request, arena, BoardQuery())
    if not whole.facts.used:
        raise NotFound("no response of this arena says what it took to make; see its board")
    usage = await read_usage(registry_of(request).pool, arena.arena)
    kept = board_page_cache_of(request)
    look = (localization_of(request).language, theme_of(request))
    key = ("usage", look, whole.key(), tuple(usage))
    found = kept.made.get(key)
    if found is None:
        table = make_usage_table(kept.view(whole.first).lines, usage, whole.details)
        html = await asyncio.to_thread(
            pages_of(request).render,
            "board/usage.html",
            request,
            active="board",
            arena=arena,
            board_views=whole.facts.views,
            table=table,
        )
        found = kept.made.put(key, (html.encode(), sha256(html.encode()).hexdigest()), len(html))
    return send_page(request, arena, *found)


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
