"""Server-sent events: bytes in, events out, with limits; and the deadline until which a stream must say something.

The format is that of the HTML standard, section 9.2, read a little more generously: an event that the end of the
stream cuts off before its empty line is still given, because some servers leave that line out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiltyard.judges.providers.provider import StreamTimeouts

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
