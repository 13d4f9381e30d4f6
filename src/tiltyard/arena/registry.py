"""Everything that one web process holds of all arenas."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tiltyard.arena.boards.board_cache import BoardCache
from tiltyard.arena.content.arenas import find_arena, list_arenas, prompt_text
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import open_configured_storage
from tiltyard.arena.tasks import cancel_and_wait
from tiltyard.arena.voting.matchup_arenas import MatchupArenas
from tiltyard.arena.voting.matchup_ids import parse_matchup_id
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.caches import BoundedCache
from tiltyard.postgres.connection_pool import connect_from_pool
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.postgres.schema_migrations import check_schema, use_custom_plans
from tiltyard.retries import Backoff, Retries

if TYPE_CHECKING:
    from tiltyard.core.policy.state.strengths import Strengths
    from tiltyard.postgres.connection_pool import ConnectionPool
    from tiltyard.settings.environment import Environment
    from tiltyard.settings.serving_settings import ServingSettings

__all__ = ["ArenaRegistry", "check_database", "open_registry"]

_LOG = logging.getLogger(__name__)

#: Prompts whose text is kept in memory.
_CACHED_PROMPT_LIMIT = 10_000
#: Seconds between looks at the arenas' settings, which another process may have changed.
_SETTINGS_POLL_SECONDS = 5.0
_MAX_SETTINGS_RETRY_SECONDS = 30.0
#: Seconds to wait for the first connection.
_OPEN_SECONDS = 15.0


def check_database(url: str) -> None:
    """Raise unless the database answers and has this version's schema; make it plan statements as we need."""
    with connect(url, name="tiltyard serve") as connection:
        check_schema(connection)
        use_custom_plans(connection)


@asynccontextmanager
async def open_registry(
    url: str, environment: Environment, settings: ServingSettings
) -> AsyncIterator[ArenaRegistry]:
    """A registry with a connection pool and blob storage of its own, which are closed at the end."""
    pool = open_pool(url, most=settings.connections, name="tiltyard web")
    await pool.open(within=_OPEN_SECONDS)
    try:
        yield ArenaRegistry(settings, url, pool, BlobStore(pool, open_configured_storage(environment)))
    finally:
        await pool.close()


class ArenaRegistry:
    """Voting queues by arena, opened on first use, and what all of them share."""

    def __init__(
        self, settings: ServingSettings, url: str, pool: ConnectionPool, contents: BlobStore
    ) -> None:
        self.settings = settings
        self.url = url
        self.pool = pool
        self.contents = contents
        self.boards = BoardCache(url, pool, self.on_new_snapshot)
        self._desks: dict[str, VotingQueue] = {}
        self._arenas = MatchupArenas(pool)
        self._opening = asyncio.Lock()
        self._looking: asyncio.Task[None] | None = None
        self._retries = Retries(
            _LOG, "reading the arenas' settings", Backoff(_SETTINGS_POLL_SECONDS, _MAX_SETTINGS_RETRY_SECONDS)
        )
        #: Arenas whose desk could not be opened when somebody last asked for it.
        self._unopened: dict[str, Retries] = {}
        self._prompts: BoundedCache[tuple[int, int], str] = BoundedCache(_CACHED_PROMPT_LIMIT)

    async def start(self) -> None:
        """Begin to follow boards and settings."""
        await self.settings_changed()
        await self.boards.start()
        self._looking = asyncio.create_task(self._follow(), name="settings")

    async def stop(self) -> None:
        """Close every desk."""
        await cancel_and_wait(self._looking)
        await self.boards.stop()
        voting_queues, self._desks = list(self._desks.values()), {}
        await asyncio.gather(*(desk.close() for desk in voting_queues))

    @property
    def voting_queues(self) -> tuple[VotingQueue, ...]:
        """Those that are open."""
        return tuple(self._desks.values())

    async def desk(self, name: str) -> VotingQueue:
        """The desk of an arena."""
        found = self._desks.get(name)
        if found is not None:
            return found
        async with self._opening:
            return self._desks.get(name) or await self._open(name)

    async def voting_queue_of(self, matchup: str) -> VotingQueue:
        """The desk of the arena that a matchup belongs to."""
        return await self.desk(await self._arenas.find(parse_matchup_id(matchup), self._desks.values()))

    async def prompt_text(self, arena: int, prompt: int) -> str:
        """What a prompt asks."""
        key = (arena, prompt)
        found = self._prompts.get(key)
        if found is None:
            async with connect_from_pool(self.pool) as connection:
                found = self._prompts.put(key, await prompt_text(connection, arena, prompt))
        return found

    def on_new_snapshot(self, arena: int, source: int, generation: int, strengths: Strengths) -> None:
        """New ratings, for whoever matches by them."""
        for desk in self._desks.values():
            if desk.arena == arena:
                desk.rank(source, generation, strengths)

    async def settings_changed(self) -> None:
        """Some arena's settings are not what they were: its desk goes by the new ones."""
        async with connect_from_pool(self.pool) as connection:
            arenas = await list_arenas(connection)
        self._arenas.learn(arenas)
        for arena in arenas:
            desk = self._desks.get(arena.name)
            if desk is not None:
                desk.change(arena.settings)

    async def _follow(self) -> None:
        pause = _SETTINGS_POLL_SECONDS
        while True:
            await asyncio.sleep(pause)
            pause = _SETTINGS_POLL_SECONDS
            if self._desks:
                try:
                    await self.settings_changed()
                except Exception as error:  # noqa: BLE001 - whatever it is, the next look comes
                    pause = self._retries.failed(error)
                else:
                    self._retries.succeeded()

    async def _open(self, name: str) -> VotingQueue:
        async with connect_from_pool(self.pool) as connection:
            arena = await find_arena(connection, name)
        desk = VotingQueue(self.pool, arena.arena, arena.name, arena.settings)
        for snapshot in self.boards.newest(arena.arena):
            desk.rank(snapshot.source, snapshot.generation, snapshot.strengths)
        try:
            await desk.open()
        except Exception as error:
            self._retries_of(name).report(error)
            raise
        self._unopened.pop(name, None)
        self._desks[name] = desk
        return desk

    def _retries_of(self, name: str) -> Retries:
        """What is logged of an arena that cannot be opened. The next visitor is the next attempt."""
        if name not in self._unopened:
            self._unopened[name] = Retries(
                _LOG, f"opening the voting queue of arena {name}", Backoff(0.0), facts={"arena": name}
            )
        return self._unopened[name]
