"""Conversations: messages with roles, and the steps that led to a response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ROLES = ("system", "user", "assistant", "tool")


@dataclass(frozen=True, slots=True)
class ContentPart:
    """One part of a message: a text, or something else that ``url`` points to."""

    text: str = ""
    #: ``text``, ``image``, ``audio``, ``video``, ``file``, or another tool's name for it.
    kind: str = "text"
    #: A ``data:`` URL, another URL or a path.
    url: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool; ``arguments`` are text, usually JSON."""

    name: str
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One message. ``tool`` names the tool that gave the result, in messages of the role ``tool``."""

    role: str
    parts: tuple[ContentPart, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool: str | None = None

    @property
    def text(self) -> str:
        """The text parts, one below the other."""
        return "\n".join(part.text for part in self.parts if part.kind == "text")

    @property
    def only_text(self) -> bool:
        """Whether the text is all there is."""
        return not self.tool_calls and all(part.kind == "text" for part in self.parts)


@dataclass(frozen=True, slots=True)
class SplitConversation:
    """A conversation, divided into what was asked, the steps of the answer, and the response.

    ``asked`` ends with the last message of the user and has no system messages; their text is
    ``system``. ``response`` is ``None`` if no text of the assistant follows.
    """

    system: str | None
    asked: tuple[Message, ...]
    trace: tuple[Message, ...]
    response: str | None


def split_conversation(messages: Sequence[Message], asked: int | None = None) -> SplitConversation:
    """Divide a conversation after its last message of the user, or after the first ``asked`` messages."""
    if asked is None:
        asked = 1 + max((k for k, one in enumerate(messages) if one.role == "user"), default=-1)
    texts = [one.text for one in messages if one.role == "system"]
    before = tuple(one for one in messages[:asked] if one.role != "system")
    after = tuple(one for one in messages[asked:] if one.role != "system")
    last = max((k for k, one in enumerate(after) if one.role == "assistant"), default=None)
    system = "\n\n".join(texts) if texts else None
    if last is None or not after[last].text:
        return SplitConversation(system, before, after, None)
    final = after[last]
    # A response that also calls tools is the last step too.
    steps = after[:last] if final.only_text else after[: last + 1]
    return SplitConversation(system, before, steps + after[last + 1 :], final.text)
