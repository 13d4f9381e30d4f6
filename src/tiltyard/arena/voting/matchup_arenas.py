"""Finds the arena that a matchup belongs to, by the arena's number in its id."""

from __future__ import annotations

from uuid import UUID

from tiltyard.arena.content.arenas import find_arena_by_number
from tiltyard.arena.log.event_log import matchup_not_found_error
from tiltyard.arena.voting.matchup_ids import matchup_arena_number
from tiltyard.postgres.connections import ConnectionPool, connect_from_pool


class MatchupArenas:
    """A cache of arena names by number."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._names: dict[int, str] = {}

    async def find(self, matchup: UUID) -> str:
        """The name of a matchup's arena; `NotFound` if there is none."""
        return await self.name_of(matchup_arena_number(matchup))

    async def name_of(self, number: int) -> str:
        """The name of an arena by number; `NotFound` if there is none.

        Ids are signed, so a number that is not cached is that of an arena which was not used here yet.
        """
        name = self._names.get(number)
        if name is None:
            async with connect_from_pool(self._pool) as connection:
                found = await find_arena_by_number(connection, number)
            if found is None:
                raise matchup_not_found_error()
            name = self._names[number] = found.name
        return name
