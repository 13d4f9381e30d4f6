"""The home page with the list of arenas, and the choice of the theme and of the language."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.boards.snapshots import board_of
from tiltyard.arena.content.arenas import Arena, list_arenas
from tiltyard.core.board.settled_order import claims_nothing
from tiltyard.core.ratings import Finding
from tiltyard.errors import NotFound
from tiltyard.web.access.access import registry_of
from tiltyard.web.access.route_access import CurrentActor, boards_of, may_read
from tiltyard.web.pages import paths
from tiltyard.web.pages.board_data import board_page_cache_of
from tiltyard.web.pages.board_view import Headline, headline_of
from tiltyard.web.pages.layout import LANGUAGE_COOKIE, THEME_COOKIE, THEMES, redirect_to, render_page
from tiltyard.web.pages.localization import languages

router = APIRouter(include_in_schema=False)

_YEAR_SECONDS = 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class ArenaCard:
    """An arena on the home page."""

    name: str
    title: str
    status: str | None
    votes: int
    #: Enabled models, and retired ones.
    models: int
    retired: int
    #: Who is first, and whether that is settled; ``None`` before the first board.
    headline: Headline | None = None
    #: What is settled in all; ``None`` where the board does not say.
    claim: Finding | None = None
    paused: bool = False

    @property
    def unordered(self) -> bool:
        """Whether no order at all may be claimed."""
        return claims_nothing(self.claim)

    @property
    def voted(self) -> bool:
        """Whether anybody has voted."""
        return self.votes > 0


@router.get("/", response_class=HTMLResponse)
async def home(request: Request, actor: CurrentActor) -> HTMLResponse:
    """The arenas that the client may read."""
    found = await list_arenas(registry_of(request).pool)
    listed = [arena for arena in found if arena.settings.stage in ("open", "paused")]
    cards = [await _card(request, arena) for arena in listed if await may_read(request, actor, arena)]
    return render_page(request, "home.html", cards=cards)


@router.post("/theme")
async def choose_theme(
    request: Request,
    theme: Annotated[str, Form()] = "",
    language: Annotated[str, Form()] = "",
    next: Annotated[str, Form()] = "/",
) -> Response:
    """Choose the language; or light, dark, or the browser's default."""
    secure = "; Secure" if registry_of(request).settings.secure else ""
    name, value = (LANGUAGE_COOKIE, language) if language in languages() else (THEME_COOKIE, theme)
    value, age = (value, _YEAR_SECONDS) if value in (*THEMES, *languages()) else ("", 0)
    cookie = f"{name}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Lax{secure}"
    return redirect_to(paths.local(next), cookie=cookie)


async def _card(request: Request, arena: Arena) -> ArenaCard:
    paused = arena.settings.stage == "paused"
    try:
        newest = await boards_of(request).latest(arena.arena, 0)
    except NotFound:
        return ArenaCard(arena.name, arena.title, None, 0, 0, 0, paused=paused)
    kept, key = board_page_cache_of(request).cards, (newest.sha256, arena.name, arena.title)
    found: ArenaCard | None = kept.get(key)
    if found is None:
        board = board_of(newest)
        enabled_count = sum(row.enabled for row in board.rows)
        made = ArenaCard(
            name=arena.name,
            title=arena.title,
            status=board.status,
            votes=board.votes,
            models=enabled_count,
            retired=len(board.rows) - enabled_count,
            headline=headline_of(board),
            claim=board.settled if board.votes else None,
        )
        found = kept.put(key, made)
    return replace(found, paused=paused)
