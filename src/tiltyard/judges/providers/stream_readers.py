"""Reads the events of a stream into the pieces of an answer: what both protocols share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing

from tiltyard.errors import ProviderFault
from tiltyard.judges.providers.faults import unreadable_reply
from tiltyard.judges.providers.json_bodies import parse_body
from tiltyard.judges.providers.provider import Body, Usage
from tiltyard.judges.providers.server_events import ServerEvent
from tiltyard.judges.providers.streams import StreamEnd, StreamPiece, StreamStop, StreamTimeouts
from tiltyard.judges.providers.thinking_tags import SurrogateJoiner, ThinkingTags

__all__ = ["StreamDeadline", "StreamReader", "read_stream"]

#: How long to wait, after the end mark, for the end of the connection's data, so that the connection can be kept.
_LAST_BYTES_SECONDS = 0.1


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


class StreamReader:
    """Collects what the events of one stream say. Each protocol has its own."""

    def __init__(self, where: str) -> None:
        self.where = where
        #: The protocol's end mark has come.
        self.finished = False
        #: Why the answer ended, once it has.
        self.stop: StreamStop | None = None
        self.usage: Usage | None = None
        self._joiner, self._tags = SurrogateJoiner(), ThinkingTags()
        self._text: list[str] = []
        self._thinking: list[str] = []

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
        self._text.append(text)
        self._thinking.append(thinking)
        return self._piece()

    def end(self) -> StreamEnd:
        """The end of the answer. Raises `ProviderFault` if the stream has no end."""
        if self.stop is None and not self.finished:
            raise unreadable_reply(self.where, "the stream ended without its end mark", billable=True)
        given, made = self._tokens()
        return StreamEnd(given, made, self.stop or "end", self.usage)

    def _event(self, event: ServerEvent) -> None:
        raise NotImplementedError

    def _reply(self, reply: Body) -> None:
        raise NotImplementedError

    def _tokens(self) -> tuple[int | None, int | None]:
        usage = self.usage
        return (None, None) if usage is None else (usage.all_input, usage.output)

    def _add(self, text: object) -> None:
        """Add to the answer, of which a part may be thinking between tags."""
        if isinstance(text, str) and text:
            answer, thinking = self._tags.split(self._joiner.join(text))
            self._text.append(answer)
            self._thinking.append(thinking)

    def _think(self, text: object) -> None:
        if isinstance(text, str) and text:
            self._thinking.append(self._joiner.join(text))

    def _document(self, event: ServerEvent) -> Body:
        try:
            document = parse_body(event.data)
        except ValueError as error:
            raise unreadable_reply(self.where, f"an event is not JSON ({error})", billable=True) from None
        if not isinstance(document, dict):
            raise unreadable_reply(self.where, "an event is not a JSON object", billable=True)
        return document

    def _piece(self) -> StreamPiece | None:
        text, thinking = "".join(self._text), "".join(self._thinking)
        self._text.clear()
        self._thinking.clear()
        return StreamPiece(text, thinking) if text or thinking else None


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
