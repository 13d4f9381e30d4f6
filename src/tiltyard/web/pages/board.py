"""Pages of boards: the newest board of an arena, and published ones by hash."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from markupsafe import Markup

from tiltyard.arena.content.arenas import Arena
from tiltyard.core.ratings import Finding
from tiltyard.errors import NotFound
from tiltyard.files.parquet_tables import write_row_table
from tiltyard.report.board_charts import charts_available
from tiltyard.web.access.access import registry_of
from tiltyard.web.access.route_access import ReadableArena, boards_of
from tiltyard.web.pages import paths
from tiltyard.web.pages.board_data import (
    BoardPageData,
    SourceBoard,
    board_page_cache_of,
    gather_board_page,
    send_file,
)
from tiltyard.web.pages.board_query import BoardQuery, BoardQueryParams, Snap
from tiltyard.web.pages.board_view import (
    BoardLine,
    BoardView,
    compare_sources,
    digits_to_show,
    filter_and_sort,
    filtered_view,
    floor_percent,
)
from tiltyard.web.pages.charts import ChartView, chart_view
from tiltyard.web.pages.layout import (
    LANGUAGE_PARAMETER,
    localization_of,
    pages_of,
    render_page,
    send_page,
    share_page,
    theme_of,
)
from tiltyard.web.pages.paths import asked, board
from tiltyard.web.routes.boards import Hash, write_csv

router = APIRouter(include_in_schema=False)

#: Separates rows in the rendered text. Untrusted text never contains it, because invisible characters are escaped.
_ROW_SEPARATOR = "\x1e"

#: Findings that are said beside the claim and the rules; the others are listed as caveats.
_SAID_ELSEWHERE = frozenset({"few-prompts-to-settle", "official-next"})


@router.api_route("/arenas/{arena}", methods=["GET", "HEAD"])
async def board_page(arena: ReadableArena, request: Request, query: BoardQueryParams) -> Response:
    """The newest board."""
    try:
        await boards_of(request).latest(arena.arena, 0)
    except NotFound:
        share_page(request, arena)
        return render_page(request, "board/none.html", arena=arena, active="board")
    return await _sent(request, arena, await gather_board_page(request, arena, query))


@router.api_route("/arenas/{arena}/boards/{sha256}", methods=["GET", "HEAD"])
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
            found = await kept.rendered(key, lambda: _rendered(request, material, chart).encode())
    return send_page(request, arena, *found)


def _rendered(request: Request, material: BoardPageData, chart: ChartView) -> str:
    query, first, language = material.query, material.first, localization_of(request).language
    cross = (first.filtered or first.document).cross_check
    path = paths.board(material.arena.name)
    if material.permanent:
        path = paths.snapshot(material.arena.name, first.snapshot.sha256)
    shown, chosen = (material.arena.name, first.snapshot.sha256), query.chosen_votes
    drawn = {**chosen, LANGUAGE_PARAMETER: language}
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
        "level": None if cross is None else cross.level,
        "findings": [(board.document.source, one) for board in material.boards for one in _findings(board)],
        "judged": material.judged,
        "languages": [(one, one) for one in material.facts.languages],
        "origin": registry_of(request).settings.address(),
        "path": path,
        "permanent": material.permanent,
        "policy": first.document.method.policy,
        "preview_address": paths.asked(paths.snapshot(*shown), chosen),
        "preview_picture": paths.board_card(*shown, drawn) if charts_available() else None,
        "vector_picture": paths.board_card(*shown, drawn, "svg"),
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
    said = tuple(one for one in board.document.findings if one.name not in _SAID_ELSEWHERE)
    return (*said, *fit)


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
        rendered = (Markup(body) for body in bodies)  # noqa: S704 - a template of ours made it
        found = kept.rows.put(key, dict(zip(models, rendered, strict=True)))
    return found


Format = Literal["csv", "json", "parquet"]
_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "parquet": "application/vnd.apache.parquet",
}
#: Columns of a file, with their types. A place claims nothing; ranks, tiers and what is settled above the next do.
COLUMNS: Mapping[str, type] = {
    "place": int,
    "rank_low": int,
    "rank_high": int,
    "tier": int,
    "model": str,
    "badge": str,
    "state": str,
    "settled_above_next": str,
    "score": float,
    "rating": float,
    "rd": float,
    "volatility": float,
    "bradley_terry": float,
    "low": float,
    "high": float,
    "confidence": float,
    "coverage": float,
    "consistency": float,
    "spread": float,
    "average_score": float,
    "wins": int,
    "losses": int,
    "ties": int,
    "votes": int,
    "both_bad": int,
}
#: Columns that have another name than their field.
_FIELDS = {"place": "rank", "settled_above_next": "above_next"}
#: Columns of the ranking policy, which are not in a file of phase 1.
_POLICY_COLUMNS = {"rank_low", "rank_high", "tier", "badge", "settled_above_next", "rating", "rd"}
_POLICY_COLUMNS |= {"volatility", "bradley_terry", "low", "high", "confidence", "coverage"}
_OF_EACH = ("place", "rank_low", "rank_high", "score", "votes")
#: Columns of a file that compares people and judges.
COMPARISON_COLUMNS: Mapping[str, type] = {
    "model": str,
    "state": str,
    **{f"{who}_{name}": COLUMNS[name] for who in ("human", "judge") for name in _OF_EACH},
    "ranks_apart": int,
    "ranges_apart": str,
}


@router.get("/arenas/{arena}/board.{format}")
async def board_file(
    arena: ReadableArena, format: Format, request: Request, query: BoardQueryParams, snapshot: Snap = None
) -> Response:
    """The table of the page with the same query as a file; with ``snapshot``, of a published board."""
    once = None if snapshot is None else await boards_of(request).published(arena.arena, snapshot)
    material, kept = await gather_board_page(request, arena, query, once), board_page_cache_of(request)
    key = ("file", format, material.key())
    found = await kept.rendered(
        key, lambda: _written(material, [kept.view(board) for board in material.boards], format)
    )
    return send_file(request, arena, found, _TYPES[format], name=f"{arena.name}-board.{format}")


def download_links(material: BoardPageData) -> dict[str, str]:
    """The URLs of a page's downloads, by format."""
    once = {"snapshot": material.first.snapshot.sha256}
    newest = len(material.boards) > 1 or (material.first.filtered is not None and not material.permanent)
    path, query = board(material.arena.name), material.query.values() | ({} if newest else once)
    return {form: asked(f"{path}/board.{form}", query) for form in _TYPES}


def download_rows(
    views: Sequence[BoardView], query: BoardQuery
) -> tuple[Mapping[str, type], list[dict[str, object]]]:
    """Columns with their types, and rows; of one board, or of two side by side."""
    if len(views) == 1:
        shown = _shown_columns(COLUMNS, views[0], _POLICY_COLUMNS)
        return shown, [
            {
                name: _state(line) if name == "state" else getattr(line, _FIELDS.get(name, name))
                for name in shown
            }
            for line in filter_and_sort(views[0].lines, query)
        ]
    human, judge = views
    hidden = {f"{who}_{name}" for who in ("human", "judge") for name in _POLICY_COLUMNS}
    shown, rows = _shown_columns(COMPARISON_COLUMNS, human, hidden), []
    for pair in compare_sources(human.lines, judge.lines, query):
        of_each = {
            f"{who}_{name}": getattr(line, _FIELDS.get(name, name), None)
            for who, line in (("human", pair.human), ("judge", pair.judge))
            for name in _OF_EACH
        }
        apart = {"ranks_apart": pair.apart, "ranges_apart": "yes" if pair.beyond else "no"}
        row = {"model": pair.model, "state": _state(pair.known), **of_each, **apart}
        rows.append({name: row[name] for name in shown})
    return shown, rows


def _shown_columns(columns: Mapping[str, type], view: BoardView, hidden: Collection[str]) -> dict[str, type]:
    """All columns, or those without the policy's where the arena's phase does not show them."""
    return {name: kind for name, kind in columns.items() if view.seen or name not in hidden}


def _state(line: BoardLine) -> str:
    return "retired" if line.retired else "enabled"


def _written(material: BoardPageData, views: Sequence[BoardView], format: Format) -> bytes:
    columns, rows = download_rows(views, material.query)
    if format == "csv":
        return write_csv(list(columns), rows)
    if format == "json":
        return _json(material, views, list(columns), rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "board.parquet"
        write_row_table(path, columns, rows)
        return path.read_bytes()


def _json(
    material: BoardPageData,
    views: Sequence[BoardView],
    columns: Sequence[str],
    rows: Sequence[Mapping[str, object]],
) -> bytes:
    first, query = material.first, material.query
    about: dict[str, object] = {
        "arena": material.arena.name,
        "asked": query.values(),
        "snapshots": [board.snapshot.sha256 for board in material.boards],
        "citable": [None if board.citable is None else board.citable.snapshot for board in material.boards],
        "order": (first.filtered or first.document).order,
        "settled": [None if view.claim is None else view.claim.to_dict() for view in views],
        "columns": list(columns),
        "rows": rows,
    }
    if material.effects is not None:
        said = material.effects.document
        about |= {"effects": said["effects"], "effect_findings": said["findings"]}
    return json.dumps(about, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
