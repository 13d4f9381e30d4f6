"""One answer: a response of one model to one prompt, with its messages and what is known about how it was made."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tiltyard.core.judging.conversation import (
    ROLES,
    AnswerContext,
    ContentPart,
    Message,
    ToolCall,
    split_conversation,
)
from tiltyard.core.judging.untrusted_text import replace_surrogates
from tiltyard.errors import UnreadableFile

#: Kinds of responses; all but text are given as a path or a URL.
KINDS = ("text", "image", "audio", "app")
#: The kind of an answer whose response is unknown or empty: only its scores count.
SCORES_ONLY = "scores"
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_TYPED = ("kind", "truncated", "messages", "trace", "usage", "scores", "repeat")
#: Texts whose names other programs may give to something else.
_NEW_TEXTS = frozenset({"system", "params_hash"})
_REQUIRED = ("prompt_id", "prompt", "model", "response")
#: Spellings of true and false; CSV has only text.
_FLAGS = {"true": True, "1": True, "false": False, "0": False, "": False}
#: Names of the fields of a usage, our own first.
_USAGE_NAMES = {
    "input_tokens": ("input_tokens", "prompt_tokens", "prompt"),
    "output_tokens": ("output_tokens", "completion_tokens", "completion"),
    "cost_usd": ("cost_usd", "cost", "total_cost"),
    "latency_seconds": ("latency_seconds", "latency"),
}
#: Other names of roles.
_ROLE_NAMES = {
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
FAILED_NOTE = "failed or was cancelled"
INVALID_NOTE = "was marked as invalid"
#: Said of a whole log, with its status.
LOG_STATUS_NOTE = "the log did not end well: its status is"
NO_RESPONSE_NOTE = "has neither a response nor a score"
NOT_IN_FILE_NOTE = "is in the data set, but not in the log"
MORE_RESPONSES_NOTE = "has more responses; only the first is read"
UNSCORED_NOTE = "has a metric without a value"
UNREADABLE_SCORE_NOTE = "has a metric that is not one number"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerUsage:
    """What an answer cost; ``None`` is unknown."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    latency_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer. ``extra`` keeps unknown fields, so that they are written back.

    ``prompt`` and ``response`` are the short form of a conversation. ``messages`` has the
    conversation before the response if it is more than the prompt; it ends with the prompt and has
    no system messages. ``trace`` has the steps between the prompt and the response.
    """

    prompt_id: str
    prompt: str
    model: str
    response: str
    kind: str = "text"
    category: str | None = None
    language: str | None = None
    gold: str | None = None
    expected_behavior: str | None = None
    source: str | None = None
    #: Aliases of the model's family and its maker.
    family: str | None = None
    maker: str | None = None
    #: Whether the response was cut off at the token limit.
    truncated: bool = False
    #: The system prompt.
    system: str | None = None
    messages: tuple[Message, ...] = ()
    trace: tuple[Message, ...] = ()
    usage: AnswerUsage | None = None
    #: Identifies the parameters of the generation.
    params_hash: str | None = None
    #: Scores of this answer by the name of the metric.
    scores: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    #: 0, or the number of the repetition if the model answered the same prompt several times.
    repeat: int = 0
    extra: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)

    @classmethod
    def from_dict(cls, row: Mapping[str, object], where: str) -> Answer:
        """Read one row; errors name ``where``."""
        kind = row.get("kind", "text")
        if kind not in KINDS and kind != SCORES_ONLY:
            raise UnreadableFile(f"{where}: kind is {kind!r}; expected one of {', '.join(KINDS)}")
        conversation = _conversation(row, where)
        given: dict[str, Any] = {name: _text(row, name, where) for name in _TEXTS} | conversation
        if kind == SCORES_ONLY and given["response"] is None:
            given["response"] = ""
        for name in _REQUIRED:
            if given[name] is None:
                raise UnreadableFile(f"{where}: {name} is missing; expected text")
        typed: dict[str, Any] = {
            "truncated": read_flag(row, "truncated", where),
            "usage": _usage(row.get("usage"), where),
            "scores": _scores(row.get("scores"), where),
            "repeat": _repeat(row.get("repeat"), where),
        }
        unknown = {key: value for key, value in row.items() if _is_unknown(key, value)}
        return cls(kind=kind, extra=MappingProxyType(unknown), **given, **typed)

    @property
    def comparable(self) -> bool:
        """Whether the answer can be shown beside another's: it has a response, and is not a repetition."""
        return self.kind != SCORES_ONLY and not self.repeat

    @property
    def context(self) -> AnswerContext:
        """What a judge is shown beside the prompt and the response."""
        return AnswerContext(self.system, self.messages, self.trace)

    def to_dict(self) -> dict[str, object]:
        """The row as written: the fields that are set, then the unknown ones."""
        known = {name: getattr(self, name) for name in _FIELDS} | {
            "truncated": self.truncated or None,
            "messages": message_rows(self.messages) or None,
            "trace": message_rows(self.trace) or None,
            "usage": None
            if self.usage is None
            else {name: value for name, value in dataclasses.asdict(self.usage).items() if value is not None},
            "scores": dict(self.scores) or None,
            "repeat": self.repeat or None,
        }
        return {name: value for name, value in known.items() if value is not None} | dict(self.extra)


_FIELDS = tuple(one.name for one in dataclasses.fields(Answer) if one.name != "extra")
ANSWER_FIELDS = frozenset(_FIELDS)
_TEXTS = tuple(name for name in _FIELDS if name not in _TYPED)


def read_flag(row: Mapping[str, object], name: str, where: str) -> bool:
    """A boolean field; false if missing."""
    value = row.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    flag = _FLAGS.get(str(value).lower())
    if flag is None:
        raise UnreadableFile(f"{where}: {name} is {str(value)[:40]!r}; expected true or false")
    return flag


def finite_number(value: object) -> float | None:
    """A finite number or a truth value as a number; ``None`` for anything else."""
    if not isinstance(value, bool | int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def count_of(value: object) -> int | None:
    """A number of tokens; ``None`` for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def mapping_of(value: object) -> Mapping[str, Any]:
    """A mapping; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def _conversation(row: Mapping[str, object], where: str) -> dict[str, Any]:
    """The prompt, the response and the conversation of a row that has messages, a trace or a system prompt."""
    trace = read_messages(row["trace"], where) if isinstance(row.get("trace"), list) else ()
    messages = read_messages(row["messages"], where) if isinstance(row.get("messages"), list) else ()
    found: dict[str, Any] = {name: _text(row, name, where) for name in ("prompt", "response", "system")}
    if not messages:
        return found | {"messages": (), "trace": trace}
    asked = (
        len(messages) if found["response"] is not None and messages[-1].text != found["response"] else None
    )
    split = split_conversation(messages, asked)
    if found["system"] is None:
        found["system"] = split.system
    if found["response"] is None:
        found["response"] = split.response
    if found["prompt"] is None:
        found["prompt"] = next((one.text for one in reversed(split.asked) if one.role == "user"), None)
    short = len(split.asked) == 1 and split.asked[0].role == "user" and split.asked[0].only_text
    long = not short or split.asked[0].text != found["prompt"]
    return found | {"messages": split.asked if long else (), "trace": trace or split.trace}


def _is_unknown(name: str, value: object) -> bool:
    """Whether a field is kept as it is: its name is unknown, or its value shows that it means something else."""
    if name in ("messages", "trace"):
        return not isinstance(value, list)
    if name == "usage":
        return not isinstance(value, Mapping) or not set(value) <= set(_USAGE_NAMES)
    if name == "scores":
        return not isinstance(value, Mapping)
    if name in _NEW_TEXTS:
        return not isinstance(value, str)
    return name not in _FIELDS


def _usage(value: object, where: str) -> AnswerUsage | None:
    """The known fields, under any of their usual names."""
    if not isinstance(value, Mapping):
        return None
    found: dict[str, Any] = {}
    for name, spellings in _USAGE_NAMES.items():
        stated = next((value[one] for one in spellings if value.get(one) is not None), None)
        number = finite_number(stated)
        if stated is not None and (number is None or number < 0):
            raise UnreadableFile(f"{where}: {name} of usage is {str(stated)[:40]!r}; expected a number")
        if number is not None:
            found[name] = int(number) if name.endswith("tokens") else number
    return AnswerUsage(**found) if found else None


def _scores(value: object, where: str) -> Mapping[str, float]:
    if not isinstance(value, Mapping):
        return _NOTHING
    found: dict[str, float] = {}
    for name, score in value.items():
        number = finite_number(score)
        if score is None or (isinstance(score, float) and number is None):
            continue
        if number is None:
            raise UnreadableFile(
                f"{where}: the score {str(name)[:40]} is {str(score)[:40]!r}; expected a number"
            )
        found[str(name)] = number
    return MappingProxyType(found)


def _repeat(value: object, where: str) -> int:
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    if number is None:
        return 0
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise UnreadableFile(f"{where}: repeat is {str(value)[:40]!r}; expected 0 or a positive number")
    return number


def _text(row: Mapping[str, object], name: str, where: str) -> str | None:
    value = row.get(name)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if name in _NEW_TEXTS:
        return None
    raise UnreadableFile(f"{where}: {name} is {type(value).__name__}; expected text")


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
    def __init__(self, where: str, resolve: Callable[[str], str]) -> None:
        self._where = where
        self._resolve = resolve

    def message(self, value: object, number: int) -> Message:
        if not isinstance(value, Mapping):
            raise UnreadableFile(
                f"{self._where}: message {number} is {type(value).__name__}; expected an object"
            )
        stated = value.get("role", value.get("from"))
        role = _ROLE_NAMES.get(stated) if isinstance(stated, str) else None
        if role is None:
            raise UnreadableFile(
                f"{self._where}: the role of message {number} is {str(stated)[:40]!r}; "
                f"expected one of {', '.join(ROLES)}"
            )
        content = value.get("content", value.get("value"))
        # Whether the content is results of tools alone, which Anthropic's messages give to the user.
        if role == "user" and (
            isinstance(content, list)
            and bool(content)
            and all(isinstance(part, Mapping) and part.get("type") == "tool_result" for part in content)
        ):
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
