"""Models of live battles that answer by a script, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

from tiltyard.arena.live.live_records import TurnEntrant
from tiltyard.errors import ProviderFault
from tiltyard.judges.providers.provider import ChatRequest, StreamEnd, StreamPiece

#: The price of a token in these tests, in millionths of a dollar.
TOKEN_MICRODOLLARS = 3


@dataclass
class StreamScript:
    """One answer: pieces with the seconds before each, and how it ends."""

    pieces: Sequence[tuple[float, str]] = ((0.1, "Hello "), (0.1, "there."))
    #: Raised after the pieces instead of an end.
    fault: ProviderFault | None = None
    #: Silent for ever after the pieces.
    hangs: bool = False
    thinking: Sequence[tuple[float, str]] = ()


@dataclass
class ScriptedChat:
    """A chat model that gives its scripts one after the other; the last one again and again."""

    scripts: list[StreamScript] = field(default_factory=lambda: [StreamScript()])
    asked: list[ChatRequest] = field(default_factory=list)
    #: Streams that were closed before their end.
    broken_off: int = 0

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPiece | StreamEnd]:
        script = self.scripts[min(len(self.asked), len(self.scripts) - 1)]
        self.asked.append(request)
        ended = False
        try:
            for wait, text in script.thinking:
                await asyncio.sleep(wait)
                yield StreamPiece("", text)
            for wait, text in script.pieces:
                await asyncio.sleep(wait)
                yield StreamPiece(text)
            if script.hangs:
                await asyncio.sleep(10_000)
            ended = True
            if script.fault is not None:
                raise script.fault
            size = sum(len(text) for _, text in script.pieces)
            yield StreamEnd(len(request.turns[-1].text), size, "end")
        finally:
            self.broken_off += not ended

    async def aclose(self) -> None:
        """Nothing is open."""


def make_entrant(model: int, chat: ScriptedChat, *, max_tokens: int = 1_000) -> TurnEntrant:
    """An entrant that answers by scripts, at a known price."""
    return TurnEntrant(
        model=model,
        provider=chat,
        system=None,
        max_tokens=max_tokens,
        worst_cost=lambda request: (
            TOKEN_MICRODOLLARS * (sum(len(turn.text) for turn in request.turns) + request.max_tokens)
        ),
        cost=lambda end: (
            None
            if end.output_tokens is None
            else TOKEN_MICRODOLLARS * (end.output_tokens + (end.input_tokens or 0))
        ),
    )


def steady(text: str, *, rate: float, first: float = 0.1, size: int = 5) -> StreamScript:
    """A text that comes in equal pieces, so many characters a second."""
    parts = [text[start : start + size] for start in range(0, len(text), size)]
    return StreamScript(
        [(first if not number else len(part) / rate, part) for number, part in enumerate(parts)]
    )
