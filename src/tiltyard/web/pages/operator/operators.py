"""Operators' pages about operators: who has which role, invitations, sign-out, removal.

Owners of the installation manage everybody; owners of an arena, the roles in it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import Form, Path
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel

from tiltyard.arena.accounts import OPERATOR_ROLES, ROLE_MEANINGS
from tiltyard.arena.content.arenas import list_arenas
from tiltyard.arena.operators.invitations import DEFAULT_INVITATION_DAYS
from tiltyard.arena.operators.operators import (
    OperatorRecord,
    end_sessions,
    invitation_terms,
    invite_operator,
    list_operator_invitations,
    list_operators,
    list_sessions,
    remove_operator,
    revoke_operator_invitation,
    set_operator_role,
)
from tiltyard.errors import NotFound
from tiltyard.web.pages.operator.operator_access import (
    OnArena,
    OnEither,
    OnServer,
    OperatorVisit,
    operator_router,
    typed_number,
)

router = operator_router()

Number = Annotated[int, Path(ge=1, lt=2**31)]
Link = Annotated[int, Path(ge=1, lt=2**63)]
Text = Annotated[str, Form()]


class OperatorForm(BaseModel):
    """What a form says of an operator to be invited. On the page of an arena, it is for that one."""

    invitee: str = ""
    role: str = ""
    arena: str = ""
    days: str = ""


@router.get("/arenas/{arena}/operators")
@router.get("/operators")
async def operators_page(visit: OnEither) -> HTMLResponse:
    """All operators, or those of one arena, and invitations that were not used."""
    return await _page(visit)


@router.post("/arenas/{arena}/operators")
@router.post("/operators")
async def invite_form(visit: OnEither, form: Annotated[OperatorForm, Form()]) -> HTMLResponse:
    """Invite an operator, for the installation or for an arena. The link is shown on this page only."""
    visit.on_refusal(_page, given=form)
    arena = form.arena or None if visit.place is None else visit.place.name
    days = typed_number("days", form.days, most=3650)
    terms = invitation_terms(form.invitee.strip(), timedelta(days=days))
    code, made = await invite_operator(visit.pool, terms, form.role, arena=arena, actor=visit.actor.name)
    link = f"{visit.registry.settings.address().rstrip('/')}/claim/{code}"
    return await _page(visit, link=link, made=made)


@router.post("/arenas/{arena}/operators/invitations/{link}/revoke")
@router.post("/operators/invitations/{link}/revoke")
async def revoke_invitation_form(link: Link, visit: OnEither) -> Response:
    """Revoke an invitation that was not used; on the page of an arena, only one to it."""
    arena = None if visit.place is None else visit.place.name
    await revoke_operator_invitation(visit.pool, link, arena=arena, actor=visit.actor.name)
    return visit.done("operator-uninvited", "operators")


@router.get("/operators/{operator}")
async def one_operator_page(operator: Number, visit: OnServer) -> HTMLResponse:
    """One operator: its roles, and where it is signed in."""
    return await _one(visit, operator)


@router.post("/operators/{operator}/role")
async def role_form(operator: Number, visit: OnServer, role: Text = "", arena: Text = "") -> Response:
    """Give a role, or take it away."""
    one = await _find(visit, operator)
    visit.on_refusal(_one, operator)
    await set_operator_role(visit.pool, one.name, role or None, arena=arena or None, actor=visit.actor.name)
    return visit.done("role", "operators", operator)


@router.post("/operators/{operator}/sign-out")
async def sign_out_form(operator: Number, visit: OnServer) -> Response:
    """Sign an operator out everywhere."""
    await _find(visit, operator)
    await end_sessions(visit.pool, operator, actor=visit.actor.name)
    return visit.done("signed-out", "operators", operator)


@router.get("/operators/{operator}/remove")
async def remove_page(operator: Number, visit: OnServer) -> HTMLResponse:
    """Confirm removing an operator."""
    one = await _find(visit, operator)
    return visit.page("operator_remove.html", active="operators", one=one)


@router.post("/operators/{operator}/remove")
async def remove_form(operator: Number, visit: OnServer) -> Response:
    """Remove an operator."""
    one = await _find(visit, operator)
    visit.on_refusal(_one, operator)
    await remove_operator(visit.pool, one.name, actor=visit.actor.name)
    return visit.done("operator-removed", "operators")


@router.post("/arenas/{arena}/operators/{operator}/role")
async def arena_role_form(visit: OnArena, operator: Number, role: Text = "") -> Response:
    """Give a role in this arena to an operator of it, or take it away."""
    one = await _find(visit, operator, visit.arena.name)
    visit.on_refusal(_page)
    arena, actor = visit.arena.name, visit.actor.name
    await set_operator_role(visit.pool, one.name, role or None, arena=arena, actor=actor)
    return visit.done("role", "operators")


async def _find(visit: OperatorVisit, operator: int, arena: str | None = None) -> OperatorRecord:
    known = await list_operators(visit.pool, arena)
    for one in known:
        if one.operator == operator:
            return one
    raise NotFound(f"no operator {operator}, or it was removed; see the list of operators")


async def _page(visit: OperatorVisit, **values: Any) -> HTMLResponse:
    pool, arena = visit.pool, None if visit.place is None else visit.place.name
    shown: dict[str, Any] = {
        "operators": await list_operators(pool, arena),
        "invitations": await list_operator_invitations(pool, arena),
        "arenas": await list_arenas(pool) if arena is None else [],
        "roles": OPERATOR_ROLES,
        "meanings": ROLE_MEANINGS,
        "given": OperatorForm(role="moderator", days=str(DEFAULT_INVITATION_DAYS)),
        "link": None,
        "made": None,
    }
    return visit.page("operators.html", "operators", **(shown | values))


async def _one(visit: OperatorVisit, operator: int, **said: Any) -> HTMLResponse:
    return visit.page(
        "operator.html",
        active="operators",
        one=await _find(visit, operator),
        sessions=await list_sessions(visit.pool, operator),
        arenas=await list_arenas(visit.pool),
        roles=OPERATOR_ROLES,
        meanings=ROLE_MEANINGS,
        **said,
    )
