"""Arenas for tests of the live service: on a real database, with made-up answers."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tiltyard.arena.content.answer_import import create_arena, import_answers
from tiltyard.arena.content.arenas import Arena, change_arena
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.core.policy.state.policy import Policy
from tiltyard.postgres.connections import open_pool
from tiltyard.settings.arena_settings import ArenaSettings, Reveal


def answers_file(path: Path, models: int, prompts: int) -> Path:
    """Answers of so many models to so many prompts."""
    with path.open("w") as file:
        for m in range(models):
            for p in range(prompts):
                row = {
                    "prompt_id": f"prompt-{p}",
                    "prompt": f"What about {p}?",
                    "model": f"model-{m}",
                    "response": f"Answer {p} of somebody: {m * 7919 % 1000}",
                }
                file.write(json.dumps(row) + "\n")
    return path


async def make_arena(
    url: str,
    models: int = 4,
    prompts: int = 6,
    *,
    name: str = "arena",
    settings: ArenaSettings | None = None,
    policy: Policy | None = None,
    reveal: Reveal = "vote",
) -> Arena:
    """An arena with enabled models and all their answers. Names are told after each vote, unless ``reveal`` says when."""
    settings = replace(settings or ArenaSettings(), reveal=reveal)
    with tempfile.TemporaryDirectory() as folder:
        path = answers_file(Path(folder) / "answers.jsonl", models, prompts)
        async with open_pool(url, most=2) as pool:
            cached = replace(settings, kind="cached")
            made = await create_arena(pool, name, settings=cached, policy=policy)
            await import_answers(pool, BlobStore(pool, FolderStorage(Path(folder))), name, path)
            if settings.is_live:
                # Stored answers stand for the empty ones of a live arena.
                async with pool.connection() as connection:
                    await change_arena(connection, made.arena, made.title, settings)
    return replace(made, settings=settings)


def made_arena(url: str, models: int = 4, prompts: int = 6, **options: object) -> Arena:
    """The same, for tests that are not asynchronous."""
    return asyncio.run(make_arena(url, models, prompts, **options))  # type: ignore[arg-type]


@asynccontextmanager
async def voting_queue_of(url: str, arena: Arena) -> AsyncIterator[VotingQueue]:
    """An open voting queue, as in a web process."""
    async with open_pool(url, most=4) as pool:
        queue = VotingQueue(pool, arena.arena, arena.name, arena.settings)
        await queue.open()
        try:
            yield queue
        finally:
            await queue.close()


@asynccontextmanager
async def new_voting_queue(
    url: str, models: int = 4, prompts: int = 6, **options: Any
) -> AsyncIterator[VotingQueue]:
    """The voting queue of an arena that is made for it."""
    arena = await make_arena(url, models, prompts, **options)
    async with voting_queue_of(url, arena) as queue:
        yield queue


def let_time_pass(queue: VotingQueue, seconds: float) -> None:
    """Let the open matchups of a queue have been shown so many seconds earlier."""
    assert queue.state is not None
    opened = queue.state.open
    for matchup, one in opened.items():
        if one.shown_at is not None:
            opened[matchup] = replace(one, shown_at=one.shown_at - timedelta(seconds=seconds))
