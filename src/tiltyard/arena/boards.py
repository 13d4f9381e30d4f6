"""Boards in one web process: the newest of each arena, and what is counted from them on demand."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tiltyard.arena.filtering import filtered_document, head_to_head, prompt_results
from tiltyard.board.document import canonical, document_hash
from tiltyard.errors import NotFound, StoreFault
from tiltyard.standing.strengths import Strengths
from tiltyard.store.arenas import (
    Arena,
    Pool,
    connected,
    find_arena,
    find_model,
    prompts_of,
    read_prompt_keys,
)
from tiltyard.store.battles import patiently, read_tally
from tiltyard.store.listening import Announcements, read_history, read_places
from tiltyard.store.log import SOURCES
from tiltyard.store.rosters import read_roster
from tiltyard.store.snapshots import Snapshot, latest_snapshot

__all__ = ["Boards", "Document", "OnSnapshot"]

#: Told of every new snapshot: arena, source, generation, strengths.
OnSnapshot = Callable[[int, int, int, Strengths], None]

#: What is counted on demand takes at most one part in so many of the time.
_REST = 10.0
_KEPT = 200
#: How many wait for their turn, and how many seconds one statement may take.
_QUEUE = 8
_PATIENCE = 20.0
#: Seconds for which an arena's settings are believed.
_KNOWN = 2.0
_RETRY = 1.0


@dataclass(frozen=True, slots=True)
class Document:
    """Bytes to be sent, with their hash."""

    data: bytes
    sha256: str

    @classmethod
    def of(cls, value: dict[str, Any]) -> Document:
        written = canonical(value)
        return cls(written, document_hash(written))


@dataclass(frozen=True, slots=True)
class _Made:
    """Something costly: of which snapshot, when it was made, and how long that took."""

    snapshot: str
    document: Document
    at: float
    took: float


class Boards:
    """The newest snapshot of every arena and source; it is told of new ones and looks besides."""

    def __init__(
        self, url: str, pool: Pool, on_snapshot: OnSnapshot | None = None, *, look: float = 5.0
    ) -> None:
        self._pool = pool
        self._tell = on_snapshot
        self._news = Announcements(url, look=look)
        self._newest: dict[tuple[int, int], Snapshot] = {}
        self._arenas: dict[str, tuple[float, Arena]] = {}
        self._made: dict[tuple[Any, ...], _Made] = {}
        self._making = asyncio.Lock()
        self._waiting = 0
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load what there is, and begin to listen."""
        await self._look()
        self._task = asyncio.create_task(self._follow(), name="boards")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        await self._news.close()

    async def arena(self, name: str) -> Arena:
        """An arena by name, as it was a moment ago; `NotFound` if there is none."""
        known = self._arenas.get(name)
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        self._arenas.pop(name, None)
        async with connected(self._pool) as connection:
            found = await find_arena(connection, name)
        self._arenas[name] = (time.monotonic() + _KNOWN, found)
        return found

    def newest(self, arena: int) -> list[Snapshot]:
        """The newest snapshot of each source of an arena, as far as they are known here."""
        return [snapshot for (of, _), snapshot in self._newest.items() if of == arena]

    def forget(self, name: str) -> None:
        """An arena was changed: look again."""
        self._arenas.pop(name, None)

    async def latest(self, arena: int, source: int) -> Snapshot:
        """The newest board of a source; `NotFound` before there is any."""
        found = self._newest.get((arena, source))
        if found is None:
            async with connected(self._pool) as connection:
                found = await latest_snapshot(connection, arena, source)
            if found is None:
                raise NotFound("there is no board yet; one is made a few seconds after the arena opens")
            self._take(found)
        return found

    async def filtered(
        self, arena: Arena, source: int, category: str | None, language: str | None
    ) -> Document:
        """The board of the prompts of a category and a language, as of the newest snapshot or shortly before."""
        newest = await self.latest(arena.arena, source)

        async def make() -> Document:
            return await self._filter(arena, newest, category, language)

        return await self._sparing((arena.arena, source, "board", category, language), newest, make)

    async def model(self, arena: Arena, source: int, name: str) -> Document:
        """Everything that is known of a model, as of the newest snapshot or shortly before."""
        newest = await self.latest(arena.arena, source)

        async def make() -> Document:
            return await self._describe(arena, newest, name)

        return await self._sparing((arena.arena, source, "model", name), newest, make)

    async def _follow(self) -> None:
        while True:
            await self._news.next()
            try:
                await self._look()
            except StoreFault:
                await asyncio.sleep(_RETRY)

    async def _look(self) -> None:
        """Fetch every board that is newer than the one at hand."""
        async with connected(self._pool) as connection:
            for (arena, source), place in (await read_places(connection)).items():
                known = self._newest.get((arena, source))
                if known is None or (known.generation, known.position) != place:
                    found = await latest_snapshot(connection, arena, source)
                    if found is not None:
                        self._take(found)

    def _take(self, snapshot: Snapshot) -> None:
        key = (snapshot.arena, snapshot.source)
        known = self._newest.get(key)
        if known is not None and (known.generation, known.position) >= (
            snapshot.generation,
            snapshot.position,
        ):
            return
        self._newest[key] = snapshot
        if self._tell is not None:
            self._tell(snapshot.arena, snapshot.source, snapshot.generation, snapshot.strengths)

    async def _sparing(
        self, key: tuple[Any, ...], newest: Snapshot, make: Callable[[], Awaitable[Document]]
    ) -> Document:
        """What was made of this snapshot, or a little before if making it took long; else it is made."""
        if (fresh := self._fresh(key, newest)) is not None:
            return fresh
        async with self._turn():
            if (fresh := self._fresh(key, newest)) is not None:
                return fresh
            start = time.monotonic()
            document = await make()
            now = time.monotonic()
            self._made.pop(key, None)
            self._made[key] = _Made(newest.sha256, document, now, now - start)
            if len(self._made) > _KEPT:
                del self._made[next(iter(self._made))]
        return document

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """One at a time; who would wait behind many others is told to come back."""
        if self._waiting >= _QUEUE:
            raise StoreFault(f"{_QUEUE} others wait for a board to be counted; ask again in a moment")
        self._waiting += 1
        try:
            await self._making.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._making.release()

    def _fresh(self, key: tuple[Any, ...], newest: Snapshot) -> Document | None:
        made = self._made.get(key)
        if made is None:
            return None
        rested = time.monotonic() - made.at > _REST * made.took
        return made.document if made.snapshot == newest.sha256 or not rested else None

    async def _filter(
        self, arena: Arena, newest: Snapshot, category: str | None, language: str | None
    ) -> Document:
        async with connected(self._pool) as connection, patiently(connection, _PATIENCE):
            prompts = await prompts_of(connection, arena.arena, category, language)
            if not prompts:
                raise NotFound("no prompt of this arena is of this category and language")
            roster = await read_roster(connection, arena.arena)
            tally = await read_tally(
                connection, arena.arena, newest.source, upto=newest.position, prompts=list(prompts)
            )
        document = await asyncio.to_thread(
            filtered_document,
            tally,
            roster.models,
            prompts,
            about=_about(arena, newest),
            category=category,
            language=language,
        )
        return Document.of(document)

    async def _describe(self, arena: Arena, newest: Snapshot, name: str) -> Document:
        async with connected(self._pool) as connection, patiently(connection, _PATIENCE):
            number, _ = await find_model(connection, arena.arena, name)
            roster = await read_roster(connection, arena.arena)
            keys = await read_prompt_keys(connection, arena.arena)
            history = await read_history(connection, arena.arena, newest.source, name)
            tally = await read_tally(
                connection, arena.arena, newest.source, upto=newest.position, model=number
            )
        prompts = [(key.name, key.category, key.language) for key in keys]
        rows = json.loads(newest.document)["rows"]
        return Document.of(
            {
                **_about(arena, newest),
                "model": name,
                **_placed(rows, name),
                "head_to_head": head_to_head(tally, roster.models, number),
                "prompts": prompt_results(tally, prompts, number),
                "history": [
                    {
                        "generation": once.generation,
                        "position": once.position,
                        "at": once.made_at.isoformat(),
                        "snapshot": once.sha256,
                        "votes": once.votes,
                        "row": once.row,
                    }
                    for once in history
                ],
            }
        )


def _about(arena: Arena, newest: Snapshot) -> dict[str, Any]:
    return {
        "arena": arena.name,
        "source": SOURCES[newest.source],
        "snapshot": newest.sha256,
        "position": newest.position,
        "generation": newest.generation,
    }


def _placed(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """A model's row, and those next to it; ``None`` where there is none."""
    places = [k for k, row in enumerate(rows) if row["model"] == name]
    if not places:
        return {"row": None, "above": None, "below": None}
    k = places[0]
    ranked = rows[k]["rank"] is not None
    above = rows[k - 1] if ranked and k > 0 else None
    below = rows[k + 1] if ranked and k + 1 < len(rows) and rows[k + 1]["rank"] is not None else None
    return {"row": rows[k], "above": above, "below": below}
