"""The arenas of one web process: their voting queues, boards, blobs and connection pool."""

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
#: Seconds between reads of the arenas' settings, which another process may have changed.
_SETTINGS_POLL_SECONDS = 5.0
_MAX_SETTINGS_RETRY_SECONDS = 30.0
#: Seconds to wait for the first connection.
_OPEN_SECONDS = 15.0


def check_database(url: str) -> None:
    """Raise unless the database answers and has this version's schema; set the plan mode that our queries need."""
    with connect(url, name="tiltyard serve") as connection:
        check_schema(connection)
        use_custom_plans(connection)


@asynccontextmanager
async def open_registry(
    url: str, environment: Environment, settings: ServingSettings
) -> AsyncIterator[ArenaRegistry]:
    """Open a registry with its own connection pool and blob storage; close the pool at the end."""
    pool = open_pool(url, most=settings.connections, name="tiltyard web")
    await pool.open(within=_OPEN_SECONDS)
    try:
        yield ArenaRegistry(settings, url, pool, BlobStore(pool, open_configured_storage(environment)))
    finally:
        await pool.close()


class ArenaRegistry:
    """Voting queues by arena name, opened on first use, and the resources that they share."""

    def __init__(self, settings: ServingSettings, url: str, pool: ConnectionPool, blobs: BlobStore) -> None:
        self.settings = settings
        self.url = url
        self.pool = pool
        self.blobs = blobs
        self.boards = BoardCache(url, pool, self.on_new_snapshot)
        self._queues: dict[str, VotingQueue] = {}
        self._arenas = MatchupArenas(pool)
        self._opening = asyncio.Lock()
        self._looking: asyncio.Task[None] | None = None
        self._retries = Retries(
            _LOG, "reading the arenas' settings", Backoff(_SETTINGS_POLL_SECONDS, _MAX_SETTINGS_RETRY_SECONDS)
        )
        #: Arenas whose voting queue failed to open at the last attempt.
        self._unopened: dict[str, Retries] = {}
        self._prompts: BoundedCache[tuple[int, int], str] = BoundedCache(_CACHED_PROMPT_LIMIT)

    async def start(self) -> None:
        """Start to watch for new boards and changed settings."""
        await self.settings_changed()
        await self.boards.start()
        self._looking = asyncio.create_task(self._follow(), name="settings")

    async def stop(self) -> None:
        """Stop watching and close every voting queue."""
        await cancel_and_wait(self._looking)
        await self.boards.stop()
        voting_queues, self._queues = list(self._queues.values()), {}
        await asyncio.gather(*(queue.close() for queue in voting_queues))

    @property
    def voting_queues(self) -> tuple[VotingQueue, ...]:
        """The voting queues that are open."""
        return tuple(self._queues.values())

    async def voting_queue(self, name: str) -> VotingQueue:
        """The voting queue of an arena; opens it if needed."""
        found = self._queues.get(name)
        if found is not None:
            return found
        async with self._opening:
            return self._queues.get(name) or await self._open(name)

    async def voting_queue_of(self, matchup: str) -> VotingQueue:
        """The voting queue of the arena that a matchup belongs to."""
        return await self.voting_queue(
            await self._arenas.find(parse_matchup_id(matchup), self._queues.values())
        )

    async def prompt_text(self, arena: int, prompt: int) -> str:
        """The text of a prompt, cached."""
        key = (arena, prompt)
        found = self._prompts.get(key)
        if found is None:
            async with connect_from_pool(self.pool) as connection:
                found = self._prompts.put(key, await prompt_text(connection, arena, prompt))
        return found

    def on_new_snapshot(self, arena: int, source: int, generation: int, strengths: Strengths) -> None:
        """Pass new ratings to the arena's voting queue, which matches models by them."""
        for queue in self._queues.values():
            if queue.arena == arena:
                queue.rank(source, generation, strengths)

    async def settings_changed(self) -> None:
        """Read the settings of all arenas and apply them to the open voting queues."""
        async with connect_from_pool(self.pool) as connection:
            arenas = await list_arenas(connection)
        self._arenas.learn(arenas)
        for arena in arenas:
            queue = self._queues.get(arena.name)
            if queue is not None:
                queue.change(arena.settings)

    async def _follow(self) -> None:
        pause = _SETTINGS_POLL_SECONDS
        while True:
            await asyncio.sleep(pause)
            pause = _SETTINGS_POLL_SECONDS
            if self._queues:
                try:
                    await self.settings_changed()
                except Exception as error:  # noqa: BLE001 - retried at the next poll
                    pause = self._retries.failed(error)
                else:
                    self._retries.succeeded()

    async def _open(self, name: str) -> VotingQueue:
        async with connect_from_pool(self.pool) as connection:
            arena = await find_arena(connection, name)
        queue = VotingQueue(self.pool, arena.arena, arena.name, arena.settings)
        for snapshot in self.boards.newest(arena.arena):
            queue.rank(snapshot.source, snapshot.generation, snapshot.strengths)
        try:
            await queue.open()
        except Exception as error:
            self._retries_of(name).report(error)
            raise
        self._unopened.pop(name, None)
        self._queues[name] = queue
        return queue

    def _retries_of(self, name: str) -> Retries:
        """Logs the failures to open an arena. The next request for the arena is the next attempt."""
        if name not in self._unopened:
            self._unopened[name] = Retries(
                _LOG, f"opening the voting queue of arena {name}", Backoff(0.0), facts={"arena": name}
            )
        return self._unopened[name]
