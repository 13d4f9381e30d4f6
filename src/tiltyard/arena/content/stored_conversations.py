"""Responses with more than a text: a system prompt, earlier messages, and the steps that led to the response.

They are stored as one JSON document under a media type of its own, with the images of their messages: what happens to
a response happens to them. Whoever has no use for the parts reads a transcript.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tiltyard.arena.content.blob_store import ResponseContent
from tiltyard.arena.content.media_types import detect_media_type
from tiltyard.arena.content.message_images import ImageCollector, image_hashes, unshown_files
from tiltyard.core.judging.conversation import AnswerContext, Message
from tiltyard.errors import InputError, NotFound, StoreFault, UnreadableFile
from tiltyard.files.answer import Answer, message_rows, read_messages

#: The media type under which conversations are stored. They are sent as plain text.
CONVERSATION = "application/vnd.tiltyard.conversation+json"

_ROLE_NAMES = {
    "user": "User",
    "assistant": "Assistant",
    "tool": "Tool result",
    "call": "Tool call",
    "system": "System",
}


class SaidText(NamedTuple):
    """A text of a conversation, and whose: a role of messages, or ``call`` for the call of a tool."""

    role: str
    text: str
    #: The tool that gave a result, if it is named.
    tool: str | None = None
    #: The hashes of its images, and why other files are not shown; the text has a mark for each.
    images: tuple[str, ...] = ()
    unshown: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """A response, with what is known beside it."""

    context: AnswerContext
    response: str
    #: The images of its messages by hash, in base64, in the order of their numbers.
    images: Mapping[str, str] = field(default_factory=dict)


def conversation_bytes(answer: Answer, folder: Path | None = None) -> bytes | None:
    """The document of an answer in text; ``None`` if there is nothing beside its prompt and response.

    Images are those of ``data:`` URLs, and those of files in the folder or below.
    """
    if answer.kind != "text" or answer.context == AnswerContext():
        return None
    collector = ImageCollector(folder)
    stored: dict[str, object] = {
        "system": answer.system,
        "messages": message_rows(collector.keep(answer.messages)),
        "trace": message_rows(collector.keep(answer.trace)),
        "response": answer.response,
    }
    if collector.images:
        stored["images"] = collector.images
    return json.dumps(stored, ensure_ascii=False, separators=(",", ":")).encode()


def read_conversation(content: ResponseContent) -> StoredConversation:
    """A response in text with its context, which is empty for one that is only a text."""
    if content.media_type != CONVERSATION:
        return StoredConversation(AnswerContext(), content.data.decode("utf-8", "replace"))
    try:
        found: dict[str, Any] = json.loads(content.data)
        context = AnswerContext(
            found["system"],
            read_messages(found["messages"], "a stored response"),
            read_messages(found["trace"], "a stored response"),
        )
        return StoredConversation(context, str(found["response"]), dict(found.get("images", {})))
    except (ValueError, KeyError, TypeError, UnreadableFile):
        raise StoreFault("a stored response is damaged; restore the responses from the last backup") from None


def conversation_image(content: ResponseContent, number: int) -> ResponseContent:
    """An image of a stored response's messages by its number, as it was imported; `NotFound` if there is none."""
    images = [] if content.media_type != CONVERSATION else [*read_conversation(content).images.values()]
    if number >= len(images):
        raise NotFound(f"this response has no image {number}; it has {len(images)}")
    try:
        data = base64.b64decode(images[number], validate=True)
        return ResponseContent(detect_media_type("image", data), data)
    except (binascii.Error, TypeError, InputError):
        raise StoreFault("a stored response is damaged; restore the responses from the last backup") from None


def response_text(content: ResponseContent) -> str:
    """A response in text as one text: a conversation as a transcript."""
    stored = read_conversation(content)
    if stored.context == AnswerContext():
        return stored.response
    system = [] if stored.context.system is None else [SaidText("system", stored.context.system)]
    steps = said_texts((*stored.context.messages, *stored.context.trace))
    said = (*system, *steps, SaidText("assistant", stored.response))
    return "\n\n".join(f"{_ROLE_NAMES[one.role]}:\n{one.text}" for one in said)


def said_texts(messages: Sequence[Message]) -> list[SaidText]:
    """Who said what: each message as one text, and each call of a tool as one of its own."""
    found: list[SaidText] = []
    for one in messages:
        texts = [part.text if part.kind == "text" else f"[{part.kind}]" for part in one.parts]
        if texts or not one.tool_calls:
            found.append(
                SaidText(one.role, "\n".join(texts), one.tool, image_hashes(one), unshown_files(one))
            )
        found += [SaidText("call", f"{call.name} {call.arguments}".rstrip()) for call in one.tool_calls]
    return found


def count_files(messages: Sequence[Message]) -> int:
    """How many images and other files messages have."""
    return sum(part.kind != "text" for one in messages for part in one.parts)


def character_count(content: ResponseContent) -> int:
    """How many characters of a response there are to read; 0 if it is not a text."""
    if content.media_type == CONVERSATION:
        return len(read_conversation(content).response)
    is_text = content.media_type.startswith("text/plain")
    return len(content.data.decode("utf-8", "replace")) if is_text else 0
