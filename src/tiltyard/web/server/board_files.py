"""Writes the boards that everybody may read as files, so that a static server or a CDN carries their readers.

The files of an arena are what the application itself answers to a reader without cookies, so that nobody is shown more
than by the service, and the same bytes. What is not public any more is removed. Names follow from addresses:

- a page, in each language: ``arenas/NAME/in=LANGUAGE/index.html``;
- what a page loads or offers to download: its path, with its query as the last folder;
- ``api/v1/arenas/NAME/newest``: the hashes of the newest boards, written last;
- ``written/NUMBER.json``: what is written of an arena, for the writer itself.

A file is replaced as a whole. Names with a hash never change; the others are written after them. A writer that is killed
leaves files that the next one finds and removes.
"""

from __future__ import annotations

import asyncio
import html
import json
import logging
import math
import re
import time
from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.types import Message

from tiltyard._version import __version__
from tiltyard.arena.boards.arena_lists import BoardState, list_public_boards, read_board_states
from tiltyard.arena.boards.snapshots import SnapshotNotifications
from tiltyard.arena.content.object_storage import PublicFiles
from tiltyard.arena.processes.process_leases import ProcessRing
from tiltyard.arena.registry import ArenaRegistry
from tiltyard.errors import StoreFault, TiltyardError
from tiltyard.foundation.retries import Backoff, Retries
from tiltyard.web.access.access import app_context
from tiltyard.web.access.route_access import HASHED_AGE
from tiltyard.web.assets import load_assets
from tiltyard.web.pages.board_data import BoardPageCache
from tiltyard.web.pages.layout import LANGUAGE_PARAMETER
from tiltyard.web.pages.localization import languages

_LOG = logging.getLogger(__name__)

#: Seconds between looks whether an arena was changed without a new board, and between writings of one arena.
LOOK_SECONDS = 10.0
#: Seconds between lists of all arenas and of all that is written.
_LIST_SECONDS = 300.0
#: How long a file is kept that no newest page names: pages that are open may still load it.
KEPT_SECONDS = 600
_RETRY_SECONDS, _MAX_RETRY_SECONDS = 1.0, 60.0
_FOR_EVER = "public, max-age=31536000, immutable"
_HASHED = f"public, {HASHED_AGE}"
_WRITTEN = "written"


@dataclass(frozen=True, slots=True)
class _Written:
    """What is written of an arena. Without a version, writing has begun and not ended."""

    name: str
    generation: int
    version: str | None


@dataclass(frozen=True, slots=True)
class _Answer:
    data: bytes
    media_type: str
    caching: str


class BoardFiles:
    """Keeps the files of those arenas that are this process's share."""

    def __init__(self, app: FastAPI, registry: ArenaRegistry, files: PublicFiles, ring: ProcessRing) -> None:
        self._app = app
        self._registry = registry
        self._files = files
        self._ring = ring
        self._host = urlsplit(registry.settings.address()).netloc.encode()
        #: By arena; ``None`` before it was read.
        self._written: dict[int, _Written | None] = {}
        self._written_at: dict[int, float] = {}
        self._due: set[int] = set()
        self._listed_at = -math.inf
        self._retries = Retries(_LOG, "writing boards as files", Backoff(_RETRY_SECONDS, _MAX_RETRY_SECONDS))

    async def run(self) -> None:
        """Write until cancelled."""
        news = SnapshotNotifications(self._registry.url, look=LOOK_SECONDS)
        announced: Collection[tuple[int, int]] | None = None
        try:
            while True:
                try:
                    await self.look(announced)
                    await self.write_due()
                except TiltyardError as error:
                    await asyncio.sleep(self._retries.failed(error))
                    continue
                self._retries.succeeded()
                announced = await news.next()
        finally:
            await news.close()

    async def look(self, announced: Collection[tuple[int, int]] | None = None) -> None:
        """Note which arenas may need other files: those with new boards or, without any, all that are known."""
        now = time.monotonic()
        if now - self._listed_at >= _LIST_SECONDS:
            if not self._written:
                await asyncio.to_thread(self._write_assets)
            listed = await asyncio.to_thread(self._files.list, _WRITTEN)
            numbers = [int(name.removeprefix(f"{_WRITTEN}/").removesuffix(".json")) for name in listed]
            for arena in (*numbers, *await list_public_boards(self._registry.pool)):
                self._written.setdefault(arena, None)
            self._listed_at, announced = now, None
        self._due |= self._written.keys() if announced is None else {arena for arena, _ in announced}

    def _write_assets(self) -> None:
        for name, asset in load_assets().found.items():
            self._files.put(f"assets/{name}", asset.data, asset.media_type, _FOR_EVER)

    async def write_due(self) -> None:
        """Write the files of the arenas that were changed, and remove those of arenas that are not public."""
        now = time.monotonic()
        mine = {one for one in self._due if self._ring.owns(one)}
        ready = {one for one in mine if now - self._written_at.get(one, -LOOK_SECONDS) >= LOOK_SECONDS}
        states = {one.arena: one for one in await read_board_states(self._registry.pool, ready)}
        self._due &= mine
        for arena in sorted(ready):
            try:
                await self._bring(arena, states.get(arena))
            except TiltyardError as error:
                # One arena holds up no other.
                self._retries.report(error)
                self._written_at[arena] = now
            else:
                self._due.discard(arena)

    async def _bring(self, arena: int, state: BoardState | None) -> None:
        """Make the files of an arena what they should be."""
        written = self._written.get(arena) or await asyncio.to_thread(self._read, arena)
        version = None if state is None else f"{__version__} {state.version}"
        if state is not None and state.public:
            if written is not None and written.version == version:
                self._written[arena] = written
                return
            found = await self._gather(state.name)
            if found:
                await asyncio.to_thread(self._note, arena, _Written(state.name, state.generation, None))
                is_amended = written is not None and written.generation != state.generation
                await asyncio.to_thread(self._replace, state.name, found, at_once=is_amended)
                await asyncio.to_thread(self._note, arena, _Written(state.name, state.generation, version))
                self._written_at[arena] = time.monotonic()
                return
        if written is not None:
            await asyncio.to_thread(self._replace, written.name, {}, at_once=True)
            await asyncio.to_thread(self._files.remove, [f"{_WRITTEN}/{arena}.json"])
        self._written.pop(arena, None)

    def _read(self, arena: int) -> _Written | None:
        found = self._files.find(f"{_WRITTEN}/{arena}.json")
        return None if found is None else _Written(**json.loads(found))

    def _note(self, arena: int, written: _Written) -> None:
        data = json.dumps(asdict(written)).encode()
        self._files.put(f"{_WRITTEN}/{arena}.json", data, "application/json", "no-store")
        self._written[arena] = written

    def _replace(self, arena: str, found: dict[str, _Answer], *, at_once: bool) -> None:
        """Write files, those without a hash last, and remove others: old ones, or ``at_once`` all."""
        there = {
            name: at
            for folder in ("arenas", "api/v1/arenas")
            for name, at in self._files.list(f"{folder}/{arena}").items()
        }
        for name, answer in sorted(found.items(), key=lambda one: _is_last(one[0])):
            if name not in there or answer.caching != _HASHED:
                self._files.put(name, answer.data, answer.media_type, answer.caching)
        before = datetime.now(UTC) - timedelta(seconds=KEPT_SECONDS)
        gone = [name for name, at in there.items() if name not in found and (at_once or at < before)]
        self._files.remove(sorted(gone, key=_is_last, reverse=True))

    async def _gather(self, arena: str) -> dict[str, _Answer]:
        """All files of an arena by name, as a reader without cookies gets them; empty if the board is not for everybody."""
        self._registry.boards.forget(arena)
        app_context(self._app).shared(BoardPageCache, BoardPageCache).details.clear()
        found: dict[str, _Answer] = {}
        addresses = {f"/arenas/{arena}/badge.svg", f"/api/v1/arenas/{arena}/newest"}
        addresses |= {
            f"/api/v1/arenas/{arena}/board",
            f"/arenas/{arena}/board.csv",
            f"/arenas/{arena}/board.json",
        }
        for language in languages():
            query = f"{LANGUAGE_PARAMETER}={language}"
            page = await self._ask(f"/arenas/{arena}", query)
            if page is None:
                return {}
            found[f"arenas/{arena}/{query}/index.html"] = page
            addresses |= _linked(arena, page.data.decode())
        for address in sorted(addresses):
            path, _, query = address.partition("?")
            answer = await self._ask(path, query)
            if answer is not None:
                folder, _, file = path.strip("/").rpartition("/")
                found["/".join(filter(None, (folder, query, file)))] = answer
        return found

    async def _ask(self, path: str, query: str) -> _Answer | None:
        """What the application answers to a stranger; ``None`` if that is not for shared caches."""
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": "GET",
            "scheme": "https" if self._registry.settings.secure else "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(b"host", self._host)],
            "http_version": "1.1",
            "server": None,
            "client": None,
            "root_path": "",
        }
        await self._app(scope, receive, send)
        headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        caching = headers.get("cache-control", "")
        if sent[0]["status"] >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise StoreFault(f"the service cannot answer {path}; its messages say why")
        if sent[0]["status"] != 200 or not caching.startswith("public"):
            return None
        caching = _HASHED if re.search(r"\b[0-9a-f]{64}\b", f"{path}?{query}") else caching
        body = b"".join(message.get("body", b"") for message in sent[1:])
        return _Answer(body, headers["content-type"], caching)


def _linked(arena: str, page: str) -> set[str]:
    """What a page of a board loads, and what it offers to download."""
    addresses = _addresses(arena).findall(html.unescape(page))
    narrow = [f"{one}&narrow=true" for one in addresses if ".svg?theme=" in one]
    return {*addresses, *narrow}


def _addresses(arena: str) -> re.Pattern[str]:
    name = re.escape(arena)
    own = rf"/arenas/{name}/(?:charts/|board\.|boards/[0-9a-f]+/card\.)"
    return re.compile(rf"(?:{own}|/api/v1/arenas/{name}/snapshots/)[\w.=&?/-]+")


def _is_last(name: str) -> tuple[bool, bool]:
    """Pages come after what they load, and what says which boards are the newest after them."""
    return name.endswith("/newest"), not re.search(r"[0-9a-f]{64}", name)
