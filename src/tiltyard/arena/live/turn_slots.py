"""Turns that run, in all processes: who has a place, who waits in line for one, and what each turn has shown so far.

A voter has one row in the table ``live_slots``: one running turn at most, whichever process was asked. The process that
runs a turn writes into the row what may be shown, and looks there whether to stop; others read it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

from tiltyard.arena.live.live_records import ShownText
from tiltyard.arena.log.buckets import fetch_one, fetch_rows, run_statement
from tiltyard.errors import BadOption, Busy
from tiltyard.postgres.connections import ConnectionPool, pipelined_transaction, translate_errors
from tiltyard.postgres.statements import statement

#: Turns that run at once in all processes.
RUNNING_TURN_LIMIT = 100
#: Seconds that a turn is assumed to take before any has ended, and how many of the last turns are averaged.
_ASSUMED_TURN_SECONDS = 30.0
_AVERAGED_TURN_COUNT = 50
#: A voter who waits should ask again within this time.
_ASK_AGAIN_SECONDS = 5.0
#: Voters who can wait; beyond that the line is closed.
_WAITING_LIMIT = 1_000
#: How long a voter's turn that was stopped may take to give its place back, and how often is looked.
_STOPPED_SECONDS = 2.0
_LOOK_SECONDS = 0.1


class SlotNews(NamedTuple):
    """What the table says of a running turn."""

    turn: int
    #: The text of a turn that is followed, after the characters that are known; ``None`` for a turn that runs here.
    new: ShownText | None
    #: Whether the voter stopped it, or its battle has ended.
    must_stop: bool


class TurnSlots:
    """Places for turns. Voters who find none wait in line, in the order in which they came."""

    def __init__(self, pool: ConnectionPool, process: int, limit: int = RUNNING_TURN_LIMIT) -> None:
        if limit < 1:
            raise BadOption(f"the limit of running turns is {limit}; expected at least 1")
        self.limit = limit
        self.pool = pool
        self.process = process
        self._durations: deque[float] = deque(maxlen=_AVERAGED_TURN_COUNT)

    @asynccontextmanager
    async def taken(self, arena: int, session: int) -> AsyncIterator[None]:
        """A place for a turn that begins in this block, or `Busy` with the voter's place in line and an estimate.

        If the block begins none, the place is free again.
        """
        deadline = time.monotonic() + _STOPPED_SECONDS
        while not await self._take(arena, session):
            if time.monotonic() > deadline:
                raise Busy("your last request is still being answered; wait for it", retry_after=1)
            await asyncio.sleep(_LOOK_SECONDS)
        try:
            yield
        except BaseException:
            await self.release(arena, session)
            raise

    async def release(self, arena: int, session: int) -> None:
        """Give a place back in which no turn has begun; that of a turn is free when its end is stored."""
        await run_statement(self.pool, "slots_release", self._key(arena, session))

    def note_duration(self, seconds: float) -> None:
        """A turn has taken so long; later ones may as well."""
        self._durations.append(seconds)

    async def stop(self, arena: int, session: int, matchup: UUID) -> bool:
        """Ask for the end of a turn; return whether one runs."""
        values = self._key(arena, session) | {"matchup": matchup}
        return await run_statement(self.pool, "slots_stop", values) > 0

    async def exchange(
        self,
        arena: int,
        changed: Mapping[UUID, tuple[ShownText, ShownText]],
        followed: Mapping[UUID, ShownText],
    ) -> dict[UUID, SlotNews]:
        """Write what turns show that run here, and read what others show; by matchup what the table says of each.

        ``changed`` has what was written before and what is shown now, ``followed`` what was read before.
        """
        new = [now.after(before) for before, now in changed.values()]
        values = {
            "arena": arena,
            "process": self.process,
            "matchup": list(changed),
            "from_a": [len(before.a) for before, _ in changed.values()],
            "from_b": [len(before.b) for before, _ in changed.values()],
            **{field: [getattr(one, field) for one in new] for field in ShownText._fields},
            "followed": list(followed),
            "has_a": [len(known.a) for known in followed.values()],
            "has_b": [len(known.b) for known in followed.values()],
        }
        rows = await fetch_rows(self.pool, "slots_exchange", values)
        return {
            matchup: SlotNews(turn, ShownText(*shown) if is_followed else None, must_stop)
            for matchup, turn, is_followed, must_stop, *shown in rows
        }

    async def _take(self, arena: int, session: int) -> bool:
        """Take a place; return false if this voter has one. `Busy` if there is none."""
        key = self._key(arena, session)
        async with (
            self.pool.connection() as connection,
            pipelined_transaction(connection),
        ):
            await connection.execute(statement("slots_lock"))
            await connection.execute(statement("slots_clear"), key)
            # How full it is; whether this voter has a place, which is None for who is not even in line; who is before.
            running, waiting, has_place, before = await fetch_one(connection, "slots_look", key)
            place = (waiting if has_place is None else before) + 1
            if has_place:
                return False
            if place <= self.limit - running:
                await connection.execute(statement("slots_put"), key)
                return True
            if has_place is None and waiting >= _WAITING_LIMIT:
                raise Busy("too many people wait; try again in a few minutes", retry_after=60)
            await connection.execute(statement("slots_put"), key | {"process": None})
        seconds = self.estimated_seconds(place - (self.limit - running))
        raise Busy(
            f"{running} answers are being written; you are number {place} in line, and it takes about "
            f"{math.ceil(seconds)} seconds until your turn",
            retry_after=min(max(seconds, 1.0), _ASK_AGAIN_SECONDS),
        )

    def estimated_seconds(self, places: int) -> float:
        """About how long it takes until so many places become free, from how long the last turns took here."""
        mean = sum(self._durations) / len(self._durations) if self._durations else _ASSUMED_TURN_SECONDS
        return max(places, 1) * mean / self.limit

    def _key(self, arena: int, session: int) -> dict[str, Any]:
        return {"arena": arena, "session": session, "process": self.process}


def count_slots(connection: psycopg.Connection) -> tuple[int, int]:
    """How many turns run, and how many voters wait for a place."""
    with translate_errors("count the turns that run"):
        row = connection.execute(statement("slots_count")).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])
