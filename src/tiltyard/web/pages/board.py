"""The leaderboard: the newest board of an arena, and every one that was published, by its hash."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup

from tiltyard.arena.content.arenas import Arena
from tiltyard.errors import NotFound
from tiltyard.web.access import house_of
from tiltyard.web.pages import paths
from tiltyard.web.pages.board_material import Counted, Material, board_pages_of, gathered
from tiltyard.web.pages.board_query import Asked
from tiltyard.web.pages.board_view import View, asked_view, beside, floored, seen_digits
from tiltyard.web.pages.charts import ChartView, chart_view
from tiltyard.web.pages.downloads import files_of, rows_of
from tiltyard.web.pages.shell import page, pages_of, sent_page, theme_of, wording_of
from tiltyard.web.reading import Readable, boards_of
from tiltyard.web.routes.boards import Hash

__all__ = ["router"]

router = APIRouter(include_in_schema=False)

#: Stands before each row; no text of others holds it, since what is invisible is spelled out.
_BETWEEN = "\x1e"


@router.api_route("/arenas/{arena}", methods=["GET", "HEAD"], response_class=HTMLResponse)
async def board_page(arena: Readable, request: Request, query: Asked) -> Response:
    """The newest board, as the query asks for it."""
    try:
        await boards_of(request).latest(arena.arena, 0)
    except NotFound:
        return page(request, "board/none.html", arena=arena, active="board")
    return await _sent(request, arena, await gathered(request, arena, query))


@router.api_route("/arenas/{arena}/boards/{sha256}", methods=["GET", "HEAD"], response_class=HTMLResponse)
async def snapshot_page(arena: Readable, sha256: Hash, request: Request, query: Asked) -> Response:
    """A board as it was published. What it says never changes; how it looks may, with the version."""
    once = await boards_of(request).published(arena.arena, sha256)
    return await _sent(request, arena, await gathered(request, arena, query, once))


async def _sent(request: Request, arena: Arena, material: Material) -> Response:
    """Made once for each board, query, language and theme."""
    kept, chart = board_pages_of(request), await chart_view(request, material)
    look = (wording_of(request).language, theme_of(request))
    key = ("page", look, material.key(), tuple(chart.svg.values()), chart.drawn)
    found = kept.made.get(key)
    if found is None:
        async with kept.making:
            found = kept.made.get(key)
            if found is None:
                html = (await asyncio.to_thread(_rendered, request, material, chart)).encode()
                found = kept.made.put(key, (html, sha256(html).hexdigest()), len(html))
    return sent_page(request, arena, *found)


def _rendered(request: Request, material: Material, chart: ChartView) -> str:
    """The page as text."""
    query, first = material.query, material.first
    path = paths.board(material.arena.name)
    if material.permanent:
        path = paths.snapshot(material.arena.name, first.snapshot.sha256)
    values: dict[str, Any] = {
        "active": "board",
        "arena": material.arena,
        "board": first,
        "boards": material.boards,
        "categories": [(one, one) for one in material.facts.categories],
        "chart": chart,
        "document": first.document,
        "facts": material.facts,
        "files": files_of(material),
        "here": query.address(path),
        "findings": [
            (board.document["source"], one)
            for board in material.boards
            for one in (board.filtered or board.document)["findings"]
        ],
        "languages": [(one, one) for one in material.facts.languages],
        "origin": house_of(request).settings.address(),
        "path": path,
        "permanent": material.permanent,
        "policy": first.document["method"]["policy"],
        "query": query,
        "seen_digits": seen_digits,
    }
    kept = board_pages_of(request)
    views = [kept.view(board) for board in material.boards]
    values |= {"view": asked_view(views[0], query), "columns": list(rows_of(views, query)[0])}
    if len(views) == 2:
        pairs = beside(views[0].lines, views[1].lines, query)
        return pages_of(request).render("board/both.html", request, pairs=pairs, sides=views, **values)
    rows = _rows(request, material.arena, first, views[0])
    bodies = [rows[line.model] for line in values["view"].lines]
    return pages_of(request).render("board/board.html", request, bodies=bodies, **values)


def _rows(request: Request, arena: Arena, board: Counted, view: View) -> dict[str, Markup]:
    """Every row of a board as HTML, by model: made once, whatever is then searched and sorted."""
    kept, key = board_pages_of(request), (board.sha256, arena.name, wording_of(request).language)
    found = kept.rows.get(key)
    if found is None:
        text = pages_of(request).render(
            "board/rows.html",
            request,
            arena=arena,
            board=board,
            document=board.document,
            floored=floored,
            view=view,
        )
        bodies = text.split(_BETWEEN)[1:]
        models = [line.model for line in view.lines]
        rendered = (Markup(body) for body in bodies)  # noqa: S704 - a template of ours made it
        found = kept.rows.put(key, dict(zip(models, rendered, strict=True)))
    return found
