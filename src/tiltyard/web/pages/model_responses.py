"""A response under its model's name: for operators, and for readers of an archived arena.

Whoever knows which model wrote a response does not vote blind on it, so readers see none while votes are taken.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup

from tiltyard.arena.content.arenas import Arena, read_prompt_responses
from tiltyard.arena.content.blob_store import ResponseContent
from tiltyard.arena.content.prompt_browser import read_prompt_words
from tiltyard.arena.content.stored_conversations import CONVERSATION, conversation_image, read_conversation
from tiltyard.errors import NotFound
from tiltyard.web.access.access import registry_of
from tiltyard.web.access.route_access import ReadableArena
from tiltyard.web.pages import paths
from tiltyard.web.pages.layout import render_page
from tiltyard.web.pages.matchup_view import ConversationTurn, build_single_turn, image_address
from tiltyard.web.routes.moderation import DOWNLOAD_HEADERS
from tiltyard.web.texts import render_text
from tiltyard.web.texts.app_sandbox import PLAIN
from tiltyard.wire.records import Plain

router = APIRouter(prefix="/arenas/{arena}/responses", include_in_schema=False)

Model = Annotated[Plain, Query()]
Prompt = Annotated[Plain, Query()]


@dataclass(frozen=True, slots=True)
class ResponsePreview:
    """A response: a text as HTML, or the URL of other content. It has neither if it is withdrawn."""

    model: str
    text: Markup | None = None
    #: What stands before a text: the messages and steps of a conversation.
    turn: ConversationTurn | None = None
    #: ``image``, ``audio`` or ``text``, which means an app here.
    kind: str = ""
    href: str | None = None


async def preview_content(content: ResponseContent, url: str, model: str, prompt: str) -> ResponsePreview:
    """How a response is shown; ``url`` gives its bytes."""
    query = {"model": model, "prompt": prompt}
    if content.media_type in (PLAIN, CONVERSATION):
        stored = await asyncio.to_thread(read_conversation, content)
        turn = build_single_turn(stored, image_address(url, query))
        return ResponsePreview(model, text=await asyncio.to_thread(render_text, stored.response), turn=turn)
    return ResponsePreview(model, kind=content.media_type.partition("/")[0], href=paths.asked(url, query))


@router.get("", response_class=HTMLResponse)
async def response_page(arena: ReadableArena, request: Request, model: Model, prompt: Prompt) -> HTMLResponse:
    """A model's response to a prompt, in an archived arena."""
    text, content = await _read(request, arena, model, prompt)
    words = await read_prompt_words(registry_of(request).pool, arena, [prompt])
    return render_page(
        request,
        "model/response.html",
        arena=arena,
        active="board",
        prompt=words[prompt],
        prompt_text=None if text is None else await asyncio.to_thread(render_text, text),
        response=await preview_content(content, f"{paths.responses(arena.name)}/file", model, prompt),
    )


@router.get("/file")
async def response_file(
    arena: ReadableArena,
    request: Request,
    model: Model,
    prompt: Prompt,
    image: Annotated[int | None, Query(ge=0, lt=1_000)] = None,
) -> Response:
    """The bytes of such a response, or of an image of its messages."""
    _, content = await _read(request, arena, model, prompt)
    if image is not None:
        content = await asyncio.to_thread(conversation_image, content, image)
    return Response(content.data, media_type=content.media_type, headers=DOWNLOAD_HEADERS)


async def _read(
    request: Request, arena: Arena, model: str, prompt: str
) -> tuple[str | None, ResponseContent]:
    """The prompt's text and the response; `NotFound` if readers may not see it."""
    if arena.settings.stage != "archived" or arena.settings.is_live:
        raise NotFound("responses are shown with their models' names once the arena is archived")
    registry = registry_of(request)
    text, (number,) = await read_prompt_responses(registry.pool, arena, prompt, [model])
    if number is None:
        raise NotFound("this response was withdrawn")
    return text, await registry.blobs.read(number)
