"""Finds the arena that a matchup belongs to.

Ids contain the arena's number. Those made by version 0.1 do not: they are searched for in the older arenas.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from uuid import UUID

from tiltyard.arena.content.arenas import Arena, find_arena_by_number
from tiltyard.arena.log.event_log import find_matchup, matchup_not_found_error
from tiltyard.arena.voting.matchup_ids import matchup_arena_number
from tiltyard.compute_once import BoundedQueue
from tiltyard.postgres.connection_pool import ConnectionPool, connect_from_pool

if TYPE_CHECKING:
    from tiltyard.arena.voting.voting_queue import VotingQueue

__all__ = ["MatchupArenas"]

#: Arenas that other processes may have created since the last read. A higher number means a guessed id.
UNSEEN_ARENA_LIMIT = 1_000
#: Lookups of version 0.1 ids that may wait while one is running.
_WAITING_LOOKUP_LIMIT = 8


class MatchupArenas:
    """A cache of arena names by number."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._names: dict[int, str] = {}
        #: Arenas with matchups whose ids do not carry the arena's number.
        self._older: dict[int, str] = {}
        self._newest = 0
        self._turns = BoundedQueue(1, _WAITING_LOOKUP_LIMIT, "an older matchup to be found")

    def learn(self, arenas: Iterable[Arena]) -> None:
        """Add arenas to the cache."""
        for arena in arenas:
            self._names[arena.arena] = arena.name
            if not arena.ids_carry_arena:
                self._older[arena.arena] = arena.name
            self._newest = max(self._newest, arena.arena)

    async def find(self, matchup: UUID, voting_queues: Iterable[VotingQueue]) -> str:
        """The name of a matchup's arena; `NotFound` if there is none. A guessed id causes no read of a log."""
        number = matchup_arena_number(matchup)
        if number not in self._names and number <= self._newest + UNSEEN_ARENA_LIMIT:
            async with connect_from_pool(self._pool) as connection:
                found = await find_arena_by_number(connection, number)
            self.learn([] if found is None else [found])
        name = self._names.get(number)
        if name is None and self._older:
            name = next((queue.name for queue in voting_queues if queue.holds(matchup)), None)
            name = name or await self._find_older(matchup)
        if name is None:
            raise matchup_not_found_error()
        return name

    async def _find_older(self, matchup: UUID) -> str | None:
        """Search the older arenas, one search at a time, so that many guessed ids use a single connection."""
        async with self._turns.acquire_slot(), connect_from_pool(self._pool) as connection:
            for arena, name in self._older.items():
                if await find_matchup(connection, arena, matchup) is not None:
                    return name
        return None
