"""Reads the events of a stream into the pieces of an answer, apart from the thinking between tags at its start."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing

from tiltyard.errors import ProviderFault
from tiltyard.judges.providers.faults import unreadable_reply
from tiltyard.judges.providers.json_bodies import parse_body, repair_surrogates
from tiltyard.judges.providers.provider import Body, StreamEnd, StreamPiece, StreamStop, Usage
from tiltyard.judges.providers.server_events import ServerEvent, StreamDeadline

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
