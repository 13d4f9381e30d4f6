"""The operator's pages on which a voter is deleted who asked for it, by the number of the session."""

from __future__ import annotations

from typing import Annotated

from fastapi import Form, Query, Request
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.operators.voter_data import HeldInArena, erase_session, read_held_in_arena
from tiltyard.errors import Conflict, InputError, NotFound
from tiltyard.web.access.access import access_of
from tiltyard.web.pages.operator.operator_access import (
    actor_of,
    arena_of,
    arena_page,
    operator_router,
    pool_of,
)
from tiltyard.wire.vocabulary import Plain

#: Digits of the greatest number of a session.
_SESSION_DIGITS = 19
router = operator_router("/arenas/{arena}/erase")


@router.get("", response_class=HTMLResponse)
async def erase_page(
    arena: str, request: Request, session: Annotated[Plain, Query(max_length=100)] = ""
) -> HTMLResponse:
    """Ask for a voter's number; with one, show what is deleted and what stays, and the button."""
    return await _ask(request, await arena_of(request, arena), session.strip())


@router.post("")
async def erase_form(
    arena: str,
    request: Request,
    session: Annotated[Plain, Form(max_length=100)] = "",
    reason: Annotated[str, Form()] = "",
) -> Response:
    """Delete the voter, and say what was deleted."""
    found, pool = await arena_of(request, arena), pool_of(request)
    try:
        number = session_number(session.strip())
        erased = await erase_session(pool, arena, number, reason=reason, actor=actor_of(request).name)
    except (NotFound, Conflict, InputError) as error:
        return await _ask(request, found, session.strip(), reason=reason, error=error)
    access_of(request).forget()
    return arena_page(request, found, "erased.html", "voters", erased=erased)


async def _ask(
    request: Request,
    arena: Arena,
    session: str,
    *,
    reason: str = "",
    error: NotFound | Conflict | InputError | None = None,
) -> HTMLResponse:
    held: HeldInArena | None = None
    if session:
        try:
            held = await read_held_in_arena(pool_of(request), arena, session_number(session))
        except (NotFound, InputError) as missing:
            error = error or missing
    return arena_page(
        request,
        arena,
        "erase.html",
        "voters",
        status=_status_of(error),
        trouble=None if error is None else str(error),
        session=session,
        held=held,
        reason=reason,
    )


def _status_of(error: NotFound | Conflict | InputError | None) -> int:
    if error is None:
        return 200
    return 404 if isinstance(error, NotFound) else 409 if isinstance(error, Conflict) else 422


def session_number(text: str) -> int:
    """Parse the number of a session; raise `InputError` if the text is not one."""
    if not (text.isascii() and text.isdigit() and len(text) <= _SESSION_DIGITS and int(text) < 2**63):
        raise InputError(
            f"{text[:40]!r} is no number of a session; the page of voters and each voter's page Your data have it"
        )
    return int(text)
