"""Downloads of a live arena: conversations for release, and prompts for a fixed set."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

from fastapi import Query, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from tiltyard.arena.live.conversation_release import promote_prompts, write_conversations
from tiltyard.web.access.access import keys_of, registry_of
from tiltyard.web.pages.operator.operator_access import actor_of, arena_of, operator_router
from tiltyard.web.routes.battles import export_slots_of

router = operator_router()

_PIECE_BYTES = 1 << 20


@router.get("/arenas/{arena}/conversations.parquet", response_class=StreamingResponse)
async def conversations_file(
    arena: str,
    request: Request,
    flagged: Annotated[bool, Query()] = False,
    exact: Annotated[bool, Query()] = False,
) -> StreamingResponse:
    """Turns and votes of voters who agreed; with ``flagged``, also those in which private data was found.

    If ``exact``, with voters, times and positions; the audit log says so.
    """
    found = await arena_of(request, arena)
    url, keys = registry_of(request).url, keys_of(request)
    actor = actor_of(request).name if exact else None

    def write(path: Path) -> None:
        write_conversations(url, keys, found.name, path, with_flagged=flagged, exact_for=actor)

    return await _send(
        request, write, f"{found.name}-conversations.parquet", "application/vnd.apache.parquet"
    )


@router.get("/arenas/{arena}/prompts.jsonl", response_class=StreamingResponse)
async def prompts_file(arena: str, request: Request) -> StreamingResponse:
    """The distinct prompts, as a bank of prompts that tournaments read."""
    found = await arena_of(request, arena)
    url = registry_of(request).url
    return await _send(
        request,
        lambda path: promote_prompts(url, found.name, path),
        f"{found.name}-prompts.jsonl",
        "application/x-ndjson",
    )


async def _send(
    request: Request, write: Callable[[Path], object], name: str, media_type: str
) -> StreamingResponse:
    """Write a file and send it. It has no name any more when it is sent, so that nothing is left of it."""
    async with export_slots_of(request).take():
        file, size = await run_in_threadpool(_written, write)
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Content-Length": str(size),
        "Cache-Control": "no-store",
    }
    return StreamingResponse(_pieces(file), media_type=media_type, headers=headers)


def _written(write: Callable[[Path], object]) -> tuple[BinaryIO, int]:
    """The open file that was written, and its size."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        write(path)
        return path.open("rb"), path.stat().st_size


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while piece := file.read(_PIECE_BYTES):
            yield piece
