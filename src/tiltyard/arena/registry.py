"""The arenas of one web process: their voting queues, boards, blobs and connection pool."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from uuid import UUID

from tiltyard.arena.boards.board_cache import BoardCache
from tiltyard.arena.content.arenas import find_arena, find_arenas, prompt_text
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import open_configured_storage
from tiltyard.arena.live.entrant_pool import EntrantOpener, EntrantPool, open_entrant
from tiltyard.arena.live.live_battles import LiveBattles
from tiltyard.arena.live.live_records import StoredEntrant, TurnEntrant
from tiltyard.arena.live.live_store import arenas_with_running_turns
from tiltyard.arena.live.safety import Safety, open_configured_safety
from tiltyard.arena.live.turn_slots import TurnSlots
from tiltyard.arena.log.buckets import run_statement
from tiltyard.arena.operators.installation import keep_defences
from tiltyard.arena.processes.process_leases import ProcessLease
from tiltyard.arena.tasks import cancel_and_wait
from tiltyard.arena.voting.matchup_ids import MatchupArenas
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.core.policy.state.strengths import Strengths
from tiltyard.errors import BadConfig, TiltyardError
from tiltyard.foundation.caches import BoundedCache, SingleFlight
from tiltyard.foundation.retries import Backoff, Retries
from tiltyard.postgres.connections import ConnectionPool, check_same_database, connect, open_pool
from tiltyard.postgres.schema_migrations import check_schema, use_custom_plans
from tiltyard.settings.environment import Environment
from tiltyard.settings.serving_settings import ServingSettings

_PAUSE_SECONDS = 1.0
#: Arenas named by one announcement; PostgreSQL allows 8,000 bytes.
_ANNOUNCED_ARENA_LIMIT = 500


class EventAnnouncer:
    """Collects the arenas with new events and announces them.

    An announcement may be lost with its process; raters look for such events once a minute.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._arenas: set[int] = set()
        self._added = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._retries = Retries(_LOG, "announcing new events", Backoff(_PAUSE_SECONDS))

    def add(self, arena: int) -> None:
        """Announce new events of this arena soon."""
        self._arenas.add(arena)
        self._added.set()

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_announcing(), name="announcements")

    async def stop(self) -> None:
        """Announce what is left, and stop."""
        await cancel_and_wait(self._task)
        with contextlib.suppress(TiltyardError):
            await self._announce()

    async def _keep_announcing(self) -> None:
        while True:
            await self._added.wait()
            pause = _PAUSE_SECONDS
            try:
                await self._announce()
            except TiltyardError as error:
                pause = self._retries.failed(error)
            else:
                self._retries.succeeded()
            await asyncio.sleep(pause)

    async def _announce(self) -> None:
        while self._arenas:
            arenas = sorted(self._arenas)[:_ANNOUNCED_ARENA_LIMIT]
            await run_statement(self._pool, "log_announce", {"arenas": " ".join(map(str, arenas))})
            self._arenas.difference_update(arenas)
        self._added.clear()


_LOG = logging.getLogger(__name__)

#: Prompts whose text is kept in memory.
_CACHED_PROMPT_LIMIT = 10_000
#: Arenas that are loaded at the same time: a large one holds up few others, and many do not take all connections.
_LOADED_AT_ONCE_LIMIT = 4
#: Seconds without a request after which an arena is unloaded.
_UNLOAD_SECONDS = 600.0
#: Seconds between reads of the loaded arenas' settings, which another process may have changed.
_SETTINGS_POLL_SECONDS = 5.0
_MAX_SETTINGS_RETRY_SECONDS = 30.0
#: Seconds between the moment when another process comes or goes and the search for turns that it left.
_RECOVERY_SECONDS = 1.0
#: Seconds to wait for the first connection.
_OPEN_SECONDS = 15.0


def check_database(url: str, pooler_url: str | None = None) -> None:
    """Raise unless the database answers and has this version's schema; set the plan mode that our queries need.

    A pooler must lead to the same database.
    """
    with connect(url, name="tiltyard serve") as connection:
        check_schema(connection)
        use_custom_plans(connection)
        if pooler_url is not None:
            check_same_database(connection, pooler_url)


@asynccontextmanager
async def open_registry(
    url: str, environment: Environment, settings: ServingSettings
) -> AsyncIterator[ArenaRegistry]:
    """Open a registry with its own connection pool and blob storage; close the pool at the end.

    The pool may go through a pooler that shares sessions. ``url`` is the database itself, for what needs a session.
    """
    pooler = environment.pooler_url
    pool = open_pool(pooler or url, most=settings.connections, name="tiltyard web", pooled=pooler is not None)
    await pool.open(within=_OPEN_SECONDS)
    try:
        blobs = BlobStore(pool, open_configured_storage(environment))
        registry = ArenaRegistry(settings, url, pool, blobs)
        registry.open_entrant = partial(open_entrant, environment=environment)
        registry.live_checks = open_configured_safety(environment)
        try:
            yield registry
        finally:
            if registry.live_checks is not None:
                await registry.live_checks.close()
    finally:
        await pool.close()


def _open_none(stored: StoredEntrant) -> TurnEntrant:
    raise BadConfig(f"this process cannot ask {stored.name}: it was opened without an environment")


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
        self._opening = SingleFlight()
        self._loading = asyncio.Semaphore(_LOADED_AT_ONCE_LIMIT)
        self._looking: asyncio.Task[None] | None = None
        self._announcer = EventAnnouncer(pool)
        self.lease = ProcessLease(pool, self._ring_changed)
        #: Opens the connections to a model of a live arena.
        self.open_entrant: EntrantOpener = _open_none
        #: The moderation of live arenas; ``None`` if there is none.
        self.live_checks: Safety | None = None
        self._live: dict[str, LiveBattles] = {}
        self.turn_slots = TurnSlots(pool, self.lease.ring.own, settings.live_turns)
        self._recovering: asyncio.Task[None] | None = None
        self._retries = Retries(
            _LOG, "reading the arenas' settings", Backoff(_SETTINGS_POLL_SECONDS, _MAX_SETTINGS_RETRY_SECONDS)
        )
        #: Arenas whose voting queue failed to open at the last attempt.
        self._unopened: dict[str, Retries] = {}
        self._prompts: BoundedCache[tuple[int, int], str] = BoundedCache(_CACHED_PROMPT_LIMIT)

    async def start(self) -> None:
        """Start to watch for new boards and changed settings; `BadOption` if this process would weaken an arena."""
        await keep_defences(self.pool, self.settings)
        await self.boards.start()
        await self.lease.start()
        self._announcer.start()
        self._ring_changed()
        self._looking = asyncio.create_task(self._follow(), name="settings")

    async def stop(self) -> None:
        """Stop watching and close every voting queue."""
        await cancel_and_wait(self._looking)
        await cancel_and_wait(self._recovering)
        await asyncio.gather(*(battles.close() for battles in self._live.values()))
        self._live.clear()
        await self._opening.stop()
        await self.lease.stop()
        await self.boards.stop()
        voting_queues, self._queues = list(self._queues.values()), {}
        await asyncio.gather(*(queue.close() for queue in voting_queues))
        await self._announcer.stop()

    @property
    def voting_queues(self) -> tuple[VotingQueue, ...]:
        return tuple(queue for queue in self._queues.values() if queue.opened)

    async def voting_queue(self, name: str) -> VotingQueue:
        """The voting queue of an arena; opens it if needed."""
        found = self._queues.get(name)
        return await self._opening(name, partial(self._open, name)) if found is None else found

    async def voting_queue_of(self, matchup: UUID) -> VotingQueue:
        """The voting queue of the arena that a matchup belongs to."""
        return await self.voting_queue(await self._arenas.find(matchup))

    async def live_battles(self, name: str) -> LiveBattles:
        found = self._live.get(name)
        if found is not None:
            found.note_use()
            return found
        queue = await self.voting_queue(name)
        if name not in self._live:
            entrants = EntrantPool(self.pool, queue.arena, self.open_entrant)
            find_queue = partial(self.voting_queue, name)
            self._live[name] = LiveBattles(
                queue.arena, self.turn_slots, find_queue, entrants, self.live_checks
            )
        return self._live[name]

    async def prompt_text(self, arena: int, prompt: int) -> str:
        """The text of a prompt, cached."""
        key = (arena, prompt)
        found = self._prompts.get(key)
        if found is None:
            async with self.pool.connection() as connection:
                found = self._prompts.put(key, await prompt_text(connection, arena, prompt))
        return found

    def on_new_snapshot(self, arena: int, source: int, generation: int, strengths: Strengths) -> None:
        """Pass new ratings to the arena's voting queue, which matches models by them."""
        for queue in self._queues.values():
            if queue.arena == arena:
                queue.rank(source, generation, strengths)

    async def settings_changed(self) -> None:
        """Read the settings of the arenas that are in use and apply them to their voting queues."""
        numbers = [queue.arena for queue in self._queues.values()]
        async with self.pool.connection() as connection:
            arenas = await find_arenas(connection, numbers)
        for arena in arenas:
            queue = self._queues.get(arena.name)
            if queue is not None:
                queue.change(arena.settings)

    async def _follow(self) -> None:
        pause = _SETTINGS_POLL_SECONDS
        while True:
            await asyncio.sleep(pause)
            pause = _SETTINGS_POLL_SECONDS
            if self._queues or self._live:
                try:
                    await self._unload_idle()
                    await self.settings_changed()
                except Exception as error:  # noqa: BLE001 - retried at the next poll
                    pause = self._retries.failed(error)
                else:
                    self._retries.succeeded()

    async def _unload_idle(self) -> None:
        for queue in list(self._queues.values()):
            if queue.idle_seconds() > _UNLOAD_SECONDS:
                await queue.unload()
                del self._queues[queue.name]
                self.boards.unfollow(queue.arena)
        for name, battles in list(self._live.items()):
            if battles.idle_seconds > _UNLOAD_SECONDS:
                del self._live[name]
                await battles.close()

    def _ring_changed(self) -> None:
        """Another process has come or gone: look for turns that it left."""
        if self._recovering is None or self._recovering.done():
            self._recovering = asyncio.create_task(self._recover(), name="lost turns")

    async def _recover(self) -> None:
        """End the turns that processes left which are gone, in this process's share of the arenas."""
        while True:
            # A process that was just lost has a lease for some seconds.
            await asyncio.sleep(_RECOVERY_SECONDS)
            try:
                for number in await arenas_with_running_turns(self.pool):
                    if self.lease.ring.owns(number):
                        battles = await self.live_battles(await self._arenas.name_of(number))
                        await battles.ensure_recovered(again=True)
            except TiltyardError as error:
                self._retries.report(error)
            else:
                return

    async def _open(self, name: str) -> VotingQueue:
        async with self.pool.connection() as connection:
            arena = await find_arena(connection, name)
        queue = VotingQueue(self.pool, arena.arena, arena.name, arena.settings, shard=self.settings.shard)
        queue.before_loading = self._pass_ratings
        queue.on_events = self._announcer.add
        try:
            async with self._loading:
                await queue.ensure_open()
        except Exception as error:
            # The next request for the arena is the next attempt.
            if name not in self._unopened:
                what = f"opening the voting queue of arena {name}"
                self._unopened[name] = Retries(_LOG, what, Backoff(0.0), facts={"arena": name})
            self._unopened[name].report(error)
            raise
        self._unopened.pop(name, None)
        self._queues[name] = queue
        return queue

    async def _pass_ratings(self, queue: VotingQueue) -> None:
        for snapshot in await self.boards.follow(queue.arena):
            queue.rank(snapshot.source, snapshot.generation, snapshot.strengths)
