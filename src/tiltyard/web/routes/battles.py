"""API route that streams the battles of an arena as a file."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from tiltyard.arena.log.battle_export import MEDIA_TYPES, export_battles, open_export
from tiltyard.errors import NotAllowed
from tiltyard.files.battle_stream import Container
from tiltyard.web.access import CurrentActor, keys_of, registry_of
from tiltyard.web.context import context_of
from tiltyard.web.export_slots import ExportSlot, StalledReader
from tiltyard.web.problem_details import Documented, document_problems
from tiltyard.web.reader_access import Plain, ReadableArena, SourceName, source_number

__all__ = ["router"]

router = APIRouter(prefix="/api/v1/arenas/{arena}", tags=["readers"])

_FILES: Documented = {
    200: {
        "description": "Battles in log order.",
        "content": {media_type.partition(";")[0]: {} for media_type in MEDIA_TYPES.values()},
    }
}


@router.get(
    "/battles",
    response_class=StreamingResponse,
    summary="Battles as a file",
    responses=document_problems(401, 403, 404, 422, 503) | _FILES,
)
async def battles(
    arena: ReadableArena,
    request: Request,
    actor: CurrentActor,
    format: Annotated[Container, Query(description="The file format.")] = "jsonl",
    source: Annotated[SourceName | None, Query(description="Only votes of this source.")] = None,
    upto: Annotated[
        int | None, Query(ge=0, lt=2**63, description="The last position, for example of a snapshot.")
    ] = None,
    release: Annotated[
        Plain | None, Query(description="The release whose pseudonyms to use; operators only.")
    ] = None,
) -> Response:
    """Final votes that are not excluded. Voters have pseudonyms, which differ in every file.

    An operator may give a release: the same release gives the same pseudonyms. If the arena's ``reveal`` is ``never``, as
    while it has an open expert panel, only operators and tokens that may read it get the file.
    """
    if release is not None:
        if actor is None:
            raise NotAllowed("only the operator may give a release; leave it out, or sign in")
        actor.require("admin", arena.name)
    if arena.settings.reveal == "never" and (actor is None or not actor.may("read", arena.name)):
        raise NotAllowed(
            "this arena does not tell names, and the battles have them; sign in as its operator, or use a token that may "
            "read it"
        )
    url, slots = registry_of(request).url, context_of(request).exports
    number = None if source is None else source_number(source)
    export = await run_in_threadpool(open_export, url, arena.arena, source=number, upto=upto, release=release)
    file = _File(export_battles(url, keys_of(request), export, format), slots.take())
    headers = {
        "Content-Disposition": f'attachment; filename="{arena.name}-battles-{export.position}.{format}"',
        "Tiltyard-Position": str(export.position),
    }
    return _FileResponse(file, await file.begun(), media_type=MEDIA_TYPES[format], headers=headers)


class _File:
    """A running export, and its slot."""

    def __init__(self, pieces: Generator[bytes, None, None], slot: ExportSlot) -> None:
        self._pieces = pieces
        self.slot = slot

    async def begun(self) -> Iterator[bytes]:
        """The chunks, with the first one already computed, so that an early failure gives a proper error response."""
        try:
            first = await run_in_threadpool(next, self._pieces, b"")
        except BaseException:
            self.close()
            raise
        return itertools.chain([first], self._pieces)

    def close(self) -> None:
        """Stop the export and release its slot."""
        self._pieces.close()
        self.slot.release()


class _FileResponse(StreamingResponse):
    """Sends a file, and closes the export even if the client disconnects or stalls."""

    def __init__(self, file: _File, pieces: Iterator[bytes], **options: Any) -> None:
        super().__init__(pieces, **options)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, partial(self._file.slot.send, send))
        except StalledReader:
            return
        finally:
            self._file.close()
