"""The home page with the list of arenas, and the choice of the theme and of the language."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, Response

from tiltyard.core.board.settled_order import claims_nothing
from tiltyard.web.access.access import registry_of
from tiltyard.web.access.route_access import CurrentActor, list_readable
from tiltyard.web.pages import paths
from tiltyard.web.pages.layout import (
    LANGUAGE_COOKIE,
    LANGUAGE_PARAMETER,
    THEME_COOKIE,
    THEMES,
    redirect_to,
    render_page,
)
from tiltyard.web.pages.localization import languages
from tiltyard.wire.records import Plain

router = APIRouter(include_in_schema=False)

_YEAR_SECONDS = 365 * 24 * 3600


#: Arenas on one page.
_PAGE_ARENA_COUNT = 20


@router.get("/")
async def home(request: Request, actor: CurrentActor, q: Plain = "", after: Plain = "") -> HTMLResponse:
    """A page of the arenas that the client may read and in which people vote, or those that are searched for."""
    limit = _PAGE_ARENA_COUNT + 1
    found = await list_readable(request, actor, after=after, search=q, limit=limit, archived=False)
    cards = found[:_PAGE_ARENA_COUNT]
    last = cards[-1].arena.name if len(found) == limit else None
    searched = {"q": q.strip() or None}
    return render_page(
        request,
        "home.html",
        cards=cards,
        is_part=bool(last or after or q),
        query=q.strip(),
        first_page=paths.asked("/", searched) if after else None,
        next_page=None if last is None else paths.asked("/", {**searched, "after": last}),
        claims_nothing=claims_nothing,
    )


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
    # Scripts read it, for pages that are the same for all readers.
    cookie = f"{name}={value}; Path=/; Max-Age={age}; SameSite=Lax{secure}"
    page = paths.local(next)
    if name == LANGUAGE_COOKIE and page.startswith("/arenas/"):
        page += f"{'&' if '?' in page else '?'}{LANGUAGE_PARAMETER}={language}"
    return redirect_to(page, cookie=cookie)
