"""Downloads of a board: the rows and columns of its page, in the same order."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import tempfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response

from tiltyard.files.parquet_tables import write_row_table
from tiltyard.web.access.route_access import ReadableArena, boards_of
from tiltyard.web.pages.board_data import BoardPageData, board_page_cache_of, gather_board_page, send_file
from tiltyard.web.pages.board_query import BoardQuery, BoardQueryParams, Snap
from tiltyard.web.pages.board_view import BoardLine, BoardView, compare_sources, filter_and_sort
from tiltyard.web.pages.paths import asked, board

router = APIRouter(include_in_schema=False)

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
    found = kept.made.get(key)
    if found is None:
        views = [kept.view(board) for board in material.boards]
        data = await asyncio.to_thread(_written, material, views, format)
        found = kept.made.put(key, (data, sha256(data).hexdigest()), len(data))
    return send_file(request, arena, found, _TYPES[format], name=f"{arena.name}-board.{format}")


def download_links(material: BoardPageData) -> dict[str, str]:
    """The URLs of a page's downloads, by format."""
    once = {"snapshot": material.first.snapshot.sha256} if material.permanent else {}
    path, query = board(material.arena.name), material.query.values() | once
    return {form: asked(f"{path}/board.{form}", query) for form in _TYPES}


def download_rows(
    views: Sequence[BoardView], query: BoardQuery
) -> tuple[Mapping[str, type], list[dict[str, object]]]:
    """Columns with their types, and rows; of one board, or of two side by side."""
    if len(views) == 1:
        return COLUMNS, [_row(line) for line in filter_and_sort(views[0].lines, query)]
    human, judge = views
    rows = []
    for pair in compare_sources(human.lines, judge.lines, query):
        of_each = {
            f"{who}_{name}": getattr(line, _FIELDS.get(name, name), None)
            for who, line in (("human", pair.human), ("judge", pair.judge))
            for name in _OF_EACH
        }
        apart = {"ranks_apart": pair.apart, "ranges_apart": _yes(said=pair.beyond)}
        rows.append({"model": pair.model, "state": _state(pair.known), **of_each, **apart})
    return COMPARISON_COLUMNS, rows


def _row(line: BoardLine) -> dict[str, object]:
    own = {"state": _state(line)}
    return {name: own[name] if name in own else getattr(line, _FIELDS.get(name, name)) for name in COLUMNS}


def _state(line: BoardLine) -> str:
    return "retired" if line.retired else "enabled"


def _yes(*, said: bool) -> str:
    return "yes" if said else "no"


def _written(material: BoardPageData, views: Sequence[BoardView], format: Format) -> bytes:
    columns, rows = download_rows(views, material.query)
    if format == "csv":
        return _csv(list(columns), rows)
    if format == "json":
        return _json(material, views, list(columns), rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "board.parquet"
        write_row_table(path, columns, rows)
        return path.read_bytes()


def _csv(columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


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
        "citable": [None if board.citable is None else board.citable.sha256 for board in material.boards],
        "order": (first.filtered or first.document).order,
        "settled": [None if view.claim is None else view.claim.to_dict() for view in views],
        "columns": list(columns),
        "rows": rows,
    }
    if material.effects is not None:
        said = material.effects.document
        about |= {"effects": said["effects"], "effect_findings": said["findings"]}
    return json.dumps(about, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
