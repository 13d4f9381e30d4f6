"""Pages of boards: the newest board of an arena, and published ones by hash."""

from __future__ import annotations

import asyncio
from hashlib import sha256

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup

from tiltyard.arena.content.arenas import Arena
from tiltyard.core.ratings import Finding
from tiltyard.errors import NotFound
from tiltyard.report.board_charts import charts_available
from tiltyard.web.access.access import registry_of
from tiltyard.web.access.route_access import ReadableArena, boards_of
from tiltyard.web.pages import paths
from tiltyard.web.pages.board_data import BoardPageData, SourceBoard, board_page_cache_of, gather_board_page
from tiltyard.web.pages.board_downloads import download_links, download_rows
from tiltyard.web.pages.board_query import BoardQueryParams
from tiltyard.web.pages.board_view import (
    BoardView,
    compare_sources,
    digits_to_show,
    filtered_view,
    floor_percent,
)
from tiltyard.web.pages.chart_pages import ChartView, chart_view
from tiltyard.web.pages.layout import localization_of, pages_of, render_page, send_page, theme_of
from tiltyard.web.routes.boards import Hash

router = APIRouter(include_in_schema=False)

#: Separates rows in the rendered text. Untrusted text never contains it, because invisible characters are escaped.
_ROW_SEPARATOR = "\x1e"


@router.api_route("/arenas/{arena}", methods=["GET", "HEAD"], response_class=HTMLResponse)
async def board_page(arena: ReadableArena, request: Request, query: BoardQueryParams) -> Response:
    """The newest board."""
    try:
        await boards_of(request).latest(arena.arena, 0)
    except NotFound:
        return render_page(request, "board/none.html", arena=arena, active="board")
    return await _sent(request, arena, await gather_board_page(request, arena, query))


@router.api_route("/arenas/{arena}/boards/{sha256}", methods=["GET", "HEAD"], response_class=HTMLResponse)
async def snapshot_page(
    arena: ReadableArena, sha256: Hash, request: Request, query: BoardQueryParams
) -> Response:
    """A published board. Its content never changes, but its appearance may."""
    once = await boards_of(request).published(arena.arena, sha256)
    return await _sent(request, arena, await gather_board_page(request, arena, query, once))


async def _sent(request: Request, arena: Arena, material: BoardPageData) -> Response:
    """Send the page, cached by board, query, language and theme."""
    kept, chart = board_page_cache_of(request), await chart_view(request, material)
    look = (localization_of(request).language, theme_of(request))
    stage = arena.settings.stage
    key = ("page", look, stage, material.key(), tuple(chart.svg.values()), chart.drawn)
    found = kept.made.get(key)
    if found is None:
        async with kept.making:
            found = kept.made.get(key)
            if found is None:
                html = (await asyncio.to_thread(_rendered, request, material, chart)).encode()
                found = kept.made.put(key, (html, sha256(html).hexdigest()), len(html))
    return send_page(request, arena, *found)


def _rendered(request: Request, material: BoardPageData, chart: ChartView) -> str:
    """Render the page."""
    query, first = material.query, material.first
    path = paths.board(material.arena.name)
    if material.permanent:
        path = paths.snapshot(material.arena.name, first.snapshot.sha256)
    shown, chosen = (
        (material.arena.name, first.snapshot.sha256),
        query.chosen_votes,
    )
    values: dict[str, object] = {
        "active": "board",
        "arena": material.arena,
        "board": first,
        "board_views": () if material.permanent else material.facts.views,
        "boards": material.boards,
        "chart": chart,
        "document": first.document,
        "effects": material.effects,
        "facts": material.facts,
        "files": download_links(material),
        "here": query.address(path),
        "level": _level(first),
        "findings": [(board.document.source, one) for board in material.boards for one in _findings(board)],
        "judged": material.judged,
        "languages": [(one, one) for one in material.facts.languages],
        "origin": registry_of(request).settings.address(),
        "path": path,
        "permanent": material.permanent,
        "policy": first.document.method.policy,
        "preview_address": paths.asked(paths.snapshot(*shown), chosen),
        "preview_picture": paths.board_card(*shown, chosen) if charts_available() else None,
        "query": query,
        "seen_digits": digits_to_show,
    }
    kept = board_page_cache_of(request)
    views = [kept.view(board) for board in material.boards]
    view = filtered_view(views[0], query)
    values["some_retired"] = any(one.retired for one in views)
    values |= {"view": view, "views": views, "columns": list(download_rows(views, query)[0])}
    if len(views) == 2:
        pairs = compare_sources(views[0].lines, views[1].lines, query)
        return pages_of(request).render("board/both.html", request, pairs=pairs, **values)
    rows = _rows(request, material, views[0])
    bodies = [rows[line.model] for line in view.lines]
    return pages_of(request).render("board/board.html", request, bodies=bodies, **values)


def _findings(board: SourceBoard) -> tuple[Finding, ...]:
    """What a reader must know before trusting the numbers: about the board, and about the fit behind it."""
    if board.filtered is not None:
        return board.filtered.findings
    cross = board.document.cross_check
    fit = () if cross is None else cross.findings
    return (*board.document.findings, *fit)


def _level(board: SourceBoard) -> float | None:
    """The confidence level of the intervals that are drawn."""
    cross = (board.filtered or board.document).cross_check
    return None if cross is None else cross.level


def _rows(request: Request, material: BoardPageData, view: BoardView) -> dict[str, Markup]:
    """All rows of a board as HTML, by model; cached, because searching and sorting does not change them."""
    kept, board, arena = board_page_cache_of(request), material.first, material.arena
    key = (board.sha256, arena.name, material.details.version, localization_of(request).language)
    found = kept.rows.get(key)
    if found is None:
        text = pages_of(request).render(
            "board/rows.html",
            request,
            arena=arena,
            board=board,
            details=material.details,
            document=board.filtered or board.document,
            floored=floor_percent,
            view=view,
        )
        bodies = text.split(_ROW_SEPARATOR)[1:]
        models = [line.model for line in view.lines]
        rendered = (Markup(body) for body in bodies)  # noqa: S704 - a template of ours made it  # nosec B704
        found = kept.rows.put(key, dict(zip(models, rendered, strict=True)))
    return found
