"""Invitations to a private arena: make links, set the passcode, see who came in by what, revoke."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any, NamedTuple

from fastapi import Form, Path
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup
from pydantic import BaseModel

from tiltyard.arena.operators.invitations import (
    DEFAULT_INVITATION_DAYS,
    Invitation,
    InvitationTerms,
    invite_all,
    list_invitations,
    renew_invitation,
    revoke_invitation,
    set_passcode,
)
from tiltyard.core.policy.validity.rules import blind_votes_of_one
from tiltyard.errors import NotFound
from tiltyard.web.access.access import access_of
from tiltyard.web.pages import paths
from tiltyard.web.pages.operator.account import draw_qr_code
from tiltyard.web.pages.operator.operator_access import ArenaVisit, OnArena, operator_router, typed_number

router = operator_router("/arenas/{arena}/invitations")

Number = Annotated[int, Path(ge=1, lt=2**63)]
Text = Annotated[str, Form()]
_NAMED_BATCH = "invited by name"


class InvitationForm(BaseModel):
    """What a form says of new links: a name for each, or one for several people."""

    people: str = ""
    batch: str = ""
    uses: str = "1"
    days: str = str(DEFAULT_INVITATION_DAYS)


class Letter(NamedTuple):
    """What to send to somebody: a link, also as a picture, and whose it is."""

    invitation: Invitation
    link: str
    picture: Markup


async def votes_of_session(visit: ArenaVisit) -> int | None:
    """How many votes a session has, or as many as there are matchups; ``None`` if votes are not counted by session."""
    settings = visit.arena.settings
    if settings.is_live or settings.reveal != "session":
        return None
    queue = await visit.registry.voting_queue(visit.arena.name)
    most = blind_votes_of_one(await queue.responses_by_prompt(), settings.session_votes)
    return min(settings.session_votes, most or 0)


@router.get("")
async def invitations_page(visit: OnArena) -> HTMLResponse:
    """All invitations, including revoked ones, without their codes."""
    return await _page(visit)


@router.post("")
async def invite_form(visit: OnArena, form: Annotated[InvitationForm, Form()]) -> HTMLResponse:
    """Make a link for each name, or one for all. They are shown on this page only."""
    names = [name for line in form.people.splitlines() if (name := line.strip())]
    visit.on_refusal(_page, given=form)
    terms = InvitationTerms(
        _NAMED_BATCH if names else form.batch.strip(),
        typed_number("uses", form.uses),
        timedelta(days=typed_number("days", form.days)),
    )
    made = await invite_all(
        visit.pool,
        visit.arena.name,
        [replace(terms, name=name) for name in names] or [terms],
        shard=visit.registry.settings.shard,
        actor=visit.actor.name,
    )
    return await _page(visit, letters=_letters(visit, made))


@router.post("/{invitation}/remind")
async def remind_form(visit: OnArena, invitation: Number) -> HTMLResponse:
    """Show what to send to somebody again. Who has not come in needs another link, as the first is not stored."""
    renewed = await renew_invitation(
        visit.pool,
        visit.arena.name,
        invitation,
        shard=visit.registry.settings.shard,
        actor=visit.actor.name,
    )
    sent = (None, await _find(visit, invitation)) if renewed is None else renewed
    return await _page(visit, letters=_letters(visit, [sent]))


@router.post("/passcode")
async def passcode_form(visit: OnArena, passcode: Text = "") -> HTMLResponse:
    """Set the passcode, a random one if none is typed. It is shown on this page only."""
    visit.on_refusal(_page)
    typed = passcode.strip() or None
    shown, _ = await set_passcode(visit.pool, visit.arena.name, typed, actor=visit.actor.name)
    access_of(visit.request).forget()
    return await _page(visit, passcode=shown)


@router.get("/{invitation}/revoke")
async def revoke_page(visit: OnArena, invitation: Number) -> HTMLResponse:
    """Confirm revoking an invitation."""
    return visit.page("invitation_revoke.html", "invitations", one=await _find(visit, invitation))


@router.post("/{invitation}/revoke")
async def revoke_form(visit: OnArena, invitation: Number) -> Response:
    """Revoke an invitation."""
    await revoke_invitation(visit.pool, visit.arena.name, invitation, actor=visit.actor.name)
    access_of(visit.request).forget()
    return visit.done("uninvited", "invitations")


async def _find(visit: ArenaVisit, invitation: int) -> Invitation:
    known = await list_invitations(visit.pool, visit.arena.name)
    one = next((each for each in known if each.invitation == invitation and not each.revoked_at), None)
    if one is None:
        raise NotFound(f"no invitation {invitation} that is not revoked; see the list of invitations")
    return one


def _letters(visit: ArenaVisit, made: Iterable[tuple[str | None, Invitation]]) -> list[Letter]:
    """Links to come in, or to go on voting for those who are in."""
    address = visit.registry.settings.address().rstrip("/")
    links = [
        (one, address + (paths.vote(visit.arena.name) if code is None else paths.join(code)))
        for code, one in made
    ]
    return [Letter(one, link, draw_qr_code(link)) for one, link in links]


async def _page(visit: ArenaVisit, **values: Any) -> HTMLResponse:
    known = await list_invitations(visit.pool, visit.arena.name)
    identities = access_of(visit.request).identities
    shown = {
        "invitations": known[::-1],
        "has_passcode": any(one.is_passcode and one.revoked_at is None for one in known),
        "given": InvitationForm(),
        "letters": (),
        "wanted": await votes_of_session(visit),
        "can_sign_in": identities.settings.by_provider or identities.settings.by_proxy,
        "passcode": None,
    }
    return visit.page("invitations.html", "invitations", **(shown | values))
