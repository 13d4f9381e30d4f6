"""Messages as JSON: reads the shapes that common tools write, and writes one of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tiltyard.core.judging.conversation import ROLES, ContentPart, Message, ToolCall
from tiltyard.core.judging.untrusted_text import replace_surrogates
from tiltyard.errors import UnreadableFile

#: Other names of roles.
_ROLES = {
    **{role: role for role in ROLES},
    "developer": "system",
    "human": "user",
    "gpt": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "function": "tool",
}
_TEXT_TYPES = frozenset({"text", "input_text", "output_text", "refusal"})
#: Parts that are not shown. Calls of tools are read separately.
_LEFT_OUT_TYPES = frozenset({"reasoning", "thinking", "redacted_thinking", "data", "tool_use"})
_FILE_TYPES = {
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "audio": "audio",
    "input_audio": "audio",
    "video": "video",
    "document": "file",
    "file": "file",
}


def read_messages(
    value: object, where: str, resolve: Callable[[str], str] | None = None
) -> tuple[Message, ...]:
    """Read a list of messages; errors name ``where``. ``resolve`` replaces references in texts."""
    if not isinstance(value, list):
        raise UnreadableFile(f"{where}: messages is {type(value).__name__}; expected a list of messages")
    reader = _MessageReader(where, resolve or clean_text)
    return tuple(reader.message(one, number) for number, one in enumerate(value, start=1))


def message_rows(messages: Iterable[Message]) -> list[dict[str, object]]:
    """The messages as JSON values, as `read_messages` reads them."""
    return [_message_row(one) for one in messages]


def json_text(value: object) -> str:
    """A value as text: text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    # Parquet and Arrow have values that JSON lacks, such as times.
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def clean_text(text: str) -> str:
    """``text`` with lone surrogates, which no file can contain, replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return replace_surrogates(text)
    return text


class _MessageReader:
    """Reads messages at one location of a file."""

    def __init__(self, where: str, resolve: Callable[[str], str]) -> None:
        self._where = where
        self._resolve = resolve

    def message(self, value: object, number: int) -> Message:
        if not isinstance(value, Mapping):
            raise UnreadableFile(
                f"{self._where}: message {number} is {type(value).__name__}; expected an object"
            )
        stated = value.get("role", value.get("from"))
        role = _ROLES.get(stated) if isinstance(stated, str) else None
        if role is None:
            raise UnreadableFile(
                f"{self._where}: the role of message {number} is {str(stated)[:40]!r}; "
                f"expected one of {', '.join(ROLES)}"
            )
        content = value.get("content", value.get("value"))
        if role == "user" and _is_tool_result(content):
            role = "tool"
        calls = value.get("tool_calls")
        tool = value.get("function", value.get("name")) if role == "tool" else None
        return Message(
            role,
            tuple(self._parts(content)),
            (*self._calls_of_parts(content), *self._calls(calls)),
            tool if isinstance(tool, str) else None,
        )

    def _parts(self, content: object) -> Iterator[ContentPart]:
        if isinstance(content, Mapping) and "type" not in content:
            content = content.get("answer", content.get("text"))
        if content is None:
            return
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, str):
                yield ContentPart(self._resolve(part))
            elif isinstance(part, Mapping):
                yield from self._part(part)
            elif part is not None:
                raise UnreadableFile(
                    f"{self._where}: the content of a message has {type(part).__name__}; expected text or parts"
                )

    def _part(self, part: Mapping[str, Any]) -> Iterator[ContentPart]:
        stated = part.get("type")
        kind = stated if isinstance(stated, str) else ""
        text = part.get("text", part.get("refusal"))
        if kind in _LEFT_OUT_TYPES:
            return
        if kind in _FILE_TYPES:
            yield ContentPart(kind=_FILE_TYPES[kind], url=self._url(part, kind))
        elif kind == "tool_result":
            yield from self._parts(part.get("content"))
        elif isinstance(text, str) and (kind in _TEXT_TYPES or not kind):
            yield ContentPart(self._resolve(text))
        else:
            yield ContentPart(kind=clean_text(kind[:40]) or "unknown")

    def _url(self, part: Mapping[str, Any], kind: str) -> str | None:
        """The address in any of the shapes of OpenAI, Anthropic and Inspect."""
        value = part.get(kind, part.get("image_url"))
        source = part.get("source")
        if isinstance(source, Mapping):
            if isinstance(source.get("data"), str):
                return f"data:{source.get('media_type')};base64,{source['data']}"
            value = source.get("url")
        if isinstance(value, Mapping):
            value = value.get("url")
        if value is None:
            value = part.get("url")
        return self._resolve(value) if isinstance(value, str) else None

    def _calls_of_parts(self, content: object) -> Iterator[ToolCall]:
        for part in content if isinstance(content, list) else ():
            if isinstance(part, Mapping) and part.get("type") == "tool_use":
                yield self._call(part)

    def _calls(self, calls: object) -> Iterator[ToolCall]:
        if calls is None:
            return
        if not isinstance(calls, list) or not all(isinstance(call, Mapping) for call in calls):
            raise UnreadableFile(f"{self._where}: tool_calls is not a list of objects")
        for call in calls:
            yield self._call(call)

    def _call(self, call: Mapping[str, Any]) -> ToolCall:
        function = call.get("function", call.get("name"))
        owner = function if isinstance(function, Mapping) else call
        name = owner.get("name", function)
        arguments = owner.get("arguments", owner.get("input"))
        if not isinstance(name, str):
            raise UnreadableFile(f"{self._where}: a tool call has no name")
        return ToolCall(name, "" if arguments is None else self._resolve(json_text(arguments)))


def _is_tool_result(content: object) -> bool:
    """Whether the content is results of tools alone, which Anthropic's messages give to the user."""
    return (
        isinstance(content, list)
        and bool(content)
        and all(isinstance(part, Mapping) and part.get("type") == "tool_result" for part in content)
    )


def _message_row(message: Message) -> dict[str, object]:
    parts = [_part_row(part) for part in message.parts]
    plain = len(message.parts) == 1 and message.parts[0] == ContentPart(message.parts[0].text)
    row: dict[str, object] = {"role": message.role, "content": message.text if plain else parts}
    if message.tool_calls:
        row["tool_calls"] = [{"name": call.name, "arguments": call.arguments} for call in message.tool_calls]
    if message.tool is not None:
        row["name"] = message.tool
    return row


def _part_row(part: ContentPart) -> dict[str, object]:
    if part.kind == "text":
        return {"type": "text", "text": part.text}
    row: dict[str, object] = {"type": part.kind}
    return row if part.url is None else row | {"url": part.url}
