"""How people come in to a private arena: by an invitation link, or with a passcode.

Opening a link changes nothing, because mail programs and chats open links too; pressing the button uses it.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.operators.invitations import (
    InvitationOffer,
    LinkTrouble,
    find_invitation,
    find_passcode,
    use_invitation,
)
from tiltyard.arena.operators.panels import PanelRater, find_rater_by_invitation
from tiltyard.errors import NotAdmitted, NotFound
from tiltyard.foundation.telemetry import SESSIONS
from tiltyard.web.access.access import access_of, registry_of
from tiltyard.web.access.rate_limits import client_address
from tiltyard.web.access.route_access import ReadableArena, boards_of
from tiltyard.web.pages import paths
from tiltyard.web.pages.layout import private_page, redirect_to, render_page

router = APIRouter(include_in_schema=False)

#: A random number of each page with the button, so that pressing it twice is one use.
_VISIT_CHARACTERS = 32
_NOT_STORED = {"Cache-Control": "no-store"}


@router.get("/join/{code}", response_class=HTMLResponse)
async def join_page(code: str, request: Request) -> HTMLResponse:
    """What the arena of an invitation is, and the button that uses the invitation."""
    try:
        offer = await find_invitation(registry_of(request).pool, code)
    except NotAdmitted:
        return _refuse(request, None)
    rater = await find_rater_by_invitation(registry_of(request).pool, offer.invitation)
    inside = await _is_inside(request, offer, rater)
    if offer.trouble is not None and not inside:
        return _refuse(request, offer.trouble)
    return render_page(
        request,
        "entry/join.html",
        headers=_NOT_STORED,
        code=code,
        title=offer.arena.title,
        is_live=offer.arena.settings.is_live,
        single=offer.single,
        inside=inside,
        rater=None if rater is None else rater.name,
        visit=secrets.token_hex(_VISIT_CHARACTERS // 2),
    )


@router.post("/join/{code}", response_class=HTMLResponse)
async def join_form(code: str, request: Request, visit: Annotated[str, Form()] = "") -> Response:
    """Come in: use the invitation once, unless this browser is in already."""
    access, pool = access_of(request), registry_of(request).pool
    offer: InvitationOffer | None = None
    try:
        async with access.entry_throttle.sign_in_attempt(client_address(request)):
            offer = await find_invitation(pool, code)
            rater = await find_rater_by_invitation(pool, offer.invitation)
            if await _is_inside(request, offer, rater):
                return redirect_to(paths.vote(offer.arena.name))
            offer = offer if rater is None else replace(offer, session=rater.session)
            cookie = await _come_in(request, offer, visit if len(visit) == _VISIT_CHARACTERS else None)
    except NotAdmitted:
        return _refuse(request, None if offer is None else offer.trouble or "used up")
    return redirect_to(paths.vote(offer.arena.name), cookie=cookie)


@router.get("/arenas/{arena}/enter")
async def enter_page(arena: ReadableArena) -> Response:
    """The voting page for those who are in; all others are asked for the link or the passcode."""
    return redirect_to(paths.vote(arena.name))


@router.post("/arenas/{arena}/enter", response_class=HTMLResponse)
async def enter_form(
    arena: str, request: Request, passcode: Annotated[str, Form()] = "", next: Annotated[str, Form()] = ""
) -> Response:
    """Come in with the passcode, and go on to the page that was asked for."""
    access, found = access_of(request), await boards_of(request).arena(arena)
    if found.settings.hidden:
        raise NotFound.arena(arena)
    if found.settings.entry != "passcode":
        return redirect_to(paths.vote(arena))
    wanted = paths.local(next, paths.vote(arena))
    if await access.entry.admit(request, found.arena, found.settings):
        return redirect_to(wanted)
    try:
        async with access.entry_throttle.sign_in_attempt(client_address(request)):
            offer = await find_passcode(registry_of(request).pool, found, passcode)
            cookie = await _come_in(request, offer)
    except NotAdmitted:
        return private_page(request, arena, "passcode-required", wanted, wrong=True)
    return redirect_to(wanted, cookie=cookie)


async def _come_in(request: Request, offer: InvitationOffer, visit: str | None = None) -> str:
    """Use a link or the passcode, and return the cookie of whoever came in; `Busy` if too many do."""
    access, arena = access_of(request), offer.arena
    if offer.trouble is None:
        alone = offer.single or offer.session is not None
        await access.limits.admit_session(request, arena, invited=alone)
    pool, origin = registry_of(request).pool, access.gate.origin(request)
    grant = await use_invitation(pool, access.keys, offer, visit, origin)
    SESSIONS.record()
    return access.entry.cookie(arena.arena, grant)


async def _is_inside(request: Request, offer: InvitationOffer, rater: PanelRater | None) -> bool:
    """Whether this browser may come in without the invitation: it has been in, or the arena is open and has no gate.

    A rater of a panel is inside as this rater only.
    """
    arena, access = offer.arena, access_of(request)
    voter = await access.entry.admitted(request, arena.arena, arena.settings)
    if rater is not None:
        return voter is not None and voter.session == rater.session
    return voter is not None or (arena.settings.public and not arena.settings.is_gated)


def _refuse(request: Request, trouble: LinkTrouble | None) -> HTMLResponse:
    """The page for a link that does not let in; without a trouble, there is no such link."""
    return render_page(request, "entry/refused.html", status=403, headers=_NOT_STORED, trouble=trouble)
