"""The entrants of a live arena (who answers, how well, what it costs), and its downloads."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

from fastapi import Query
from fastapi.responses import HTMLResponse, StreamingResponse
from starlette.concurrency import run_in_threadpool

from tiltyard.arena.live.conversation_release import promote_prompts, write_conversations
from tiltyard.arena.live.live_store import OVERVIEW_DAYS, read_live_overview
from tiltyard.web.access.access import keys_of
from tiltyard.web.pages.operator.operator_access import OnArena, OperatorVisit, operator_router
from tiltyard.web.routes.battles import export_slots_of

router = operator_router("/arenas/{arena}")

_MICRODOLLARS_RATIO = 1_000_000


@router.get("/live", response_class=HTMLResponse)
async def live_page(visit: OnArena) -> HTMLResponse:
    """Entrants, failures and money."""
    settings, overview, budgets = visit.arena.settings, None, []
    if settings.is_live:
        overview = await read_live_overview(visit.pool, visit.arena.arena)
        budgets = [
            ("In total", overview.spending.total, settings.live_budget_dollars),
            ("Today (UTC)", overview.spending.day, settings.live_day_dollars),
        ]
    return visit.page(
        "live.html", "live", overview=overview, budgets=budgets, days=OVERVIEW_DAYS, dollars=dollars_text
    )


def dollars_text(microdollars: int) -> str:
    """Cents, and more decimals for what is less than one."""
    dollars = microdollars / _MICRODOLLARS_RATIO
    return f"${dollars:,.2f}" if dollars >= 0.01 or not microdollars else f"${dollars:.6f}"


_PIECE_BYTES = 1 << 20


@router.get("/conversations.parquet", response_class=StreamingResponse)
async def conversations_file(
    visit: OnArena, flagged: Annotated[bool, Query()] = False, exact: Annotated[bool, Query()] = False
) -> StreamingResponse:
    """Turns and votes of voters who agreed; with ``flagged``, also those in which private data was found.

    If ``exact``, with voters, times and positions; the audit log says so.
    """
    url, keys = visit.registry.url, keys_of(visit.request)
    actor = visit.actor.name if exact else None

    def write(path: Path) -> None:
        write_conversations(url, keys, visit.arena.name, path, with_flagged=flagged, exact_for=actor)

    return await _send(
        visit, write, f"{visit.arena.name}-conversations.parquet", "application/vnd.apache.parquet"
    )


@router.get("/prompts.jsonl", response_class=StreamingResponse)
async def prompts_file(visit: OnArena) -> StreamingResponse:
    """The distinct prompts, as a bank of prompts that tournaments read."""
    url = visit.registry.url
    return await _send(
        visit,
        lambda path: promote_prompts(url, visit.arena.name, path),
        f"{visit.arena.name}-prompts.jsonl",
        "application/x-ndjson",
    )


async def _send(
    visit: OperatorVisit, write: Callable[[Path], object], name: str, media_type: str
) -> StreamingResponse:
    """Write a file and send it. It has no name any more when it is sent, so that nothing is left of it."""

    def written() -> tuple[BinaryIO, int]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "file"
            write(path)
            return path.open("rb"), path.stat().st_size

    def pieces(file: BinaryIO) -> Iterator[bytes]:
        with file:
            while piece := file.read(_PIECE_BYTES):
                yield piece

    async with export_slots_of(visit.request).take():
        file, size = await run_in_threadpool(written)
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Content-Length": str(size),
        "Cache-Control": "no-store",
    }
    return StreamingResponse(pieces(file), media_type=media_type, headers=headers)
