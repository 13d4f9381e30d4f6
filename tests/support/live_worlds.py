"""Live arenas for tests: on a real database, with models that answer by scripts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.live_arenas import make_arena
from support.scripted_streams import ScriptedChat, make_entrant
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.live.live_battles import LiveBattles
from tiltyard.arena.live.live_records import FrameMark, LiveFrame, StoredEntrant, TurnEntrant
from tiltyard.arena.registry import ArenaRegistry
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.settings.serving_settings import ServingSettings

RUNNING = {"waiting", "streaming"}


async def make_live_arena(
    url: str,
    models: int = 4,
    *,
    name: str = "arena",
    config: Callable[[int], dict[str, Any]] | None = None,
    **settings: Any,
) -> Arena:
    """A live arena of so many entrants and one category. ``config`` gives the section of each."""
    from psycopg.types.json import Jsonb

    values = {"kind": "live", "undo_seconds": 10.0, "live_identity": "flag", **settings}
    arena = await make_arena(url, models, 1, name=name, settings=ArenaSettings(**values))
    with connect(url) as connection:
        for model in range(models):
            section = {} if config is None else config(model)
            connection.execute(
                "INSERT INTO live_entrants (arena, model, name, version, config) VALUES (%s, %s, %s, %s, %s)",
                (arena.arena, model, f"model-{model}", f"version-{model}", Jsonb(section)),
            )
    return arena


@dataclass
class ScriptedModels:
    """Opens entrants that answer by scripts: one chat for each model."""

    chats: dict[int, ScriptedChat] = field(default_factory=dict)

    def chat(self, model: int) -> ScriptedChat:
        return self.chats.setdefault(model, ScriptedChat())

    def open(self, stored: StoredEntrant) -> TurnEntrant:
        return make_entrant(stored.model, self.chat(stored.model))

    def script(self, *scripts: Any) -> None:
        """Let all models answer so."""
        for model in range(10):
            self.chats[model] = ScriptedChat(list(scripts))


@contextlib.asynccontextmanager
async def live_registries(
    url: str, models: ScriptedModels, count: int = 1
) -> AsyncIterator[list[ArenaRegistry]]:
    """So many web processes of one service."""
    async with contextlib.AsyncExitStack() as stack:
        registries = []
        for _ in range(count):
            pool = await stack.enter_async_context(open_pool(url, most=6))
            blobs = BlobStore(pool, FolderStorage(Path("/nonexistent")))
            registry = ArenaRegistry(ServingSettings(port=0), url, pool, blobs)
            registry.open_entrant = models.open
            await registry.start()
            stack.push_async_callback(registry.stop)
            registries.append(registry)
        yield registries


async def read_frames(
    battles: LiveBattles,
    voter: Voter,
    matchup: Any,
    mark: FrameMark | None = None,
    *,
    until: int | None = None,
) -> list[LiveFrame]:
    """The frames of a turn until its end, or until so many characters of side A are shown."""
    frames: list[LiveFrame] = []
    mark = mark or FrameMark()
    async with asyncio.timeout(60):
        while not frames or frames[-1].state in RUNNING:
            frame = await battles.frames(voter, matchup, mark)
            if frame.mark != mark or frame.state not in RUNNING:
                frames.append(frame)
            mark = frame.mark
            if until is not None and mark.shown_a >= until:
                break
    return frames
