"""One turn of a live battle: two streams from upstream, and what of them may be shown at each moment.

A turn runs in its own task, whoever reads it. Nothing that it gives to readers depends on which models answer, apart
from the texts. Readers have a `StreamedTurn`, in the process that runs the turn and in others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Literal

from tiltyard.arena.live.entrant_pool import EntrantPool
from tiltyard.arena.live.live_records import (
    NOTHING_SHOWN,
    BudgetLimits,
    CallEnd,
    CallPlan,
    FrameMark,
    LiveFrame,
    LiveTurn,
    ShownText,
    TurnEnd,
    TurnEntrant,
    TurnState,
)
from tiltyard.arena.live.live_store import finish_call, retry_call
from tiltyard.arena.live.safety import Safety
from tiltyard.arena.live.turn_notes import NameMask
from tiltyard.arena.tasks import cancel_and_wait
from tiltyard.core.live.stream_pace import Pace, PaceState, SideProgress, advance
from tiltyard.errors import EmptyAnswer, ProviderFault, Refused, StoreFault
from tiltyard.foundation.retries import Backoff
from tiltyard.foundation.telemetry import LIVE_CALLS, LIVE_FIRST_TOKEN_SECONDS, LIVE_FRAMES
from tiltyard.judges.chat_models import is_of_prompt
from tiltyard.judges.providers.provider import ChatRequest, StreamEnd
from tiltyard.postgres.connections import ConnectionPool
from tiltyard.settings.arena_settings import ArenaSettings

#: Control characters that no text has: they are dropped. A database cannot store the first of them.
_DROPPED = {code: None for code in (*range(32), 127) if chr(code) not in "\t\n\r"}
_JOINER = "\u200d"
#: A longer sequence of joined characters is cut anywhere.
_JOINED_LIMIT = 16
_MARKS = frozenset({"Mn", "Me", "Mc"})
#: With one of these a sentence may end; a text that has none is masked after so many characters.
_ENDS = frozenset(".!?。！？\n")
_UNMASKED_CHARACTERS = 1_200


class StreamText:
    """Collects pieces, up to a limit: what has come is ``written``, and ``text`` is what may be shown of it.

    With a mask, that grows with each sentence, which is when it is masked again.
    """

    def __init__(self, limit: int, mask: NameMask | None = None) -> None:
        self.text = self.written = ""
        self._limit = limit
        self._mask = mask

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached: everything beyond it is dropped."""
        return len(self.written) >= self._limit

    def add(self, piece: str) -> None:
        if not piece.isprintable():
            piece = piece.translate(_DROPPED)
        before = self.written[-1:]
        self.written += piece[: max(self._limit - len(self.written), 0)]
        if self._mask is None:
            self.text = self.written
        elif (
            not _ENDS.isdisjoint(before + piece) or len(self.written) - len(self.text) > _UNMASKED_CHARACTERS
        ):
            self.text = self._mask.mask(self.written, complete=False)

    def close(self) -> None:
        """No further piece comes."""
        if self._mask is not None:
            self.text = self._mask.mask(self.written, complete=True)


def whole_character_length(text: str, length: int) -> int:
    """At most ``length``, so that what a reader calls one character is not cut: no accent, no joined emoji."""
    longest = min(length, len(text))
    for shorter in range(longest, max(longest - _JOINED_LIMIT, -1), -1):
        if shorter in {0, len(text)} or not _joins(text, shorter):
            return shorter
    return longest


def _joins(text: str, index: int) -> bool:
    """Whether the character at an index belongs to the one before it."""
    following = text[index]
    if following < "\u0300":
        return False
    return (
        following == _JOINER
        or text[index - 1] == _JOINER
        or unicodedata.category(following) in _MARKS
        or "\U0001f3fb" <= following <= "\U0001f3ff"
    )


_LOG = logging.getLogger(__name__)

#: The shortest time between two frames: at most 15 in a second.
FRAME_SECONDS = 1 / 15
#: The most characters of an answer: for each token of its limit, and in any case.
_TOKEN_CHARACTERS = 16
_ANSWER_CHARACTERS = 100_000
#: Attempts of a model in one turn.
_ATTEMPT_LIMIT = 2
#: Attempts to store the end of a call or a turn, and the waits between them.
_STORE_ATTEMPT_LIMIT = 30
_FIRST_STORE_RETRY_SECONDS, _MAX_STORE_RETRY_SECONDS = 0.1, 2.0

#: Why a turn is void whose answers a check refused.
_REFUSED_ANSWER = "an answer was refused by the moderation"

CallState = Literal["done", "stopped", "failed", "refused", "unknown"]


@dataclass(frozen=True, slots=True, eq=False)
class SideCall:
    """A call that is stored and paid for in advance: the entrant, what it is asked, and the call's number."""

    entrant: TurnEntrant
    request: ChatRequest
    call: int


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """The rules of a turn, the same for all models."""

    pace: Pace = "equal"
    #: Seconds to the first token, and from one to the next. Thinking counts as well.
    first_token_seconds: float = 30.0
    gap_seconds: float = 20.0
    #: Seconds from a call to its end.
    total_seconds: float = 900.0
    #: Masks names in what is shown and stored; ``None`` to show answers as they are.
    mask: NameMask | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TurnRecorder:
    """Stores what happens in one turn."""

    pool: ConnectionPool
    arena: int
    #: Held while money is reserved or settled.
    spending: asyncio.Lock
    entrants: EntrantPool
    settings: ArenaSettings
    finish_turn: Callable[[TurnEnd], Awaitable[None]]

    async def retry_call(self, failed: int, plan: CallPlan) -> int:
        async with self.spending:
            return await retry_call(self.pool, self.arena, failed, plan, BudgetLimits.of(self.settings))

    async def finish_call(self, call: int, end: CallEnd) -> None:
        async with self.spending:
            await finish_call(self.pool, self.arena, call, end)

    async def note_end(self, entrant: TurnEntrant, state: CallState, fault: ProviderFault | None) -> None:
        """Note what the end of a call says of the health of its model."""
        with contextlib.suppress(StoreFault):
            if state in ("stopped", "refused"):
                await self.entrants.note_stopped(entrant)
            else:
                await self.entrants.note_health(entrant, fault, self.settings)


class StreamedTurn:
    """What may be shown of a turn that runs, for any number of readers."""

    def __init__(self, turn: int, shown: ShownText = NOTHING_SHOWN) -> None:
        self.turn = turn
        self.shown = shown
        self._changed = asyncio.Event()

    def update(self, shown: ShownText) -> None:
        """Show this from now on."""
        self.shown = shown
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def frame(self, after: FrameMark) -> LiveFrame | None:
        """What is new to a reader; ``None`` if nothing is. A reader may be ahead of what this process knows."""
        a, b = (after.shown_a, after.shown_b) if after.turn == self.turn else (0, 0)
        shown = self.shown
        if after.turn == self.turn and a >= len(shown.a) and b >= len(shown.b) and shown.runs:
            return None
        mark = FrameMark(self.turn, max(a, len(shown.a)), max(b, len(shown.b)))
        return LiveFrame(mark, shown.a[a:], shown.b[b:], shown.state, shown.ended_a, shown.ended_b)

    async def next_frame(self, after: FrameMark, seconds: float) -> LiveFrame:
        """What is new to a reader. Waits for it a moment; without news, a frame without text at the same mark."""
        frame = self.frame(after)
        if frame is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
            frame = self.frame(after)
        shown = self.shown
        return frame or LiveFrame(after, "", "", shown.state, shown.ended_a, shown.ended_b)


class _Side:
    def __init__(self, stored: SideCall, mask: NameMask | None) -> None:
        self.entrant, self.request, self.call = stored.entrant, stored.request, stored.call
        limit = min(self.request.max_tokens * _TOKEN_CHARACTERS, _ANSWER_CHARACTERS)
        self._limit, self._mask = limit, mask
        self.answer, self.thinking = StreamText(limit, mask), StreamText(limit)
        self.attempts = 0
        self.task: asyncio.Task[None] | None = None
        self.end: StreamEnd | None = None
        self.fault: ProviderFault | None = None
        #: Whether the end of the call is stored.
        self.is_stored = False
        self.began_at = self.heard_at = 0.0
        self.first_token_at: float | None = None

    def start(self, now: float) -> None:
        """A new attempt begins: nothing has come."""
        self.attempts += 1
        self.answer, self.thinking = StreamText(self._limit, self._mask), StreamText(self._limit)
        self.end, self.fault, self.is_stored = None, None, False
        self.began_at = self.heard_at = now
        self.first_token_at = None

    async def read(self, now: Callable[[], float], news: Callable[[], None]) -> None:
        """Collect the stream until its end, or until it fails."""
        end = None
        try:
            async with aclosing(self.entrant.provider.stream(self.request)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, StreamEnd):
                        end = piece
                        break
                    self.heard_at = now()
                    if self.first_token_at is None:
                        self.first_token_at = self.heard_at
                    self.thinking.add(piece.thinking)
                    self.answer.add(piece.text)
                    news()
                    if self.answer.is_full:
                        end = StreamEnd(None, None, "length")
                        break
        except ProviderFault as fault:
            self.fault = fault
        except Exception as error:  # noqa: BLE001 - the turn must end, whatever a provider raises
            _LOG.error("reading a stream failed: %s", type(error).__name__)
            self.fault = ProviderFault("the stream could not be read", billed=True)
        if end is None and self.fault is None:
            self.fault = ProviderFault("the stream ended without its end mark", billed=True)
        # The last of the text is there before its end is.
        self.answer.close()
        self.end = end
        news()

    def progress(self) -> SideProgress:
        return SideProgress(len(self.answer.text), self.end is not None)

    def call_end(self, state: CallState, now: float) -> CallEnd:
        """How the call ended, for the operator."""
        end = self.end
        first = None if self.first_token_at is None else self.first_token_at - self.began_at
        cost = None
        if end is not None:
            cost = self.entrant.cost(end)
        elif self.fault is not None and not self.fault.billed and self.first_token_at is None:
            cost = 0
        return CallEnd(
            state=state,
            input_tokens=None if end is None else end.input_tokens,
            output_tokens=None if end is None else end.output_tokens,
            cost=cost,
            first_token_seconds=first,
            seconds=now - self.began_at,
            problem=None if self.fault is None else str(self.fault)[:500],
        )


class TurnGeneration:
    """A turn in progress, the last of ``turns``. `run` is its task; readers follow what is ``shown``."""

    def __init__(
        self,
        turns: Sequence[LiveTurn],
        calls: tuple[SideCall, SideCall],
        limits: TurnLimits,
        recorder: TurnRecorder,
        checks: Safety | None = None,
    ) -> None:
        self.shown = StreamedTurn(turns[-1].turn)
        self._turns = turns
        self._sides = (_Side(calls[0], limits.mask), _Side(calls[1], limits.mask))
        self._limits = limits
        self._recorder = recorder
        self._checks = checks
        self._flags: Mapping[str, object] | None = None if checks is not None else {}
        self._pace = PaceState(limits.pace)
        self._shown = (0, 0)
        self._news = asyncio.Event()
        self._stopping: TurnEnd | None = None
        self._ticked_at = -FRAME_SECONDS

    @property
    def _texts(self) -> tuple[str, str]:
        """Both answers, as far as they may be shown."""
        left, right = self._sides
        return left.answer.text[: self._shown[0]], right.answer.text[: self._shown[1]]

    def stop(self) -> None:
        """End both answers where they are: what is shown counts."""
        self._interrupt(TurnEnd("stopped"))

    def abandon(self, problem: str) -> None:
        """End the turn as void."""
        self._interrupt(TurnEnd("void", problem=problem))

    async def run(self) -> TurnEnd:
        """Generate both answers; return how the turn ended, which is stored by then."""
        for side in self._sides:
            self._start(side)
        try:
            end = await self._follow()
        except asyncio.CancelledError:
            end = TurnEnd("void", problem="the server stopped")
        except Exception as error:  # noqa: BLE001 - the turn must end
            _LOG.error("a turn failed: %s", type(error).__name__)
            end = TurnEnd("void", problem="an error of the server")
        end = await self._finished(end)
        self._tell(end.state)
        return end

    def _interrupt(self, end: TurnEnd) -> None:
        if self._stopping is None:
            self._stopping = end
            self._news.set()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _start(self, side: _Side) -> None:
        side.start(self._now())
        side.task = asyncio.create_task(side.read(self._now, self._news.set), name="live stream")

    async def _follow(self) -> TurnEnd:
        """Show what has come until all of it is shown, the voter stops it, or a model fails for good."""
        while True:
            if self._stopping is not None:
                return self._stopping
            for side in self._sides:
                problem = await self._look_after(side)
                if problem is not None:
                    return TurnEnd("void", problem=problem)
            if self._flags is None and all(side.end is not None for side in self._sides):
                assert self._checks is not None
                left, right = (side.answer.written for side in self._sides)
                verdict = await self._checks.check_answers(self._turns, left, right)
                if not verdict.allowed:
                    return TurnEnd("void", problem=_REFUSED_ANSWER)
                self._flags = {"rules": list(verdict.flags)} if verdict.flags else {}
            self._tick()
            if self._pace.finished:
                return TurnEnd("done")
            await self._next_tick()

    async def _look_after(self, side: _Side) -> str | None:
        """Store the end of a call; ask a model again that failed before anything was shown. A problem ends the turn."""
        if side.fault is None and side.end is None:
            seconds = self._patience_seconds(side)
            if self._now() - side.began_at > self._limits.total_seconds:
                total = self._limits.total_seconds
                side.fault = ProviderFault(f"no end of the answer within {total:g} seconds", billed=True)
            elif self._now() - side.heard_at > seconds:
                what = "first token" if side.first_token_at is None else "further token"
                side.fault = ProviderFault(f"no {what} for {seconds:g} seconds", billed=True)
        elif side.fault is None and not side.answer.text.strip():
            side.fault = EmptyAnswer("the answer is empty", billed=True)
        if side.end is not None and side.fault is None and not side.is_stored:
            await self._store_end(side, "done")
        if side.fault is None:
            return None
        await cancel_and_wait(side.task)
        problem = f"model {side.entrant.model}: {side.fault}"[:500]
        await self._store_end(side, "failed")
        if self._shown != (0, 0) or side.attempts >= _ATTEMPT_LIMIT:
            return problem
        try:
            side.call = await self._recorder.retry_call(side.call, side.entrant.plan(side.request))
        except (Refused, StoreFault) as refusal:
            return f"{problem}; it could not be asked again: {refusal}"[:500]
        self._start(side)
        return None

    def _patience_seconds(self, side: _Side) -> float:
        limits = self._limits
        return limits.first_token_seconds if side.first_token_at is None else limits.gap_seconds

    def _tick(self) -> None:
        left, right = self._sides
        self._ticked_at = self._now()
        # Nothing may be shown until the answers have been checked, if the checks hold them.
        is_held = self._flags is None and self._checks is not None and self._checks.holds_answers
        held = SideProgress() if is_held else None
        pace = advance(self._pace, held or left.progress(), held or right.progress(), self._ticked_at)
        shown = (
            max(self._shown[0], whole_character_length(left.answer.text, pace.shown_a)),
            max(self._shown[1], whole_character_length(right.answer.text, pace.shown_b)),
        )
        ends = (pace.ended_a, pace.ended_b) != (self._pace.ended_a, self._pace.ended_b)
        new = shown != self._shown or ends
        self._pace, self._shown = pace, shown
        if new and not pace.finished:
            self._tell("streaming")

    def _tell(self, state: TurnState) -> None:
        LIVE_FRAMES.record()
        over = state != "streaming"
        self.shown.update(
            ShownText(*self._texts, state, over or self._pace.ended_a, over or self._pace.ended_b)
        )

    async def _next_tick(self) -> None:
        """Wait until more may be shown, a model has been silent for too long, or there is other news."""
        if not self._pace.moves:
            silent = [
                side.heard_at + self._patience_seconds(side) for side in self._sides if side.end is None
            ]
            wait = max(min(silent) - self._now(), 0.0) + 0.01 if silent else None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._news.wait()
        self._news.clear()
        await asyncio.sleep(max(self._ticked_at + FRAME_SECONDS - self._now(), 0.0))

    async def _finished(self, end: TurnEnd) -> TurnEnd:
        await asyncio.gather(*(cancel_and_wait(side.task) for side in self._sides))
        for side in self._sides:
            if not side.is_stored:
                await self._store_end(side, "stopped" if side.end is None else "done")
        left, right = self._sides
        if end.problem == _REFUSED_ANSWER:
            self._shown = (0, 0)
        end = replace(
            end,
            flags=self._flags or {},
            texts=self._texts,
            written=(left.answer.written, right.answer.written),
            thinking=(left.thinking.text, right.thinking.text),
        )
        await self._stored(lambda: self._recorder.finish_turn(end))
        return end

    async def _store_end(self, side: _Side, state: CallState) -> None:
        side.is_stored = True
        if side.fault is not None and is_of_prompt(side.fault):
            state = "refused"
        end = side.call_end(state, self._now())
        call = side.call
        await self._stored(lambda: self._recorder.finish_call(call, end))
        await self._recorder.note_end(side.entrant, state, side.fault)
        LIVE_CALLS.record(1, state)
        if end.first_token_seconds is not None:
            LIVE_FIRST_TOKEN_SECONDS.record(end.first_token_seconds)

    async def _stored(self, store: Callable[[], Awaitable[None]]) -> None:
        """Store something, however long the database is away; give up after a minute: the next process finds it."""
        backoff = Backoff(_FIRST_STORE_RETRY_SECONDS, _MAX_STORE_RETRY_SECONDS)
        for attempt in range(_STORE_ATTEMPT_LIMIT):
            try:
                await store()
            except Refused:
                return
            except StoreFault as fault:
                if attempt == _STORE_ATTEMPT_LIMIT - 1:
                    _LOG.error("the end of a turn could not be stored: %s", fault)
                    return
                await asyncio.sleep(backoff.next())
            else:
                return
