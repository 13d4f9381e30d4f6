"""The frames of a live battle as events for its page: rendered blocks, and the open text after them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import NotRequired, TypedDict

from tiltyard.arena.live.live_records import FrameMark, LiveFrame
from tiltyard.errors import TiltyardError
from tiltyard.web.pages.live_blocks import AnswerRenderer, RenderedBlock
from tiltyard.web.pages.live_view import mark_text

#: A line that says nothing is sent so often, so that proxies do not end the connection.
_HEARTBEAT_SECONDS = 10.0
#: How soon a browser connects again by itself.
_RETRY_MILLISECONDS = 1000
_HEARTBEAT = b":\n\n"

#: How often and how long is waited for what a reader has already, from another process.
_BEHIND_LOOK_COUNT, _BEHIND_SECONDS = 10, 0.1

#: Waits for the next frame after a mark.
NextFrame = Callable[[FrameMark], Awaitable[LiveFrame]]


class _SideUpdate(TypedDict):
    """What changes on one side."""

    #: Characters to append to the open text; or else complete blocks, and the open text after them.
    add: NotRequired[str]
    blocks: NotRequired[list[tuple[str, bool]]]
    tail: NotRequired[str]
    code: NotRequired[bool]
    #: How many characters are shown.
    shown: int
    ended: bool
    #: The whole answer, where it looks otherwise than its blocks.
    whole: NotRequired[str]


class LivePageStream:
    """One reader's stream of one turn."""

    def __init__(self, next_frame: NextFrame, say: Callable[[str], str]) -> None:
        self._next_frame = next_frame
        self._sides = (_Side(AnswerRenderer(say=say)), _Side(AnswerRenderer(say=say)))
        self._has_gap = False
        self._mark = FrameMark()
        self._first: LiveFrame | None = None

    async def begin(self, mark: FrameMark) -> None:
        """Find out where the reader is: the blocks that it has are rendered again, so that the rest fits them."""
        for _ in range(_BEHIND_LOOK_COUNT):
            frame = await self._next_frame(FrameMark(mark.turn))
            texts = ((frame.a, mark.shown_a), (frame.b, mark.shown_b))
            self._has_gap = frame.mark.turn != mark.turn or any(len(text) < shown for text, shown in texts)
            if not self._has_gap or frame.mark.turn != mark.turn:
                break
            # The process that the reader was connected to before may have shown more than this one knows.
            await asyncio.sleep(_BEHIND_SECONDS)
        self._first, self._mark = frame, mark
        if self._has_gap:
            return
        for side, (text, shown) in zip(self._sides, texts, strict=True):
            await side.feed(text[:shown])
            side.in_code = side.renderer.in_code
            side.is_resumed = shown > 0

    async def events(self, reader: AbstractContextManager[None]) -> AsyncIterator[bytes]:
        """The events, from where the reader is to the end of the turn. After a fault they end: the reader comes back."""
        with reader, suppress(TiltyardError):
            async for event in self._events():
                yield event

    async def _events(self) -> AsyncIterator[bytes]:
        yield f"retry: {_RETRY_MILLISECONDS}\n\n".encode()
        if self._first is None or self._has_gap:
            yield b"event: gap\ndata: {}\n\n"
            return
        first, mark = self._first, self._mark
        frame = LiveFrame(
            first.mark,
            first.a[mark.shown_a :],
            first.b[mark.shown_b :],
            first.state,
            first.ended_a,
            first.ended_b,
        )
        sent, before = time.monotonic(), (False, False, frame.state)
        while True:
            ended = frame.state not in ("waiting", "streaming")
            news = (frame.ended_a, frame.ended_b, frame.state) != before
            if ended or frame.a or frame.b or news:
                yield await self._event(frame, ended=ended)
                sent = time.monotonic()
            elif time.monotonic() - sent > _HEARTBEAT_SECONDS:
                yield _HEARTBEAT
                sent = time.monotonic()
            if ended:
                return
            self._mark, before = frame.mark, (frame.ended_a, frame.ended_b, frame.state)
            frame = await self._next_frame(self._mark)
            if frame.mark.turn != self._mark.turn:
                yield b"event: gap\ndata: {}\n\n"
                return

    async def _event(self, frame: LiveFrame, *, ended: bool) -> bytes:
        left, right = self._sides
        data = {
            "state": frame.state,
            "a": await left.update(frame.a, frame.mark.shown_a, complete=ended or frame.ended_a),
            "b": await right.update(frame.b, frame.mark.shown_b, complete=ended or frame.ended_b),
        }
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        return f"id: {mark_text(frame.mark)}\ndata: {text}\n\n".encode()


@dataclass(slots=True)
class _Side:
    renderer: AnswerRenderer
    in_code: bool = False
    has_ended: bool = False
    #: Whether the reader had text before this stream. Then it may have the end of a side that has ended.
    is_resumed: bool = False

    async def feed(self, text: str) -> list[RenderedBlock]:
        """Blocks become complete with a line; nothing else needs the time of a thread."""
        if "\n" not in text:
            return self.renderer.feed(text)
        return await asyncio.to_thread(self.renderer.feed, text)

    async def update(self, text: str, shown: int, *, complete: bool) -> _SideUpdate:
        """What the page changes on this side. ``complete``: nothing more comes on it."""
        blocks = await self.feed(text) if text else []
        update: _SideUpdate = {"shown": shown, "ended": complete}
        ends, self.has_ended = complete and not self.has_ended, complete
        if ends:
            rest, whole = await asyncio.to_thread(lambda: (self.renderer.end(), self.renderer.whole()))
            blocks = [*blocks, *rest]
            if whole != self.renderer.html or (self.is_resumed and not text):
                update["whole"] = str(whole)
        in_code = self.renderer.in_code
        if blocks or ends or in_code != self.in_code:
            update["blocks"] = [(block.html, block.joins) for block in blocks]
            update["tail"] = self.renderer.tail
            update["code"] = self.in_code = in_code
        elif text:
            update["add"] = text
        return update
