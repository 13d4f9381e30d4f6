"""How much of two answers may be shown while they arrive.

With an equal pace one position moves along both answers. It starts when both sides have text, and moves a little
slower than the slower side arrives, so that text is in reserve for the moments in which that side pauses. Once one
answer has been shown to its end, the position keeps the speed at which it has moved so far: from then on only lengths
decide, not how fast the longer answer arrives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

#: ``equal``: both sides at the same speed. ``as-it-comes``: everything at once. ``complete``: when both have ended.
Pace = Literal["equal", "as-it-comes", "complete"]

#: The highest speed, in characters a second.
FASTEST_CHARACTERS_PER_SECOND = 400.0
#: The speed that is assumed before a side was measured, and for how many seconds of measuring that assumption counts.
_ASSUMED_CHARACTERS_PER_SECOND = 120.0
_ASSUMED_SECONDS = 1.0
#: The speed of a side is its average, in which what is this old counts 1/e.
_MEMORY_SECONDS = 4.0
#: The position moves at this share of the slower side's speed.
_FOLLOWED_SHARE = 0.9
#: A side that still arrives is shown so many seconds late, at the least.
_RESERVE_SECONDS = 1.0
#: The speed grows by at most this many characters a second, each second.
_GROWTH_CHARACTERS_PER_SECOND = 150.0
#: The speed that a reader sees last is an average over about so many seconds.
_SEEN_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class SideProgress:
    """How many characters of one side have come, and whether that is all."""

    come: int = 0
    ended: bool = False

    @property
    def may_start(self) -> bool:
        """Whether it has something to show, or never will."""
        return self.come > 0 or self.ended


@dataclass(frozen=True, slots=True)
class _SideSpeed:
    """How fast a side arrives: characters and seconds, of which old ones count less."""

    characters: float = _ASSUMED_CHARACTERS_PER_SECOND * _ASSUMED_SECONDS
    seconds: float = _ASSUMED_SECONDS
    #: What had come when it was last measured; ``None`` before the first text, which tells no speed.
    come: int | None = None
    ended: bool = False

    @property
    def rate(self) -> float:
        return self.characters / self.seconds

    def measured(self, side: SideProgress, passed: float) -> _SideSpeed:
        """The speed after some more seconds. Once a side has ended, it stays."""
        if self.ended or not side.may_start:
            return self
        if self.come is None:
            return replace(self, come=side.come, ended=side.ended)
        kept = math.exp(-passed / _MEMORY_SECONDS)
        return _SideSpeed(
            characters=self.characters * kept + side.come - self.come,
            seconds=self.seconds * kept + passed,
            come=side.come,
            ended=side.ended,
        )


@dataclass(frozen=True, slots=True)
class PaceState:
    """Where a turn is. `advance` makes the next one."""

    pace: Pace = "equal"
    #: The characters that may be shown.
    shown_a: int = 0
    shown_b: int = 0
    #: Whether a side has been shown to its end.
    ended_a: bool = False
    ended_b: bool = False
    position: float = 0.0
    #: Characters a second.
    speed: float = _ASSUMED_CHARACTERS_PER_SECOND * _FOLLOWED_SHARE
    #: Whether everything that has come is shown, and more is still to come.
    waits: bool = False
    #: Whether the speed stays because one side has been shown to its end.
    held: bool = False
    #: The speed that a reader has seen lately.
    seen_speed: float = 0.0
    started_at: float | None = None
    at: float | None = None
    speed_a: _SideSpeed = _SideSpeed()
    speed_b: _SideSpeed = _SideSpeed()

    @property
    def finished(self) -> bool:
        """Whether both sides have been shown to their ends."""
        return self.ended_a and self.ended_b

    @property
    def moves(self) -> bool:
        """Whether time alone lets more be shown."""
        return self.pace == "equal" and self.started_at is not None and not self.waits and not self.finished


def advance(state: PaceState, a: SideProgress, b: SideProgress, now: float) -> PaceState:
    """What may be shown at a time, given what has come by then. Times never go back, and no side gets shorter."""
    if state.pace == "as-it-comes":
        return replace(state, shown_a=a.come, shown_b=b.come, ended_a=a.ended, ended_b=b.ended, at=now)
    if state.pace == "complete":
        if not (a.ended and b.ended):
            return replace(state, at=now)
        return replace(state, shown_a=a.come, shown_b=b.come, ended_a=True, ended_b=True, at=now)
    passed = 0.0 if state.at is None else max(now - state.at, 0.0)
    speed_a, speed_b = state.speed_a.measured(a, passed), state.speed_b.measured(b, passed)
    state = replace(state, speed_a=speed_a, speed_b=speed_b, at=now)
    if state.started_at is None:
        # From here on a reader sees both sides move: no time passes between the first text and the start.
        return replace(state, started_at=now) if a.may_start and b.may_start else state
    if not state.held:
        slower = min(speed_a.rate, speed_b.rate)
        wanted = min(slower * _FOLLOWED_SHARE, FASTEST_CHARACTERS_PER_SECOND)
        state = replace(state, speed=min(wanted, state.speed + _GROWTH_CHARACTERS_PER_SECOND * passed))
    # The state after the position has moved for some seconds.
    coming = [side.come for side in (a, b) if not side.ended]
    speed, end = state.speed, max(a.come, b.come)
    if coming:
        # The nearer the position is to the end of what has come, the slower it gets: it does not stop at once.
        end = min(coming)
        speed = min(speed, max(end - state.position, 0.0) / _RESERVE_SECONDS)
    position = min(state.position + speed * passed, max(float(end), state.position))
    reached = end if position >= end - 0.5 else math.floor(position)
    kept = math.exp(-passed / _SEEN_SECONDS)
    moved = replace(
        state,
        position=position,
        shown_a=max(state.shown_a, min(reached, a.come)),
        shown_b=max(state.shown_b, min(reached, b.come)),
        ended_a=a.ended and reached >= a.come,
        ended_b=b.ended and reached >= b.come,
        waits=bool(coming) and reached >= end,
        seen_speed=state.seen_speed * kept + speed * (1.0 - kept),
    )
    return _held(moved) if (moved.ended_a or moved.ended_b) and not state.held else moved


def _held(state: PaceState) -> PaceState:
    """Keep the speed at which a reader has seen both sides move: on average or lately, whichever is higher.

    An answer of a few words is over before any speed was seen. For what is missing of the time, the assumed one counts.
    """
    assert state.at is not None
    assert state.started_at is not None
    seen = state.at - state.started_at
    unseen = max(_SEEN_SECONDS - seen, 0.0)
    assumed = _ASSUMED_CHARACTERS_PER_SECOND * _FOLLOWED_SHARE * unseen
    return replace(
        state, held=True, speed=max((state.position + assumed) / (seen + unseen), state.seen_speed)
    )
