"""The arenas of one web process."""

import asyncio

from support.live_arenas import make_arena
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.registry import ArenaRegistry
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.postgres.connections import open_pool
from tiltyard.settings.serving_settings import ServingSettings


async def test_an_arena_that_takes_long_to_load_holds_up_no_other(database, tmp_path, monkeypatch):
    """Callers of one arena share its loading; who leaves does not stop it for the others."""
    begun, loaded, opened = asyncio.Event(), asyncio.Event(), []
    open_queue = VotingQueue.ensure_open

    async def ensure_open(queue):
        opened.append(queue.name)
        if queue.name == "large":
            begun.set()
            await loaded.wait()
        return await open_queue(queue)

    monkeypatch.setattr(VotingQueue, "ensure_open", ensure_open)

    for name in ("large", "small"):
        await make_arena(database, name=name)
    async with open_pool(database, most=4) as pool:
        blobs = BlobStore(pool, FolderStorage(tmp_path))
        registry = ArenaRegistry(ServingSettings(port=0), database, pool, blobs)
        waiting = [asyncio.create_task(registry.voting_queue("large")) for _ in range(3)]
        await begun.wait()
        small = await registry.voting_queue("small")
        assert (small.name, opened) == ("small", ["large", "small"])
        waiting[0].cancel()
        loaded.set()
        large, same = await asyncio.gather(*waiting[1:])
        assert large is same is await registry.voting_queue("large")
        await registry.stop()


async def test_a_registry_stops_while_an_arena_is_loaded(database, tmp_path, monkeypatch):
    async def ensure_open(_queue):
        await asyncio.sleep(3600)

    monkeypatch.setattr(VotingQueue, "ensure_open", ensure_open)

    await make_arena(database, name="large")
    async with open_pool(database, most=4) as pool:
        blobs = BlobStore(pool, FolderStorage(tmp_path))
        registry = ArenaRegistry(ServingSettings(port=0), database, pool, blobs)
        waiting = asyncio.create_task(registry.voting_queue("large"))
        await asyncio.sleep(0)
        await registry.stop()
        assert await asyncio.gather(waiting, return_exceptions=True)
