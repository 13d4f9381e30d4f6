"""The front door: which arenas there are; and the theme, which is chosen from every page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, Response

from tiltyard.errors import NotFound
from tiltyard.store.arenas import Arena, connected, list_arenas
from tiltyard.web.access import Asker, house_of
from tiltyard.web.pages import paths
from tiltyard.web.pages.shell import THEME_COOKIE, THEMES, page, see_other
from tiltyard.web.reading import boards_of, may_read

__all__ = ["router"]

router = APIRouter(include_in_schema=False)

_YEAR = 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Card:
    """What the front door says of an arena."""

    name: str
    title: str
    status: str | None
    votes: int
    models: int
    #: The first three, with the score that orders them.
    best: tuple[dict[str, Any], ...]


@router.get("/", response_class=HTMLResponse)
async def home(request: Request, actor: Asker) -> HTMLResponse:
    """Arenas that whoever asks may see."""
    async with connected(house_of(request).pool) as connection:
        found = await list_arenas(connection)
    cards = [await _card(request, arena) for arena in found if may_read(actor, arena)]
    return page(request, "home.html", cards=cards)


@router.post("/theme")
async def choose_theme(
    request: Request, theme: Annotated[str, Form()] = "", next: Annotated[str, Form()] = "/"
) -> Response:
    """Light, dark, or whatever the browser says."""
    secure = "; Secure" if house_of(request).settings.secure else ""
    value, age = (theme, _YEAR) if theme in THEMES else ("", 0)
    cookie = f"{THEME_COOKIE}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Lax{secure}"
    return see_other(paths.local(next), cookie=cookie)


async def _card(request: Request, arena: Arena) -> Card:
    try:
        newest = await boards_of(request).latest(arena.arena, 0)
    except NotFound:
        return Card(arena.name, arena.title, None, 0, 0, ())
    document = json.loads(newest.document)
    rows = [row for row in document["rows"] if row["enabled"]]
    ranked = [row for row in rows if row["rank"] is not None and row["votes"]]
    best = [{"model": row["model"], "score": _score(row)} for row in ranked[:3]]
    return Card(arena.name, arena.title, document["status"], document["votes"], len(rows), tuple(best))


def _score(row: dict[str, Any]) -> float | None:
    """What the board shows first: the conservative score, or what came before it."""
    found: float | None = row["legacy_elo"] if row["conservative"] is None else row["conservative"]
    return found
