"""The data of a board page, read once for each snapshot and cached."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256 as hashed

from fastapi import Request
from fastapi.responses import Response
from markupsafe import Markup

from tiltyard.arena.boards.battle_effects import EffectsDocument
from tiltyard.arena.boards.snapshots import (
    UNCITABLE_SNAPSHOT_LIFETIME,
    Snapshot,
    VoteAmendments,
    board_of,
    citable_snapshot,
    read_vote_amendments,
)
from tiltyard.arena.content.arenas import Arena, read_prompt_filters
from tiltyard.arena.content.model_details import ArenaModelDetails, read_model_details
from tiltyard.arena.content.response_details import read_known_details
from tiltyard.arena.log.event_log import HUMAN, JUDGE, SOURCES
from tiltyard.arena.log.votes import UnratedVotes
from tiltyard.core.board.document import BoardDocument, FilteredBoard
from tiltyard.core.ratings import Finding
from tiltyard.errors import Crowded, NotFound
from tiltyard.foundation.caches import BoundedCache, BoundedQueue, SingleFlight
from tiltyard.web.access.access import context_of, registry_of
from tiltyard.web.access.route_access import boards_of, send_cacheable
from tiltyard.web.assets import accepts_gzip
from tiltyard.web.pages.board_query import BoardQuery
from tiltyard.web.pages.board_view import BoardView, full_view
from tiltyard.web.pages.layout import (
    gzip_bytes,
    localization_of,
    pages_of,
    send_page,
    share_page,
    theme_of,
    varying,
)
from tiltyard.wire.arenas import SnapshotInfo

_DETAILS_CACHE_SECONDS = 5.0
#: So long a page waits for effects that are being computed.
_EFFECTS_WAIT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class SnapshotFacts:
    """Facts about a snapshot that are not in its document."""

    #: Votes that are not in it: excluded by the operator, and not rated.
    excluded: int
    unrated: UnratedVotes
    #: Until when the first of the waiting votes waits at most; ``None`` if none waits.
    waits_until: datetime | None
    categories: tuple[str, ...]
    languages: tuple[str, ...]
    #: Whether any response says what it took to make; and whether there are votes on texts of which the style is known.
    used: bool
    styled: bool

    @property
    def views(self) -> tuple[str, ...]:
        """The views of the arena's models that have something to show."""
        there = {
            "board": True,
            "categories": len(self.categories) > 1,
            "usage": self.used,
            "style": self.styled,
        }
        return tuple(name for name, shown in there.items() if shown)


@dataclass(frozen=True, slots=True)
class Citation:
    """Whether a snapshot can be cited, and which one to cite instead."""

    #: The last permanent board of the snapshot's generation, up to it.
    last_kept: SnapshotInfo | None
    #: Votes that were excluded or restored since; ``None`` if there were none.
    amended: VoteAmendments | None


@dataclass(frozen=True, slots=True, eq=False)
class SourceBoard:
    """A snapshot with its document, and the filtered board of its votes, if one is requested."""

    snapshot: Snapshot
    document: BoardDocument
    filtered: FilteredBoard | None
    #: The hash of the board that is shown.
    sha256: str
    citation: Citation

    @property
    def citable(self) -> SnapshotInfo | None:
        """The board to cite; ``None`` if votes were excluded or restored since, or if there is none yet."""
        return None if self.citation.amended is not None else self.citation.last_kept

    @property
    def kept_until(self) -> datetime | None:
        """Until when the snapshot is kept at least; ``None`` if it is permanent."""
        made, kept = self.snapshot.made_at, self.citation.last_kept
        for_ever = kept is not None and kept.snapshot == self.snapshot.sha256
        return None if for_ever or made is None else made + UNCITABLE_SNAPSHOT_LIFETIME


@dataclass(frozen=True, slots=True, eq=False)
class ShownEffects:
    """The effects of length and waiting in a live arena, with the hash of their document."""

    sha256: str
    document: EffectsDocument

    @property
    def findings(self) -> list[Finding]:
        """The effects in words."""
        return [Finding.from_dict(one) for one in self.document["findings"]]


@dataclass(frozen=True, slots=True, eq=False)
class BoardPageData:
    arena: Arena
    query: BoardQuery
    boards: tuple[SourceBoard, ...]
    facts: SnapshotFacts
    #: Whether it was requested by its hash, and therefore never changes.
    permanent: bool
    #: Whether judges have voted.
    judged: bool
    #: What the operator says about the models.
    details: ArenaModelDetails
    #: Of the newest whole board of a live arena.
    effects: ShownEffects | None = None

    @property
    def first(self) -> SourceBoard:
        """The board; if there are two, that of people's votes."""
        return self.boards[0]

    def key(self) -> Hashable:
        """The cache key: pages with the same key differ in language and theme only."""
        shown = tuple((board.sha256, board.citation) for board in self.boards)
        arena = (self.arena.arena, self.arena.title, self.arena.settings.public)
        effects = None if self.effects is None else self.effects.sha256
        return (
            *arena,
            self.query,
            self.facts,
            self.permanent,
            self.judged,
            self.details.version,
            shown,
            effects,
        )


class BoardPageCache:
    def __init__(self) -> None:
        #: Boards that were counted from some votes.
        self.filtered: BoundedCache[Hashable, FilteredBoard] = BoundedCache(24)
        self.facts: BoundedCache[Hashable, SnapshotFacts] = BoundedCache(200)
        self.last_kept: BoundedCache[Hashable, tuple[SnapshotInfo | None]] = BoundedCache(200)
        self.amended: BoundedCache[Hashable, VoteAmendments] = BoundedCache(200)
        self.views: BoundedCache[Hashable, BoardView] = BoundedCache(24)
        #: Rows as HTML, by board and language; searching and sorting does not change them.
        self.rows: BoundedCache[Hashable, dict[str, Markup]] = BoundedCache(12)
        #: Responses with their ETag, by everything that they depend on: pages of boards and models, and pictures.
        self.made: BoundedCache[Hashable, tuple[bytes, str]] = BoundedCache(96 * 1024 * 1024)
        #: What operators say about models, by arena. Another process may have changed it.
        self.details: BoundedCache[int, ArenaModelDetails] = BoundedCache(200, seconds=_DETAILS_CACHE_SECONDS)
        self.making = asyncio.Lock()
        self._drawing = BoundedQueue(1, 8, "a chart to be drawn")
        self._drawn = SingleFlight()

    def view(self, board: SourceBoard) -> BoardView:
        found = self.views.get(board.sha256)
        if found is None:
            found = self.views.put(board.sha256, full_view(board.document, board.filtered))
        return found

    async def drawn(self, key: Hashable, draw: Callable[[], bytes]) -> tuple[bytes, str]:
        """A picture with its ETag, cached; one is drawn at a time, and concurrent requests share it."""

        async def make() -> tuple[bytes, str]:
            async with self._drawing.acquire_slot():
                data = await asyncio.to_thread(draw)
            return self.made.put(key, (data, hashed(data).hexdigest()), len(data))

        found = self.made.get(key)
        return await self._drawn(key, make) if found is None else found

    async def rendered(self, key: Hashable, render: Callable[[], bytes]) -> tuple[bytes, str]:
        """A page or a file with its ETag, cached; ``render`` runs in a thread."""
        found = self.made.get(key)
        if found is None:
            data = await asyncio.to_thread(render)
            found = self.made.put(key, (data, hashed(data).hexdigest()), len(data))
        return found

    def filtered_board(self, sha256: str, written: bytes) -> FilteredBoard:
        """A filtered board, parsed once and cached."""
        found = self.filtered.get(sha256)
        return self.filtered.put(sha256, FilteredBoard.from_json(written)) if found is None else found


def board_page_cache_of(request: Request) -> BoardPageCache:
    return context_of(request).shared(BoardPageCache, BoardPageCache)


async def send_view(
    request: Request,
    material: BoardPageData,
    template: str,
    key: Hashable,
    read: Callable[[BoardPageCache], Mapping[str, object]],
) -> Response:
    """Send a view of an arena's models, cached by key, language and theme; ``read`` makes the values of the template."""
    kept, arena = board_page_cache_of(request), material.arena

    def render() -> bytes:
        values = {"active": "board", "arena": arena, "board_views": material.facts.views, **read(kept)}
        return pages_of(request).render(template, request, **values).encode()

    look = (localization_of(request).language, theme_of(request))
    return send_page(request, arena, *await kept.rendered((template, look, key), render))


def send_file(
    request: Request,
    arena: Arena,
    made: tuple[bytes, str],
    media_type: str,
    *,
    for_ever: bool = False,
    name: str = "",
    spoken: bool = False,
) -> Response:
    """Send bytes with their ETag, compressed if the client accepts that; ``spoken`` if they depend on the language."""
    data, etag = made
    headers = {"Vary": f"Accept-Encoding, {varying(request)}" if spoken else "Accept-Encoding"}
    if name:
        headers["Content-Disposition"] = f'attachment; filename="{name}"'
    if accepts_gzip(request.headers.get("accept-encoding", "")) and not media_type.endswith("parquet"):
        data, etag = gzip_bytes(data), f"{etag}-gzip"
        headers["Content-Encoding"] = "gzip"
    return send_cacheable(
        request, arena, data, etag, for_ever=for_ever, headers=headers, media_type=media_type
    )


async def gather_board_page(
    request: Request, arena: Arena, query: BoardQuery, snapshot: Snapshot | None = None
) -> BoardPageData:
    """Read the data of a page: of the newest boards, or of a published snapshot. If everybody may read it, no cookie changes it."""
    share_page(request, arena)
    if snapshot is not None:
        query = query.changed(source=SOURCES[snapshot.source])
    sources = range(len(SOURCES)) if query.source == "both" else (query.part().source,)
    boards = tuple([await _counted(request, arena, query, source, snapshot) for source in sources])
    facts = await _facts(request, arena, boards[0])
    judged = await _judged(request, arena)
    # A published board never changes, and the operator's words are no part of it.
    details = ArenaModelDetails({}, "") if snapshot is not None else await model_details_of(request, arena)
    is_whole = snapshot is None and boards[0].filtered is None and boards[0].snapshot.source == HUMAN
    effects = await _effects(request, arena) if is_whole and arena.settings.is_live else None
    return BoardPageData(arena, query, boards, facts, snapshot is not None, judged, details, effects)


async def _effects(request: Request, arena: Arena) -> ShownEffects | None:
    """The effects of length and waiting; ``None`` if they take longer than a page may wait: the next one has them."""
    try:
        async with asyncio.timeout(_EFFECTS_WAIT_SECONDS):
            found = await boards_of(request).effects(arena)
    except (TimeoutError, Crowded):
        return None
    return ShownEffects(found.sha256, json.loads(found.data))


async def _judged(request: Request, arena: Arena) -> bool:
    try:
        return (await boards_of(request).latest(arena.arena, JUDGE)).votes > 0
    except NotFound:
        return False


async def model_details_of(request: Request, arena: Arena) -> ArenaModelDetails:
    """What the operator says about the models of an arena, cached for a few seconds."""
    kept = board_page_cache_of(request)
    found = kept.details.get(arena.arena)
    if found is None:
        found = kept.details.put(
            arena.arena, await read_model_details(registry_of(request).pool, arena.arena)
        )
    return found


async def _counted(
    request: Request, arena: Arena, query: BoardQuery, source: int, snapshot: Snapshot | None
) -> SourceBoard:
    boards, kept, once = boards_of(request), board_page_cache_of(request), snapshot
    if snapshot is None:
        snapshot = await boards.latest(arena.arena, source)
    part = query.part(source)
    if part.whole:
        return SourceBoard(
            snapshot, board_of(snapshot), None, snapshot.sha256, await _citation(request, snapshot)
        )
    found = await boards.filtered(arena, part, once)
    filtered = kept.filtered_board(found.sha256, found.data)
    if filtered.snapshot != snapshot.sha256:
        snapshot = await boards.published(arena.arena, filtered.snapshot)
    return SourceBoard(
        snapshot, board_of(snapshot), filtered, found.sha256, await _citation(request, snapshot)
    )


async def _citation(request: Request, snapshot: Snapshot) -> Citation:
    kept = board_page_cache_of(request)
    found = kept.last_kept.get(snapshot.sha256)
    if found is None:
        citable = await citable_snapshot(registry_of(request).pool, snapshot)
        found = kept.last_kept.put(snapshot.sha256, (citable,))
    newest = await boards_of(request).latest(snapshot.arena, snapshot.source)
    if snapshot.generation >= newest.generation:
        return Citation(found[0], None)
    key = (snapshot.sha256, newest.generation)
    amended = kept.amended.get(key)
    if amended is None:
        amended = kept.amended.put(
            key, await read_vote_amendments(registry_of(request).pool, snapshot, newest)
        )
    return Citation(found[0], amended)


async def _facts(request: Request, arena: Arena, board: SourceBoard) -> SnapshotFacts:
    kept, boards, snapshot = board_page_cache_of(request), boards_of(request), board.snapshot
    found = kept.facts.get(snapshot.sha256)
    if found is None:
        categories, languages = await read_prompt_filters(registry_of(request).pool, arena)
        excluded = await boards.excluded(snapshot)
        unrated = await boards.unrated(snapshot)
        used, styled = await read_known_details(registry_of(request).pool, arena.arena)
        since = unrated.waiting_since
        facts = SnapshotFacts(
            excluded,
            unrated,
            since and since + timedelta(hours=arena.settings.waiting_hours),
            tuple(categories),
            tuple(languages),
            used,
            # The responses of a live arena's roster are empty.
            styled and snapshot.votes > 0 and not arena.settings.is_live,
        )
        found = kept.facts.put(snapshot.sha256, facts)
    return found
