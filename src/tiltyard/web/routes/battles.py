"""API routes that stream the battles of an arena as a file: releases for everybody, exact exports for operators."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Generator, Mapping
from functools import partial
from typing import Annotated, Self

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope, Send

from tiltyard.arena.boards.release_choice import choose_release
from tiltyard.arena.log.battle_export import MEDIA_TYPES, export_battles, open_export
from tiltyard.arena.log.battle_release import ReleasePart, export_release
from tiltyard.arena.operators.moderation import note_export
from tiltyard.errors import NotAllowed
from tiltyard.files.battle_writer import Container
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.web.access.access import context_of, keys_of, registry_of
from tiltyard.web.access.actors import Actor
from tiltyard.web.access.route_access import (
    ArenaName,
    CurrentActor,
    ReadableArena,
    ScopeCheck,
    Source,
    boards_of,
    source_number,
)
from tiltyard.web.edge.problem_details import Documented
from tiltyard.wire.records import Plain, SourceName

_LOG = logging.getLogger(__name__)

#: Exports that run concurrently in one process.
_CONCURRENT_EXPORT_LIMIT = 2
#: Seconds without progress after which an export is aborted.
_STALLED_READER_SECONDS = 60.0
#: A client is slow that we have waited for at least so long, and that has read less than this of it.
_SLOW_SECONDS = 15.0
_SLOW_BYTES_PER_SECOND = 256 * 1024


def export_slots_of(request: Request) -> ExportSlots:
    return context_of(request).shared(ExportSlots, ExportSlots)


class StalledReader(Exception):
    """The client does not read, or too slowly while others wait."""


class ExportSlot:
    """The slot of a running export; it measures how long its client lets us wait."""

    def __init__(self, slots: ExportSlots) -> None:
        self._slots = slots
        self._waited = 0.0
        self._since: float | None = None
        self._bytes = 0
        self._timeout: asyncio.Timeout | None = None
        self._cut = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.release()

    async def send(self, send: Send, message: Message) -> None:
        """Send a part; raise `StalledReader` if the client does not read it in time, or gives way to another."""
        if self._cut:
            raise StalledReader
        self._since = time.monotonic()
        try:
            async with asyncio.timeout(_STALLED_READER_SECONDS) as self._timeout:
                await send(message)
        except TimeoutError:
            reason = "gave way to another" if self._cut else "was aborted"
            _LOG.info("an export %s: the client read nothing, or too slowly", reason)
            raise StalledReader from None
        finally:
            self._waited += time.monotonic() - self._since
            self._since = self._timeout = None
        self._bytes += len(message.get("body", b""))

    def is_slow(self) -> bool:
        """Whether most of the time goes by waiting for the client."""
        waited = self._waited + (0.0 if self._since is None else time.monotonic() - self._since)
        return waited >= _SLOW_SECONDS and self._bytes < waited * _SLOW_BYTES_PER_SECOND

    def cut(self) -> None:
        """End the export, now or with its next part."""
        self._cut = True
        if self._timeout is not None:
            self._timeout.reschedule(asyncio.get_running_loop().time())

    def release(self) -> None:
        """Give the slot back. Giving it back again has no effect."""
        self._slots.discard(self)


class ExportSlots:
    def __init__(self, at_once: int = _CONCURRENT_EXPORT_LIMIT) -> None:
        self._at_once = at_once
        self._running: set[ExportSlot] = set()

    def __len__(self) -> int:
        return len(self._running)

    def take(self) -> ExportSlot:
        """A slot, if need be that of a slow client; an error 503 if there is none."""
        if len(self._running) >= self._at_once:
            slow = next((slot for slot in self._running if slot.is_slow()), None)
            if slow is None:
                raise HTTPException(503, "Other exports are running; try again soon.", {"Retry-After": "10"})
            self.discard(slow)
            slow.cut()
        slot = ExportSlot(self)
        self._running.add(slot)
        return slot

    def discard(self, slot: ExportSlot) -> None:
        self._running.discard(slot)


router = APIRouter(prefix="/api/v1/arenas/{arena}")

_ARCHIVE_TYPE = "application/zip"
_TYPES: dict[str, dict[str, object]] = {
    media_type.partition(";")[0]: {} for media_type in MEDIA_TYPES.values()
}
_RELEASES: Documented = {
    200: {"description": "The battles of a release.", "content": _TYPES | {_ARCHIVE_TYPE: {}}}
}
_EXACT: Documented = {200: {"description": "Battles in log order.", "content": _TYPES}}
Format = Annotated[Container, Query(description="The file format.")]


@router.get("/battles", response_class=StreamingResponse, tags=["readers"], responses=_RELEASES)
async def battles(
    arena: ReadableArena,
    request: Request,
    actor: CurrentActor,
    format: Format = "jsonl",
    source: Source = "human",
    table: Annotated[
        ReleasePart,
        Query(
            description="Shuffled, with voters under numbers of this release; in the order of the log, without voters; or "
            "a zip archive of both, with the board, which tiltyard verify checks."
        ),
    ] = "voters",
    snapshot: Annotated[
        str | None,
        Query(
            pattern=r"^[0-9a-f]{64}$",
            description="The hash of a permanent board, whose votes to release; by default the newest one.",
        ),
    ] = None,
) -> Response:
    """The rated votes behind a permanent board, without positions and times. Voters have numbers that are valid in this
    release only.

    If the arena's ``reveal`` is ``never``, as while it has an open expert panel, or its ``releases`` leave the table out,
    only operators and tokens that may read it get the file.
    """
    if actor is None or not actor.may("read", arena.name):
        _check_released(arena.settings, table)
    registry = registry_of(request)
    choice = await choose_release(registry.pool, arena, source_number(source), snapshot)
    headers = {"Tiltyard-Position": str(choice.position)}
    if choice.snapshot is not None:
        headers["Tiltyard-Snapshot"] = choice.snapshot
    pieces = export_release(registry.url, keys_of(request), choice, table, format)
    if table == "both":
        name = f"{arena.name}-release-{choice.position}.zip"
        return await _send(request, pieces, name, _ARCHIVE_TYPE, headers)
    name = f"{arena.name}-{table}-{choice.position}.{format}"
    return await _send(request, pieces, name, MEDIA_TYPES[format], headers)


@router.get("/battles/exact", response_class=StreamingResponse, tags=["operators"], responses=_EXACT)
async def exact_battles(
    arena: ArenaName,
    request: Request,
    actor: Annotated[Actor, Depends(ScopeCheck("admin"))],
    format: Format = "jsonl",
    source: Annotated[SourceName | None, Query(description="Only votes of this source.")] = None,
    upto: Annotated[
        int | None, Query(ge=0, lt=2**63, description="The last position, for example of a snapshot.")
    ] = None,
    release: Annotated[
        Plain | None,
        Query(description="The same name gives the same pseudonyms; without one they are new in every file."),
    ] = None,
) -> Response:
    """Final votes that are not excluded, with positions, times and everything else: for the operator's own use.

    Two such files can be joined row by row, so their voters can be linked. The download is written to the audit log.
    """
    registry = registry_of(request)
    found = await boards_of(request).arena(arena)
    number = None if source is None else source_number(source)
    export = await run_in_threadpool(
        open_export, registry.url, found.arena, source=number, upto=upto, release=release
    )
    about = {"position": export.position, "release": release, "source": source, "format": format}
    await note_export(registry.pool, found.arena, "export battles", about, actor=actor.name)
    pieces = export_battles(registry.url, keys_of(request), export, format)
    name = f"{found.name}-battles-{export.position}.{format}"
    headers = {"Tiltyard-Position": str(export.position)}
    return await _send(request, pieces, name, MEDIA_TYPES[format], headers)


def _check_released(settings: ArenaSettings, table: ReleasePart) -> None:
    """Raise unless everybody who may read the arena gets this table."""
    way = "sign in as its operator, or use a token that may read it"
    if settings.reveal == "never":
        raise NotAllowed(f"this arena does not tell names, and the battles have them; {way}")
    if settings.releases == "none":
        raise NotAllowed(f"this arena does not release its battles; {way}")
    if settings.releases == "ordered" and table != "ordered":
        raise NotAllowed(f"this arena releases its battles without voters only (table=ordered); {way}")


async def _send(
    request: Request,
    pieces: Generator[bytes, None, None],
    name: str,
    media_type: str,
    headers: Mapping[str, str],
) -> Response:
    """Send a file while it is made, in one of the slots of this process."""
    slot = export_slots_of(request).take()
    try:
        # An early failure gives a proper error response.
        first = await run_in_threadpool(next, pieces, b"")
    except BaseException:
        pieces.close()
        slot.release()
        raise
    sent = {"Content-Disposition": f'attachment; filename="{name}"', **headers}
    response = _FileResponse(itertools.chain([first], pieces), media_type=media_type, headers=sent)
    response.pieces, response.slot = pieces, slot
    return response


class _FileResponse(StreamingResponse):
    """Sends a file, and closes the export even if the client disconnects or stalls."""

    pieces: Generator[bytes, None, None]
    slot: ExportSlot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, partial(self.slot.send, send))
        except StalledReader:
            return
        finally:
            self.pieces.close()
            self.slot.release()
