"""Responses with more than a text: a system prompt, earlier messages, and the steps that led to the response.

They are stored as one JSON document under a media type of its own, with the images of their messages: what happens to
a response happens to them. Whoever has no use for the parts reads a transcript.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from tiltyard.arena.content.blinding import strip_metadata
from tiltyard.arena.content.blinding.images import check_image_size
from tiltyard.arena.content.blob_store import ResponseContent
from tiltyard.core.judging.conversation import AnswerContext, ContentPart, Message
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


#: Images of one response that are kept.
_IMAGE_LIMIT = 100

#: Why a file is not shown: it is elsewhere in the network; it is no image that can be shown; it did not come with the
#: answers; the response has too many; it is no image.
UNSHOWN_REASONS = ("linked", "unreadable", "missing", "many", "other")

#: How a stored part refers to an image of its document, or says why it has none.
_IMAGE, _UNSHOWN = "sha256:", "unshown:"


@dataclass(slots=True)
class ImageCollector:
    """Collects the images of one response's messages. ``folder`` has files that they name, if they may name any."""

    folder: Path | None = None
    #: By hash, in base64.
    images: dict[str, str] = field(default_factory=dict)

    def keep(self, messages: Sequence[Message]) -> list[Message]:
        """The messages with references in place of images, and without addresses and bytes of other files."""
        return [
            replace(one, parts=tuple(replace(part, url=self._reference(part)) for part in one.parts))
            for one in messages
        ]

    def _reference(self, part: ContentPart) -> str | None:
        if part.kind == "text":
            return None
        if part.kind != "image":
            return f"{_UNSHOWN}other"
        data = self._read(part.url)
        if isinstance(data, str):
            return f"{_UNSHOWN}{data}"
        sha256 = hashlib.sha256(data).hexdigest()
        if sha256 not in self.images and len(self.images) >= _IMAGE_LIMIT:
            return f"{_UNSHOWN}many"
        self.images.setdefault(sha256, base64.b64encode(data).decode())
        return f"{_IMAGE}{sha256}"

    def _read(self, url: str | None) -> bytes | str:
        """The bytes of an image, or why there are none."""
        if url is None:
            return "missing"
        if is_network_address(url):
            return "linked"
        try:
            data = read_answer_file(url, self.folder)
        except InputError:
            return "unreadable" if url.startswith("data:") else "missing"
        try:
            media = detect_media_type("image", data)
            check_image_size(media, data)
            strip_metadata(media, data)
        except InputError:
            return "unreadable"
        return data


def image_hashes(message: Message) -> tuple[str, ...]:
    """The hashes of a stored message's images."""
    urls = (part.url for part in message.parts if part.kind == "image" and part.url is not None)
    return tuple(url.removeprefix(_IMAGE) for url in urls if url.startswith(_IMAGE))


def unshown_files(message: Message) -> tuple[tuple[str, int], ...]:
    """The reasons why files of a stored message are not shown, each with how many."""
    urls = [part.url or "" for part in message.parts if part.kind != "text"]
    stated = (url.removeprefix(_UNSHOWN) for url in urls if not url.startswith(_IMAGE))
    # Responses that were stored before images were kept have no reason: the arena does not have their files.
    counted = Counter(reason if reason in UNSHOWN_REASONS else "missing" for reason in stated)
    return tuple((reason, counted[reason]) for reason in UNSHOWN_REASONS if counted[reason])


def count_unshown(messages: Sequence[Message]) -> int:
    """How many files of stored messages are not shown."""
    return sum(count for one in messages for _, count in unshown_files(one))


#: What precedes the tag is read once and never again: comments could otherwise be divided in 2ⁿ ways.
_PAGE = re.compile(
    rb"\A(?:\xef\xbb\xbf)?(?:\s++|<!--(?>.*?-->))*+<(?:!doctype\s++html|html)\b", re.IGNORECASE | re.DOTALL
)
#: Formats by kind: pattern of the first bytes, and the media type.
_KNOWN: dict[str, tuple[tuple[re.Pattern[bytes], str], ...]] = {
    "image": (
        (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
        (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
        (re.compile(rb"GIF8[79]a"), "image/gif"),
        (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
    ),
    "audio": (
        (re.compile(rb"RIFF....WAVE", re.DOTALL), "audio/wav"),
        (re.compile(rb"ID3|\xff[\xe2\xe3\xf2\xf3\xfa\xfb]"), "audio/mpeg"),
        (re.compile(rb"OggS"), "audio/ogg"),
        (re.compile(rb"fLaC"), "audio/flac"),
    ),
}
_EXPECTED = {
    "image": "a PNG, JPEG, GIF or WebP image",
    "audio": "WAV, MP3, Ogg or FLAC audio",
    "app": "an HTML page in UTF-8, beginning with <!doctype html> or <html>",
}


def detect_media_type(kind: str, data: bytes) -> str:
    """The media type under which a response of this kind is sent; other bytes are an `InputError`."""
    if kind == "text":
        return "text/plain; charset=utf-8"
    if kind == "app":
        with suppress(UnicodeDecodeError):
            if _PAGE.match(data[:4096]) and data.decode():
                return "text/html; charset=utf-8"
    else:
        for pattern, known in _KNOWN[kind]:
            if pattern.match(data[:16]):
                return known
    raise InputError(f"these bytes are not {_EXPECTED[kind]}")


#: Maximum bytes of a response; of a conversation with its messages and images.
MAX_RESPONSE_BYTES = 32 * 1024 * 1024

_SHOWN_NAME_CHARACTERS = 200
_DATA = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,", re.ASCII)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def is_network_address(stated: str) -> bool:
    """Whether it is the address of something elsewhere, such as ``https://…``."""
    return stated.startswith("//") or _ADDRESS.match(stated) is not None


def read_answer_file(stated: str, folder: Path | None) -> bytes:
    """The bytes of a ``data:`` URL, or of a file in the folder or below; other values are an `InputError`."""
    start = _DATA.match(stated)
    if start is not None:
        try:
            return base64.b64decode(stated[start.end() :], validate=True)
        except binascii.Error:
            raise InputError("the response is a data: URL with invalid base64") from None
    if folder is None or _ADDRESS.match(stated):
        expected = "a data: URL with base64" if folder is None else "the path of a file"
        raise InputError(f"the response is {stated[:_SHOWN_NAME_CHARACTERS]!r}; expected {expected}")
    return _file(stated, folder)


def _file(stated: str, folder: Path) -> bytes:
    """Read a file below the folder. Links that lead outside are not followed."""
    try:
        root = folder.resolve(strict=True)
        place = (root / stated).resolve(strict=True)
        if not place.is_relative_to(root):
            raise InputError(
                f"{stated!r} is outside {folder}; put the file in the folder of the answers, or below"
            )
        if not place.is_file():
            raise InputError(f"{stated!r} is not a file")
        with place.open("rb") as file:
            return file.read(MAX_RESPONSE_BYTES + 1)
    except (OSError, ValueError, RuntimeError) as error:
        problem = error.strerror if isinstance(error, OSError) and error.strerror else "no such file"
        raise InputError(f"{stated[:_SHOWN_NAME_CHARACTERS]!r} cannot be read: {problem}") from None
