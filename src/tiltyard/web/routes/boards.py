"""API routes for boards: the newest, earlier ones by hash, filtered ones, model pages, weekly reports."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response

from tiltyard.arena.boards.filtered_boards import VoteSubset
from tiltyard.arena.boards.snapshot_cache import HashedDocument
from tiltyard.arena.boards.snapshots import board_of, list_snapshots
from tiltyard.arena.boards.weekly_reports import FIRST_PUBLIC_REPORT_PHASE, list_reports, read_report
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.log.event_log import SOURCES
from tiltyard.core.board.document import LaneFilter, LeftOutVotes
from tiltyard.errors import NotFound
from tiltyard.report.escapes import csv_text
from tiltyard.web.access.access import registry_of
from tiltyard.web.access.actors import Actor
from tiltyard.web.access.route_access import (
    CurrentActor,
    ModelName,
    ReadableArena,
    Source,
    boards_of,
    model_profiles_of,
    send_cacheable,
    source_number,
)
from tiltyard.web.edge.problem_details import Documented
from tiltyard.wire.arenas import NewestBoards, ReportList, SnapshotList, Values
from tiltyard.wire.records import Plain

router = APIRouter(prefix="/api/v1/arenas/{arena}", tags=["readers"])

Hash = Annotated[
    str, Path(description="A SHA-256 hash in hexadecimal.", pattern=r"^[0-9a-f]{64}$", examples=["0" * 64])
]
Filter = Annotated[Plain | None, Query(description="Only prompts with this value.")]
Excluded = Annotated[
    LeftOutVotes,
    Query(
        description="Whether votes that the operator excluded are left out or counted; or all votes are counted, also those "
        "that are not rated."
    ),
]
LaneChoice = Annotated[
    LaneFilter,
    Query(description="All votes, or only those of the exploration lane, whose pairs are chosen at random."),
]
Big = Annotated[int | None, Query(ge=0, lt=2**63)]

_CACHED: Documented = {304: {"description": "Not modified."}}


@router.get("/board", response_model=Values, responses=_CACHED)
async def board(
    arena: ReadableArena,
    request: Request,
    source: Source = "human",
    category: Filter = None,
    language: Filter = None,
    retired: Annotated[bool, Query(description="Whether retired models are shown.")] = True,
    excluded: Excluded = "left-out",
    lane: LaneChoice = "all",
) -> Response:
    """The newest board. With a category, a language, a lane or excluded votes: the board of those votes alone."""
    boards, number = boards_of(request), source_number(source)
    part = VoteSubset(number, category, language, excluded, lane)
    if not part.whole:
        filtered = await boards.filtered(arena, part)
        return send_cacheable(request, arena, filtered.data, filtered.sha256)
    newest = await boards.latest(arena.arena, number)
    if retired:
        link = f'</api/v1/arenas/{arena.name}/snapshots/{newest.sha256}>; rel="bookmark"'
        if arena.settings.is_live:
            link += f', </api/v1/arenas/{arena.name}/effects>; rel="related"'
        return send_cacheable(request, arena, newest.document.encode(), newest.sha256, headers={"Link": link})
    shown = HashedDocument.of(board_of(newest).without_retired().to_dict())
    return send_cacheable(request, arena, shown.data, shown.sha256)


@router.get("/newest", response_model=NewestBoards, responses=_CACHED)
async def newest(arena: ReadableArena, request: Request) -> Response:
    """The hashes of the newest boards by source: a few bytes, to be asked for often."""
    boards, found = boards_of(request), {}
    for number, source in enumerate(SOURCES):
        with suppress(NotFound):
            found[source] = (await boards.latest(arena.arena, number)).sha256
    said = HashedDocument.of({"arena": arena.name, "snapshots": found})
    return send_cacheable(request, arena, said.data, said.sha256)


@router.get("/effects", response_model=Values, responses=_CACHED)
async def effects(arena: ReadableArena, request: Request) -> Response:
    """Whether longer answers, or slower models, win more often in a live arena. The board does not use it."""
    found = await boards_of(request).effects(arena)
    return send_cacheable(request, arena, found.data, found.sha256)


@router.get("/snapshots")
async def snapshots(
    arena: ReadableArena,
    request: Request,
    source: Source = "human",
    generation: Big = None,
    position: Big = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> SnapshotList:
    """Published boards, newest first. With generation and position, the boards before them."""
    before = None if generation is None or position is None else (generation, position)
    pool = registry_of(request).pool
    found = await list_snapshots(pool, arena.arena, source_number(source), before=before, limit=limit)
    return SnapshotList(found)


@router.get("/snapshots/{snapshot}", response_model=Values, responses=_CACHED)
async def snapshot(
    arena: ReadableArena,
    snapshot: Hash,
    request: Request,
    category: Filter = None,
    language: Filter = None,
    excluded: Excluded = "left-out",
    lane: LaneChoice = "all",
) -> Response:
    """A published board; its bytes have this hash. It is permanent if it was evaluated, else kept for 30 days.

    With a category, a language, a lane or excluded votes: the board of those of its votes alone.
    """
    part = VoteSubset(0, category, language, excluded, lane)
    if not part.whole:
        boards = boards_of(request)
        once = await boards.published(arena.arena, snapshot)
        filtered = await boards.filtered(arena, replace(part, source=once.source), once)
        return send_cacheable(request, arena, filtered.data, filtered.sha256)
    found = await boards_of(request).published(arena.arena, snapshot)
    return send_cacheable(request, arena, found.document.encode(), found.sha256, for_ever=True)


@router.get("/reports")
async def reports(arena: ReadableArena, request: Request, actor: CurrentActor) -> ReportList:
    """Weekly validity reports, newest first. Those of phases 1 to 3 are for operators."""
    first_phase = 1 if _operates(actor, arena) else FIRST_PUBLIC_REPORT_PHASE
    return ReportList(await list_reports(registry_of(request).pool, arena.arena, first_phase=first_phase))


@router.get("/reports/{report}", response_model=Values, responses=_CACHED)
async def report(arena: ReadableArena, report: Hash, request: Request, actor: CurrentActor) -> Response:
    """A validity report; its bytes have this hash."""
    pool = registry_of(request).pool
    try:
        document = await read_report(pool, arena.arena, report, first_phase=FIRST_PUBLIC_REPORT_PHASE)
    except NotFound:
        if not _operates(actor, arena):
            raise
        return send_private((await read_report(pool, arena.arena, report)).encode(), "application/json")
    return send_cacheable(request, arena, document.encode(), report, for_ever=True)


def _operates(actor: Actor | None, arena: Arena) -> bool:
    return actor is not None and actor.may("admin", arena.name)


def send_private(data: bytes, media_type: str, headers: Mapping[str, str] | None = None) -> Response:
    return Response(
        data, headers={"Cache-Control": "private, no-store", **(headers or {})}, media_type=media_type
    )


def write_csv(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> bytes:
    """A CSV file; what is ``None`` is empty."""
    return csv_text(columns, ([row[name] for name in columns] for row in rows)).encode()


@router.get("/models/{model:path}", response_model=Values, responses=_CACHED)
async def model(
    arena: ReadableArena, model: ModelName, request: Request, source: Source = "human"
) -> Response:
    """A model's row and neighbours, results by opponent and by prompt, and its history."""
    profile = await model_profiles_of(request).of(arena, source_number(source), model)
    found = await asyncio.to_thread(profile.document)
    return send_cacheable(request, arena, found.data, found.sha256)
