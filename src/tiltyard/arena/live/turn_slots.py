"""How many turns of live battles run in a process at once, and who waits for a place."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Hashable

from tiltyard.errors import BadOption, Busy

__all__ = ["RUNNING_TURN_LIMIT", "TurnSlots"]

#: Turns that run in one process at once.
RUNNING_TURN_LIMIT = 100
#: Seconds that a turn is assumed to take before any has ended, and how many of the last turns are averaged.
_ASSUMED_TURN_SECONDS = 30.0
_AVERAGED_TURN_COUNT = 50
#: A voter who waits should ask again within this time, and loses their place so long after that.
_ASK_AGAIN_SECONDS = 5.0
_LOST_PLACE_SECONDS = 15.0
#: Voters who can wait; beyond that the line is closed.
_WAITING_LIMIT = 1_000


class TurnSlots:
    """Places for turns. Voters who find none wait in line, in the order in which they came."""

    def __init__(self, limit: int = RUNNING_TURN_LIMIT, clock: Callable[[], float] = time.monotonic) -> None:
        if limit < 1:
            raise BadOption(f"the limit of running turns is {limit}; expected at least 1")
        self.limit = limit
        self._clock = clock
        self._running: dict[Hashable, float] = {}
        #: By voter, when they asked last; in the order in which they came.
        self._waiting: dict[Hashable, float] = {}
        self._durations: deque[float] = deque(maxlen=_AVERAGED_TURN_COUNT)

    @property
    def running(self) -> int:
        """Turns that run now."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Voters who wait, as far as they still ask."""
        self._forget_lost()
        return len(self._waiting)

    def take(self, voter: Hashable) -> None:
        """Take a place, or raise `Busy` with the voter's place in line and an estimate of the time."""
        self._forget_lost()
        now = self._clock()
        free = self.limit - len(self._running)
        place = self._place_of(voter)
        if place <= free and voter not in self._running:
            self._waiting.pop(voter, None)
            self._running[voter] = now
            return
        if voter in self._running:
            raise Busy("your last request is still being answered; wait for it", retry_after=1)
        if voter not in self._waiting and len(self._waiting) >= _WAITING_LIMIT:
            raise Busy("too many people wait; try again in a few minutes", retry_after=60)
        self._waiting[voter] = now
        seconds = self.estimated_seconds(place - free)
        raise Busy(
            f"{len(self._running)} answers are being written; you are number {place} in line, and it takes about "
            f"{math.ceil(seconds)} seconds until your turn",
            retry_after=min(max(seconds, 1.0), _ASK_AGAIN_SECONDS),
        )

    def release(self, voter: Hashable) -> None:
        """Give a place back when the turn has ended."""
        began = self._running.pop(voter, None)
        if began is not None:
            self._durations.append(self._clock() - began)

    def estimated_seconds(self, places: int) -> float:
        """About how long it takes until so many places become free, from how long the last turns took."""
        mean = sum(self._durations) / len(self._durations) if self._durations else _ASSUMED_TURN_SECONDS
        return max(places, 1) * mean / self.limit

    def _place_of(self, voter: Hashable) -> int:
        """The voter's place in line, from 1."""
        for place, waiting in enumerate(self._waiting, start=1):
            if waiting == voter:
                return place
        return len(self._waiting) + 1

    def _forget_lost(self) -> None:
        """Drop those who have not asked again."""
        lost = self._clock() - _ASK_AGAIN_SECONDS - _LOST_PLACE_SECONDS
        for voter in [voter for voter, asked in self._waiting.items() if asked < lost]:
            del self._waiting[voter]
