"""Streams of server-sent events, read into the pieces of an answer, apart from the thinking between tags at its start."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiltyard.errors import ProviderFault
from tiltyard.judges.providers.faults import unreadable_reply
from tiltyard.judges.providers.provider import (
    Body,
    StreamEnd,
    StreamPiece,
    StreamStop,
    StreamTimeouts,
    Usage,
    parse_body,
    repair_surrogates,
)

if TYPE_CHECKING:
    import aiohttp

#: A longer line is no event of a model's answer.
_LINE_BYTES = 2**20
#: A longer stream is no answer.
_STREAM_BYTES = 64 * 2**20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
#: How long to wait, after the end mark, for the end of the connection's data, so that the connection can be kept.
_LAST_BYTES_SECONDS = 0.1
#: While nobody reads the stream, its deadline is looked at so often.
_IDLE_CHECK_SECONDS = 1.0

#: Opening and closing tags of the thinking that local models write into their text.
_TAGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<seed:think>": "</seed:think>",
    "[THINK]": "[/THINK]",
}
#: As many blanks at the start are held back until it is known what follows them.
_BLANKS_CHARACTERS = 200


class OversizedStream(ValueError):
    """A stream, or a line of it, is larger than any answer."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event. ``name`` is empty if the server gave none."""

    name: str
    data: bytes


class EventParser:
    """Splits a stream into events. Lines end with LF, CR or CRLF; comments are left out."""

    def __init__(self, line_bytes: int = _LINE_BYTES, stream_bytes: int = _STREAM_BYTES) -> None:
        self._line_bytes = line_bytes
        self._stream_bytes = stream_bytes
        self._size = 0
        #: The line that has begun.
        self._rest = bytearray()
        #: The last chunk ended with CR: an LF at the start of the next belongs to it.
        self._after_cr = False
        self._started = False
        self._name = ""
        self._data: list[bytes] = []
        self._data_size = 0

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that a chunk completes. Raises `OversizedStream`."""
        self._size += len(chunk)
        if self._size > self._stream_bytes:
            raise OversizedStream(f"more than {self._stream_bytes:,} bytes")
        fits = len(self._rest) + len(chunk) <= self._line_bytes
        lines = self._lines(chunk)
        if not fits and max(map(len, (self._rest, *lines))) > self._line_bytes:
            raise OversizedStream(f"a line of more than {self._line_bytes:,} bytes")
        return [event for line in lines if (event := self._line(line)) is not None]

    def close(self) -> list[ServerEvent]:
        """The event that the end of the stream completes, if any."""
        rest, self._rest = bytes(self._rest), bytearray()
        ended = [self._line(rest) if rest else None, self._line(b"")]
        return [event for event in ended if event is not None]

    def _lines(self, chunk: bytes) -> list[bytes]:
        """The lines that a chunk ends. What is left is kept; it is copied only when its line ends."""
        if self._after_cr and chunk[:1] == b"\n":
            chunk = chunk[1:]
            self._after_cr = False
        if not chunk:
            return []
        self._after_cr = chunk[-1:] == b"\r"
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in chunk:
            self._rest += chunk
            return []
        first, *lines = chunk.split(b"\n")
        first = bytes(self._rest) + first
        if not self._started:
            self._started = True
            first = first.removeprefix(_BYTE_ORDER_MARK)
        self._rest = bytearray(lines.pop())
        return [first, *lines]

    def _line(self, line: bytes) -> ServerEvent | None:
        if not line:
            name, data = self._name, self._data
            self._name, self._data, self._data_size = "", [], 0
            return ServerEvent(name, data[0] if len(data) == 1 else b"\n".join(data)) if data else None
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
            self._data_size += len(value)
            if self._data_size > self._line_bytes:
                raise OversizedStream(f"an event of more than {self._line_bytes:,} bytes")
        elif field == b"event":
            self._name = value.decode(errors="replace")
        elif field == b"error":
            # Not of the standard: llama.cpp has sent errors so.
            self._name = "error"
            self._data.append(value)
        return None


class StreamSilent(Exception):
    """A stream has said nothing until its deadline."""


class StreamDeadline:
    """Until when a stream must say something, in the time of the event loop."""

    def __init__(self, timeouts: StreamTimeouts, now: float) -> None:
        self._timeouts = timeouts
        self._end = now + timeouts.total_seconds
        self._begun = False
        self.at = min(now + timeouts.first_token_seconds, self._end)

    def heard(self, now: float) -> None:
        """A piece has come."""
        self._begun = True
        self.at = min(now + self._timeouts.gap_seconds, self._end)

    def ended(self, now: float) -> None:
        """The end mark has come."""
        self.at = min(now + _LAST_BYTES_SECONDS, self._end)

    @property
    def problem(self) -> str:
        """What was waited for in vain."""
        if self.at >= self._end:
            return f"the answer was not complete after {self._timeouts.total_seconds:g} seconds"
        if not self._begun:
            return f"no token within {self._timeouts.first_token_seconds:g} seconds"
        return f"no further token for {self._timeouts.gap_seconds:g} seconds"


class SilenceWatch:
    """Closes a stream that is silent beyond its deadline.

    A timer for each read would cost more than the read: this one is set again only when it has run out, because
    most deadlines are moved before they come.
    """

    def __init__(self, deadline: StreamDeadline, close: Callable[[], None]) -> None:
        self._deadline = deadline
        self._close = close
        self._loop = asyncio.get_running_loop()
        self._reads = False
        self._expired = False
        self._timer = self._loop.call_at(deadline.at, self._check)

    async def read(self, content: aiohttp.StreamReader) -> bytes:
        """The bytes that arrive next, empty at the end. Raises `StreamSilent` after the deadline."""
        if self._deadline.at < self._timer.when():
            self._set(self._deadline.at)
        self._reads = True
        try:
            return await content.readany()
        except Exception:
            if self._expired:
                raise StreamSilent from None
            raise
        finally:
            self._reads = False

    def stop(self) -> None:
        """Watch no longer."""
        self._timer.cancel()

    def _check(self) -> None:
        now = self._loop.time()
        if now < self._deadline.at:
            self._set(self._deadline.at)
        elif self._reads:
            self._expired = True
            self._close()
        else:
            # Whoever reads the stream is busy: that is no fault of the server.
            self._set(now + _IDLE_CHECK_SECONDS)

    def _set(self, at: float) -> None:
        self._timer.cancel()
        self._timer = self._loop.call_at(at, self._check)


class StreamReader:
    """Collects what the events of one stream say. Each protocol has its own."""

    def __init__(self, where: str, *, thinking_open: bool = False) -> None:
        self.where = where
        #: The protocol's end mark has come.
        self.finished = False
        #: Why the answer ended, once it has.
        self.stop: StreamStop | None = None
        self.usage: Usage | None = None
        self._joiner, self._tags = SurrogateJoiner(), ThinkingTags(opened=thinking_open)
        #: What has been read and not been given yet.
        self._text = ""
        self._thinking = ""

    def read(self, events: Iterable[ServerEvent] | Body) -> StreamPiece | None:
        """What some events, or a reply in one document, add to the answer. Raises `ProviderFault`."""
        if isinstance(events, dict):
            self._reply(events)
        else:
            for event in events:
                self._event(event)
        return self._piece()

    def rest(self) -> StreamPiece | None:
        """What was held back until the stream ended."""
        self._add(self._joiner.rest())
        text, thinking = self._tags.rest()
        self._text += text
        self._thinking += thinking
        return self._piece()

    def end(self) -> StreamEnd:
        """The end of the answer. Raises `ProviderFault` if the stream has no end."""
        if self.stop is None and not self.finished:
            raise unreadable_reply(self.where, "the stream ended without its end mark", billable=True)
        usage = self.usage
        if usage is None:
            return StreamEnd(None, None, self.stop or "end")
        given = usage.input + usage.cache_write + usage.cache_read
        return StreamEnd(given, usage.output, self.stop or "end", usage)

    def _event(self, event: ServerEvent) -> None:
        raise NotImplementedError

    def _reply(self, reply: Body) -> None:
        raise NotImplementedError

    def _add(self, text: object) -> None:
        """Add to the answer, of which a part may be thinking between tags."""
        if isinstance(text, str) and text:
            answer, thinking = self._tags.split(self._joiner.join(text))
            self._text += answer
            self._thinking += thinking

    def _think(self, text: object) -> None:
        if isinstance(text, str) and text:
            self._thinking += self._joiner.join(text)

    def _document(self, event: ServerEvent) -> Body:
        try:
            document = parse_body(event.data)
        except ValueError as error:
            raise unreadable_reply(self.where, f"an event is not JSON ({error})", billable=True) from None
        if not isinstance(document, dict):
            raise unreadable_reply(self.where, "an event is not a JSON object", billable=True)
        return document

    def _piece(self) -> StreamPiece | None:
        text, thinking = self._text, self._thinking
        if not text and not thinking:
            return None
        self._text = self._thinking = ""
        return StreamPiece(text, thinking)


async def read_stream(
    batches: AsyncGenerator[list[ServerEvent] | Body], reader: StreamReader, deadline: StreamDeadline
) -> AsyncGenerator[StreamPiece | StreamEnd]:
    """The pieces of an answer and its end. Raises `ProviderFault`.

    Once the answer is known to be complete, what happens to the connection does not matter.
    """
    now = asyncio.get_running_loop().time
    async with aclosing(batches):
        try:
            async for batch in batches:
                piece = None if reader.finished else reader.read(batch)
                if reader.finished:
                    deadline.ended(now())
                if piece is not None:
                    yield piece
                    # Counted from here: how long the reader of the pieces took is no fault of the server.
                    if not reader.finished:
                        deadline.heard(now())
        except ProviderFault:
            if reader.stop is None and not reader.finished:
                raise
    rest = reader.rest()
    if rest is not None:
        yield rest
    yield reader.end()


class ThinkingTags:
    """Splits the pieces of a text into answer and thinking. A tag may be cut in two by pieces.

    Only a tag at the start counts: in the middle it is something that the model writes about. ``opened``: the
    opening tag was part of the prompt, so that the text begins within the thinking.
    """

    def __init__(self, *, opened: bool = False) -> None:
        #: Text that cannot be told yet: the start of the answer, or what may become a closing tag.
        self._held = ""
        #: The closing tag that is waited for.
        self._closing: str | None = _TAGS["<think>"] if opened else None
        #: Nothing but blanks has come yet since the start, or since the thinking ended.
        self._at_start = not opened
        self._thought = opened

    def split(self, text: str) -> tuple[str, str]:
        """The parts of the next piece that are known to be answer and thinking."""
        if self._closing is None and not self._at_start:
            return text, ""
        self._held += text
        thinking = ""
        if self._at_start and not self._thought:
            self._open()
        if self._closing is not None:
            thinking = self._read_thinking(self._closing)
        return self._read_answer(), thinking

    def rest(self) -> tuple[str, str]:
        """What was held back, when the stream has ended."""
        held, self._held = self._held, ""
        if self._closing is not None:
            return "", held
        return ("" if self._thought else held), ""

    def _open(self) -> None:
        """Look for an opening tag at the start."""
        start = self._held.lstrip()
        if not start:
            self._at_start = len(self._held) <= _BLANKS_CHARACTERS
            return
        for opening, closing in _TAGS.items():
            if start.startswith(opening):
                self._closing, self._held = closing, start.removeprefix(opening)
                self._at_start, self._thought = False, True
                return
        if not any(opening.startswith(start) for opening in _TAGS):
            self._at_start = False

    def _read_thinking(self, closing: str) -> str:
        before, found, after = self._held.partition(closing)
        if found:
            self._closing, self._held, self._at_start = None, after, True
            return before
        # How many characters at the end of a text may be the start of a tag.
        kept = next(
            (size for size in range(len(closing) - 1, 0, -1) if self._held.endswith(closing[:size])), 0
        )
        thinking = self._held[: len(self._held) - kept]
        self._held = self._held[len(thinking) :]
        return thinking

    def _read_answer(self) -> str:
        if self._closing is not None:
            return ""
        if self._thought and self._at_start:
            # Blanks between the thinking and the answer belong to neither.
            self._held = self._held.lstrip()
            self._at_start = not self._held
        if self._at_start:
            return ""
        held, self._held = self._held, ""
        return held


class SurrogateJoiner:
    """Joins characters whose two halves come in two pieces, and replaces halves that stay alone."""

    def __init__(self) -> None:
        self._half = ""

    def join(self, text: str) -> str:
        """The next piece, without a half that ends it."""
        if not self._half and text.isascii():
            return text
        text, self._half = self._half + text, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return repair_surrogates(text)

    def rest(self) -> str:
        """What replaces a half that nothing followed."""
        half, self._half = self._half, ""
        return "\N{REPLACEMENT CHARACTER}" if half else ""
