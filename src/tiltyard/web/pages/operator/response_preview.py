"""What an operator decides about: a prompt and responses, shown and never run."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass

from fastapi import Request
from markupsafe import Markup

from tiltyard.arena.content.arenas import Arena, read_prompt_responses
from tiltyard.arena.content.stored_conversations import CONVERSATION, read_conversation
from tiltyard.errors import NotFound
from tiltyard.web.access.access import registry_of
from tiltyard.web.pages import paths
from tiltyard.web.pages.conversation_view import ConversationTurn, build_single_turn
from tiltyard.web.pages.matchup_view import image_address
from tiltyard.web.pages.operator.operator_access import pool_of
from tiltyard.web.texts import render_text
from tiltyard.web.texts.app_sandbox import PLAIN


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


@dataclass(frozen=True, slots=True)
class PromptPreview:
    """A prompt, which is ``None`` if it is withdrawn, and responses to it."""

    prompt: Markup | None
    responses: tuple[ResponsePreview, ...]


async def preview_responses(
    request: Request, arena: Arena, prompt: str, models: Collection[str]
) -> PromptPreview:
    """Read a prompt and the responses of these models: live ones, or else hidden ones."""
    found = await read_prompt_responses(pool_of(request), arena, prompt, models)
    return PromptPreview(
        None if found.text is None else await asyncio.to_thread(render_text, found.text),
        tuple(
            [
                await _response(request, arena, prompt, model, response)
                for model, response in zip(models, found.responses, strict=True)
            ]
        ),
    )


async def _response(
    request: Request, arena: Arena, prompt: str, model: str, response: int | None
) -> ResponsePreview:
    try:
        content = None if response is None else await registry_of(request).blobs.read_kept(response)
    except NotFound:
        content = None
    if content is None:
        return ResponsePreview(model)
    url, query = f"/api/v1/arenas/{arena.name}/responses", {"model": model, "prompt": prompt}
    if content.media_type in (PLAIN, CONVERSATION):
        stored = await asyncio.to_thread(read_conversation, content)
        turn = build_single_turn(stored, image_address(url, query))
        return ResponsePreview(model, text=await asyncio.to_thread(render_text, stored.response), turn=turn)
    href = paths.asked(url, query)
    return ResponsePreview(model, kind=content.media_type.partition("/")[0], href=href)
