"""The view of a live battle for its voter: prompts, both answers as far as they are written, and what may be done."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import NotRequired, TypedDict

from fastapi import Request
from markupsafe import Markup

from tiltyard.arena.live.live_records import FrameMark, LiveBattle, LiveFrame, LiveTurn, TurnState
from tiltyard.core.live.stream_blocks import BlockSplitter, TextBlock
from tiltyard.errors import TiltyardError
from tiltyard.web.access.access import context_of
from tiltyard.web.pages.layout import localization_of
from tiltyard.web.pages.matchup_view import excerpt_of, render_cache_of
from tiltyard.web.texts import render_text

#: More turns do not stand in the same rows on both sides.
_ALIGNED_TURN_LIMIT = 8


@dataclass(frozen=True, slots=True)
class LiveAnswerView:
    """One answer: what is rendered of it, and what is still open."""

    letter: str
    html: Markup
    tail: str = ""
    #: Whether the tail is the inside of a code fence.
    in_code: bool = False


@dataclass(frozen=True, slots=True)
class LiveTurnView:
    """One prompt and both answers."""

    turn: int
    prompt: Markup
    state: TurnState
    outcome: str | None
    answers: tuple[LiveAnswerView, LiveAnswerView]

    @property
    def runs(self) -> bool:
        """Whether the answers are being written."""
        return self.state in ("waiting", "streaming")


@dataclass(frozen=True, slots=True)
class LiveSideView:
    """What the tools of one side need."""

    letter: str
    url: str
    kind: str = "text"


@dataclass(frozen=True, slots=True)
class LiveView:
    """The content of a battle's page."""

    matchup: str
    category: str
    #: The start of the first prompt, if it is collapsed because it is long.
    excerpt: str | None
    turns: tuple[LiveTurnView, ...]
    #: Where a reader of this page goes on.
    mark: str
    can_continue: bool
    #: Whether a verdict on the last turn is wanted before the next prompt.
    wants_turn_vote: bool = False
    has_ended: bool = False

    @property
    def runs(self) -> bool:
        """Whether answers are being written."""
        return self.turns[-1].runs

    @property
    def votable(self) -> bool:
        """Whether both answers of the last turn are there."""
        return not self.runs and all(answer.html for answer in self.turns[-1].answers)

    @property
    def aligned(self) -> bool:
        """Whether the turns of both sides stand in the same rows."""
        return 1 < len(self.turns) <= _ALIGNED_TURN_LIMIT

    @property
    def sides(self) -> tuple[LiveSideView, LiveSideView]:
        """Both sides; their raw texts are loaded from here."""
        return LiveSideView("a", f"/live/{self.matchup}/a"), LiveSideView("b", f"/live/{self.matchup}/b")


async def build_live_view(request: Request, battle: LiveBattle, *, by_turn: bool) -> LiveView:
    """Render a battle. ``by_turn``: whether each turn is voted on before the next."""
    matchup = context_of(request).matchup_ids.format(battle.matchup)
    turns = [await _turn_view(request, matchup, turn) for turn in battle.turns]
    last = battle.turns[-1]
    wanted = (
        by_turn and battle.state == "open" and last.state in ("done", "stopped") and bool(last.a and last.b)
    )
    return LiveView(
        matchup=matchup,
        category=battle.category,
        excerpt=excerpt_of(battle.turns[0].prompt),
        turns=tuple(turns),
        mark=str(FrameMark(last.turn, len(last.a), len(last.b))),
        can_continue=battle.can_continue,
        wants_turn_vote=wanted and last.outcome is None,
        has_ended=battle.state != "open",
    )


async def _turn_view(request: Request, matchup: str, turn: LiveTurn) -> LiveTurnView:
    cache = render_cache_of(request)
    key = ("live", matchup, turn.turn)
    prompt = await cache.rendered(request, ((*key, "prompt"), turn.prompt), None)
    if turn.runs:
        say = localization_of(request).texts.gettext
        a, b = await asyncio.to_thread(
            lambda: [_open_answer("a", turn.a, say), _open_answer("b", turn.b, say)]
        )
    else:
        a, b = [
            LiveAnswerView(side, await cache.rendered(request, ((*key, side), text), None))
            for side, text in (("a", turn.a), ("b", turn.b))
        ]
    return LiveTurnView(turn.turn, prompt, turn.state, turn.outcome, (a, b))


def _open_answer(letter: str, text: str, say: Callable[[str], str]) -> LiveAnswerView:
    renderer = AnswerRenderer(say=say)
    renderer.feed(text)
    return LiveAnswerView(letter, renderer.html, renderer.tail, renderer.in_code)


#: How a list ends in HTML.
_LIST_ENDS = ("</ul>\n", "</ol>\n")


@dataclass(frozen=True, slots=True)
class RenderedBlock:
    """A complete block as HTML; empty if it shows nothing."""

    html: str
    #: Whether it is one more item of the list with which the HTML before it ends.
    joins: bool = False


class AnswerRenderer:
    """Renders one answer. What it has rendered is what the whole text gives, but for rare exceptions (`whole`)."""

    def __init__(self, *, language: str | None = None, say: Callable[[str], str] = str) -> None:
        self._language, self._say = language, say
        self._splitter = BlockSplitter()
        self._texts: list[str] = []
        self._tail: list[str] = []
        #: The HTML of all blocks; a list that may go on without its end.
        self._html: list[str] = []
        self._list_end = ""

    def feed(self, text: str) -> list[RenderedBlock]:
        """Take the next piece of the answer; return what became complete."""
        self._texts.append(text)
        self._tail.append(text)
        return self._rendered(self._splitter.feed(text))

    def end(self) -> list[RenderedBlock]:
        """The answer is complete; return what was open."""
        return self._rendered(self._splitter.end())

    @property
    def tail(self) -> str:
        """What is written and not rendered yet."""
        tail = "".join(self._tail)
        self._tail = [tail]
        return tail

    @property
    def in_code(self) -> bool:
        """Whether the tail is the inside of a code fence, whose first line opens it."""
        return self._splitter.in_code

    @property
    def html(self) -> Markup:
        """All complete blocks."""
        return Markup("".join(self._html) + self._list_end)  # noqa: S704 - sanitized

    def whole(self) -> Markup:
        """The whole answer, as every other page shows it."""
        return render_text("".join(self._texts), language=self._language, say=self._say)

    def _rendered(self, blocks: list[TextBlock]) -> list[RenderedBlock]:
        if not blocks:
            return []
        self._tail = [self.tail[sum(len(block.text) for block in blocks) :]]
        return [self._render(block) for block in blocks]

    def _render(self, block: TextBlock) -> RenderedBlock:
        source = block.text
        if block.loose:
            # An empty item after a blank line: the parser sees that blank lines stand between the items.
            marker = source[: len(source) - len(source.lstrip())] + source.split(maxsplit=1)[0]
            source = f"{source}\n\n{marker}"
        html = str(render_text(source, language=self._language, say=self._say))
        if not block.item or not html.endswith(_LIST_ENDS):
            self._add(html, "")
            return RenderedBlock(html)
        ending = html[-len(_LIST_ENDS[0]) :]
        last = html.rfind("<li") if block.loose else len(html) - len(ending)
        if block.continues and self._list_end == ending:
            html = html[html.find("<li") : last]
            self._html.append(html)
            return RenderedBlock(html, joins=True)
        self._add(html[:last], ending)
        return RenderedBlock(html[:last] + ending)

    def _add(self, html: str, list_end: str) -> None:
        if html:
            self._html += [self._list_end, html]
            self._list_end = list_end


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
        return f"id: {frame.mark}\ndata: {text}\n\n".encode()


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
