"""Charts of a board: one definition for the page, the picture and the table beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from tiltyard.arena.content.arenas import Arena
from tiltyard.errors import MissingExtra, NotFound
from tiltyard.report.arena_charts import (
    FEW_BATTLES,
    ChartContent,
    RatingPoint,
    arena_chart,
    drawing_version,
    page_spec,
)
from tiltyard.report.board_charts import (
    HEATMAP_MODELS,
    charts_available,
    fit_to_phone,
    localise_spec,
    render_svg,
)
from tiltyard.web.access.route_access import ReadableArena, boards_of
from tiltyard.web.edge.logs import log_failure
from tiltyard.web.pages.board_data import (
    BoardPageData,
    SourceBoard,
    board_page_cache_of,
    gather_board_page,
    send_file,
)
from tiltyard.web.pages.board_query import BoardQuery, BoardQueryParams, Chart, Snap
from tiltyard.web.pages.board_view import BoardView, Kind, filtered_view
from tiltyard.web.pages.layout import LANGUAGE_PARAMETER, localization_of
from tiltyard.web.pages.localization import Localization
from tiltyard.web.pages.paths import asked, board

router = APIRouter(include_in_schema=False)

#: Looked up once: every page of a board asks.
_charts_available = cache(charts_available)

ChartLook = Literal["light", "dark"]
Theme = Annotated[ChartLook, Query()]
#: Maximum number of lines in the history chart.
_HISTORY_LINE_LIMIT = 10
#: With more models, a heatmap's table is placed below it.
_COMPACT_HEATMAP_MODEL_LIMIT = 10


def _(text: str) -> str:
    """Mark a text for the catalogue."""
    return text


_SCORES: Mapping[Kind, str] = {
    "conservative": _("conservative score"),
    "bradley-terry": _("Bradley–Terry rating"),
    "legacy-elo": _("legacy Elo"),
}
#: The axis of the ratings chart, if there are intervals.
_INTERVALS = _("Bradley–Terry rating, with interval")


@dataclass(frozen=True, slots=True, eq=False)
class ChartView:
    """A chart on a page: its data, and the URLs of its picture and its spec."""

    name: Chart
    content: ChartContent
    #: URLs by theme.
    svg: Mapping[str, str]
    spec: Mapping[str, str]
    #: Whether there is data, and charts can be drawn.
    drawn: bool
    #: For a heatmap: cells with fewer battles are pale.
    few: int = FEW_BATTLES

    @property
    def wide(self) -> bool:
        """Whether its table is placed below it."""
        return bool(self.content.pairs) and len(self.content.models) > _COMPACT_HEATMAP_MODEL_LIMIT

    def scant(self) -> frozenset[tuple[str, str]]:
        """For the heatmap of win rates: pairs with too few battles for a strong colour."""
        if self.name != "win-rates":
            return frozenset()
        seldom = [
            (pair["model_a"], pair["model_b"]) for pair in self.content.pairs if pair["battles"] < self.few
        ]
        return frozenset(seldom) | {(b, a) for a, b in seldom}

    def cells(self) -> dict[tuple[str, str], float | None]:
        """For a heatmap: the values by row and column."""
        cells: dict[tuple[str, str], float | None] = {}
        for pair in self.content.pairs:
            a, b, score = pair["model_a"], pair["model_b"], pair["score"]
            if self.name == "battle-counts":
                cells[a, b] = cells[b, a] = pair["battles"]
            elif score is not None:
                cells[a, b], cells[b, a] = score, 1.0 - score
        return cells

    @property
    def most(self) -> float:
        """For a heatmap: the maximum of the colour scale."""
        counted = self.name == "battle-counts"
        return max(1, *(pair["battles"] for pair in self.content.pairs)) if counted else 1

    def times(self) -> list[tuple[str, int, dict[str, float | None]]]:
        """For the history: time, votes, and the value of each model, newest first."""
        rows: dict[tuple[str, int], dict[str, float | None]] = {}
        for point in self.content.points:
            rows.setdefault((point.at, point.votes), {})[point.model] = point.value
        return [(at, votes, values) for (at, votes), values in reversed(rows.items())]


async def chart_view(request: Request, material: BoardPageData) -> ChartView:
    """The chart that a page's query selects."""
    name, first = material.query.chart, material.first
    content = await _content(request, material.arena, material.query, name, first, exact=material.permanent)
    address = {
        form: {theme: _address(request, material, name, form, theme, content) for theme in ("light", "dark")}
        for form in ("svg", "json")
    }
    drawn = _charts_available() and bool(content.dots or content.pairs or content.points)
    return ChartView(name, content, address["svg"], address["json"], drawn)


@router.get("/arenas/{arena}/charts/{name}.{form}")
async def chart(
    arena: ReadableArena,
    name: Chart,
    form: Literal["svg", "json"],
    request: Request,
    query: BoardQueryParams,
    theme: Theme = "light",
    snapshot: Snap = None,
    drawn: Annotated[str, Query(description="The version of the drawing code.")] = "",
    narrow: Annotated[bool, Query(description="For a phone.")] = False,
) -> Response:
    """A chart as a picture or a Vega-Lite spec.

    With a snapshot and the current version of the drawing code, it never changes and is cached forever.
    """
    if not _charts_available():
        raise NotFound("charts are not available on this server; the page has their numbers in tables")
    once = None if snapshot is None else await boards_of(request).published(arena.arena, snapshot)
    material = await gather_board_page(request, arena, query.changed(q="", chart=name), once)
    content = await _content(request, arena, material.query, name, material.first, exact=once is not None)
    kept, localization = board_page_cache_of(request), localization_of(request)
    hashed = sha256(repr(content).encode("utf-8", "surrogatepass")).hexdigest()
    key = ("chart", name, theme, form, narrow, localization.language, hashed)
    made = await kept.drawn(key, lambda: _draw(name, content, theme, form, localization, narrow=narrow))
    media_type = "image/svg+xml" if form == "svg" else "application/json"
    for_ever = once is not None and drawn == drawing_version()
    return send_file(request, arena, made, media_type, for_ever=for_ever, spoken=True)


def _draw(
    name: str,
    content: ChartContent,
    theme: ChartLook,
    form: str,
    localization: Localization,
    *,
    narrow: bool,
) -> bytes:
    try:
        spec = arena_chart(name, content, theme, localization.texts.gettext)
        spec = localise_spec(spec, localization.chart_locale())
        spec = fit_to_phone(spec) if narrow else spec
        return render_svg(spec) if form == "svg" else json.dumps(page_spec(spec), ensure_ascii=False).encode()
    except MissingExtra as error:
        raise NotFound(str(error)) from None
    except ValueError as error:
        log_failure("a chart cannot be drawn", error)
        raise NotFound("this chart cannot be drawn; the page has its numbers in a table") from None


async def _content(
    request: Request, arena: Arena, query: BoardQuery, name: str, of: SourceBoard, *, exact: bool
) -> ChartContent:
    kept, boards, once = board_page_cache_of(request), boards_of(request), of.snapshot if exact else None
    if name == "ratings":
        return _rated(kept.view(of))
    if name == "history":
        if of.filtered is not None:
            return ChartContent()
        found = await boards.history(arena, of.snapshot.source, _HISTORY_LINE_LIMIT, once)
        return replace(
            found, axis=_SCORES["legacy-elo" if of.document.order == "legacy-elo" else "bradley-terry"]
        )
    return await boards.pairs(arena, query.part(of.snapshot.source), HEATMAP_MODELS, once)


def _rated(whole: BoardView) -> ChartContent:
    """Bradley–Terry ratings with their intervals where there are any, as in the table; else what the board is ordered by."""
    view = filtered_view(whole, BoardQuery(retired="hide"))
    if whole.scale is None:
        scores = [(line, line.score) for line in view.lines if line.score is not None]
        return ChartContent(
            _SCORES[view.kind],
            [RatingPoint(line.model, score, None, None, line.votes) for line, score in scores],
        )
    rated = [(line, line.bradley_terry) for line in view.lines if line.bradley_terry is not None]
    return ChartContent(
        _INTERVALS,
        [RatingPoint(line.model, rating, line.low, line.high, line.votes) for line, rating in rated],
    )


def _address(
    request: Request, material: BoardPageData, name: str, form: str, theme: str, content: ChartContent
) -> str:
    """The URL of a chart; with the hash of its snapshot if possible, so that it can be cached forever."""
    path = f"{board(material.arena.name)}/charts/{name}.{form}"
    query, first = material.query, material.first
    look = {"theme": theme, LANGUAGE_PARAMETER: localization_of(request).language}
    if first.filtered is None:
        snapshot = content.snapshot or first.snapshot.sha256
        return asked(path, {**look, "snapshot": snapshot, "drawn": drawing_version()})
    source = {"source": "llm-judge"} if first.snapshot.source else {}
    once = {"snapshot": first.snapshot.sha256} if material.permanent else {}
    votes = query.chosen_votes
    return asked(path, {**votes, **source, **look, **once})
