"""Upload answers: check a file, then import or discard it."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import File, Form, Request, UploadFile
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.content.upload_review import (
    MAX_UPLOAD_BYTES,
    UploadDecision,
    discard_upload,
    import_upload,
    preview_upload,
    store_upload,
)
from tiltyard.errors import Conflict, InputError
from tiltyard.web.access.access import access_of, registry_of
from tiltyard.web.pages import paths
from tiltyard.web.pages.layout import redirect_to
from tiltyard.web.pages.operator.answer_form import WRITTEN_NAME
from tiltyard.web.pages.operator.operator_access import (
    actor_of,
    arena_of,
    arena_page,
    operator_router,
    pool_of,
    redirect_with_notice,
)

router = operator_router("/arenas/{arena}")


@router.get("/answers", response_class=HTMLResponse)
async def answers_page(arena: str, request: Request) -> HTMLResponse:
    """The upload form."""
    return _choose(request, await arena_of(request, arena))


@router.post("/uploads")
async def upload_form(arena: str, request: Request, file: Annotated[UploadFile, File()]) -> Response:
    """Keep a file for an hour; its preview is next."""
    found = await arena_of(request, arena)
    data = await file.read(MAX_UPLOAD_BYTES + 1)
    try:
        async with access_of(request).quota("uploads", found.arena):
            upload = await store_upload(
                pool_of(request), found, file.filename or "", data, actor=actor_of(request).name
            )
    except InputError as error:
        return _choose(request, found, trouble=str(error), status=422)
    return redirect_to(paths.operator("arenas", arena, "uploads", str(upload)))


@router.get("/uploads/{upload}", response_class=HTMLResponse)
async def upload_page(arena: str, upload: UUID, request: Request) -> HTMLResponse:
    """What the file would add, and its errors."""
    return await _preview(request, await arena_of(request, arena), upload)


@router.post("/uploads/{upload}/let-in")
async def let_in_form(
    arena: str,
    upload: UUID,
    request: Request,
    expected: Annotated[int, Form(ge=0, lt=2**31)],
    partly: Annotated[bool, Form()] = False,
    enable: Annotated[bool, Form()] = False,
    more: Annotated[bool, Form()] = False,
) -> Response:
    """Import exactly what was previewed. A draft's next step is on its overview; ``more``: another prompt by hand."""
    found = await arena_of(request, arena)
    try:
        await import_upload(
            pool_of(request),
            registry_of(request).blobs,
            found,
            upload,
            UploadDecision(expected, partly, enable),
            actor=actor_of(request).name,
        )
    except Conflict as error:
        return await _preview(request, found, upload, trouble=str(error), status=409)
    if more:
        return redirect_with_notice("imported", "arenas", arena, "answers", "write")
    draft = found.settings.stage == "draft"
    return redirect_with_notice("imported", "arenas", arena, *(() if draft else ("models",)))


@router.post("/uploads/{upload}/discard")
async def discard_form(arena: str, upload: UUID, request: Request) -> Response:
    """Discard the file."""
    await discard_upload(
        pool_of(request), await arena_of(request, arena), upload, actor=actor_of(request).name
    )
    return redirect_with_notice("discarded", "arenas", arena, "answers")


def _choose(request: Request, arena: Arena, *, trouble: str | None = None, status: int = 200) -> HTMLResponse:
    base = registry_of(request).settings.base_url or str(request.base_url).rstrip("/")
    return arena_page(
        request,
        arena,
        "answers.html",
        "answers",
        status=status,
        trouble=trouble,
        base=base,
        most=MAX_UPLOAD_BYTES,
    )


async def _preview(
    request: Request, arena: Arena, upload: UUID, *, trouble: str | None = None, status: int = 200
) -> HTMLResponse:
    found = await preview_upload(pool_of(request), arena, upload, actor=actor_of(request).name)
    return arena_page(
        request,
        arena,
        "upload.html",
        "answers",
        status=status,
        trouble=trouble,
        preview=found,
        written_name=WRITTEN_NAME,
    )
