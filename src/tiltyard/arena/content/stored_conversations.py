"""Responses with more than a text: a system prompt, earlier messages, and the steps that led to the response.

They are stored as one JSON document under a media type of its own. Whoever has no use for the parts reads a transcript.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tiltyard.arena.content.blob_store import ResponseContent
from tiltyard.core.judging.conversation import Message
from tiltyard.core.judging.question_context import AnswerContext
from tiltyard.errors import StoreFault, UnreadableFile
from tiltyard.files.answers import Answer
from tiltyard.files.message_fields import message_rows, read_messages

__all__ = [
    "CONVERSATION",
    "SaidText",
    "StoredConversation",
    "character_count",
    "conversation_bytes",
    "count_files",
    "read_conversation",
    "response_text",
    "said_texts",
]

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
    #: Images and other files that were there; the text has a mark for each.
    files: int = 0


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """A response, with what is known beside it."""

    context: AnswerContext
    response: str


def conversation_bytes(answer: Answer) -> bytes | None:
    """The document of an answer in text; ``None`` if there is nothing beside its prompt and response."""
    if answer.kind != "text" or answer.context == AnswerContext():
        return None
    stored = {
        "system": answer.system,
        "messages": message_rows(_without_files(answer.messages)),
        "trace": message_rows(_without_files(answer.trace)),
        "response": answer.response,
    }
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
        return StoredConversation(context, str(found["response"]))
    except (ValueError, KeyError, TypeError, UnreadableFile):
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
            found.append(SaidText(one.role, "\n".join(texts), one.tool, count_files([one])))
        found += [SaidText("call", f"{call.name} {call.arguments}".rstrip()) for call in one.tool_calls]
    return found


def count_files(messages: Sequence[Message]) -> int:
    """How many images and other files messages have, which an arena does not keep."""
    return sum(part.kind != "text" for one in messages for part in one.parts)


def _without_files(messages: Sequence[Message]) -> list[Message]:
    """The messages without the bytes and addresses of images and other files: an arena shows that there was one."""
    return [replace(one, parts=tuple(replace(part, url=None) for part in one.parts)) for one in messages]


def character_count(content: ResponseContent) -> int:
    """How many characters of a response there are to read; 0 if it is not a text."""
    if content.media_type == CONVERSATION:
        return len(read_conversation(content).response)
    is_text = content.media_type.startswith("text/plain")
    return len(content.data.decode("utf-8", "replace")) if is_text else 0
