"""Invitations to a private arena: make links, set the passcode, see who came in by what, revoke."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import Form, Path
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.operators.invitations import (
    DEFAULT_INVITATION_DAYS,
    InvitationTerms,
    invite,
    list_invitations,
    revoke_invitation,
    set_passcode,
)
from tiltyard.errors import BadOption, Conflict, InputError, NotFound
from tiltyard.foundation.field_definitions import whole_number
from tiltyard.web.access.access import access_of
from tiltyard.web.pages import paths
from tiltyard.web.pages.operator.operator_access import ArenaVisit, OnArena, operator_router

router = operator_router("/arenas/{arena}/invitations")

Number = Annotated[int, Path(ge=1, lt=2**63)]
Text = Annotated[str, Form()]


@router.get("", response_class=HTMLResponse)
async def invitations_page(visit: OnArena) -> HTMLResponse:
    """All invitations, including revoked ones, without their codes."""
    return await _page(visit)


@router.post("", response_class=HTMLResponse)
async def invite_form(visit: OnArena, batch: Text = "", uses: Text = "1", days: Text = "") -> HTMLResponse:
    """Make an invitation link. It is shown on this page only."""
    settings = visit.registry.settings
    try:
        terms = InvitationTerms(batch.strip(), _number("uses", uses), timedelta(days=_number("days", days)))
        code, made = await invite(
            visit.pool, visit.arena.name, terms, shard=settings.shard, actor=visit.actor.name
        )
    except (InputError, Conflict) as error:
        given = {"batch": batch[:200], "uses": uses[:20], "days": days[:20]}
        return await _page(visit, status=422, trouble=str(error), given=given)
    link = settings.address().rstrip("/") + paths.join(code)
    return await _page(visit, link=link, made=made)


@router.post("/passcode", response_class=HTMLResponse)
async def passcode_form(visit: OnArena, passcode: Text = "") -> HTMLResponse:
    """Set the passcode, a random one if none is typed. It is shown on this page only."""
    try:
        shown, _ = await set_passcode(
            visit.pool, visit.arena.name, passcode.strip() or None, actor=visit.actor.name
        )
    except InputError as error:
        return await _page(visit, status=422, trouble=str(error))
    access_of(visit.request).forget()
    return await _page(visit, passcode=shown)


@router.get("/{invitation}/revoke", response_class=HTMLResponse)
async def revoke_page(visit: OnArena, invitation: Number) -> HTMLResponse:
    """Confirm revoking an invitation."""
    known = await list_invitations(visit.pool, visit.arena.name)
    one = next((each for each in known if each.invitation == invitation and not each.revoked_at), None)
    if one is None:
        raise NotFound(f"no invitation {invitation} to revoke; see the list of invitations")
    return visit.page("invitation_revoke.html", "invitations", one=one)


@router.post("/{invitation}/revoke")
async def revoke_form(visit: OnArena, invitation: Number) -> Response:
    """Revoke an invitation."""
    await revoke_invitation(visit.pool, visit.arena.name, invitation, actor=visit.actor.name)
    access_of(visit.request).forget()
    return visit.done("uninvited", "invitations")


def _number(name: str, text: str) -> int:
    value = whole_number(text.strip())
    if value is None or not 0 < value < 10**9:
        raise BadOption(f"{name} is {text[:100]!r}; expected a number, 1 or more")
    return value


async def _page(visit: ArenaVisit, **values: Any) -> HTMLResponse:
    known = await list_invitations(visit.pool, visit.arena.name)
    identities = access_of(visit.request).identities
    shown = {
        "invitations": known[::-1],
        "has_passcode": any(one.is_passcode and one.revoked_at is None for one in known),
        "given": {"batch": "", "uses": "1", "days": str(DEFAULT_INVITATION_DAYS)},
        "link": None,
        "can_sign_in": identities.settings.by_provider or identities.settings.by_proxy,
        "made": None,
        "passcode": None,
    }
    return visit.page("invitations.html", "invitations", **(shown | values))
