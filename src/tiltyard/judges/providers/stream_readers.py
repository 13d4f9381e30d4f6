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
from tiltyard.judges.providers.silence_watch import StreamDeadline
from tiltyard.judges.providers.streams import StreamEnd, StreamPiece, StreamStop
from tiltyard.judges.providers.thinking_tags import SurrogateJoiner, ThinkingTags

__all__ = ["StreamReader", "read_stream"]


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
