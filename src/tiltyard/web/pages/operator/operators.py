"""Operators' pages about operators: who has which role, invitations, sign-out, removal.

Owners of the installation manage everybody; owners of an arena, the roles in it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import Form, Path, Request
from fastapi.responses import HTMLResponse, Response

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
from tiltyard.errors import BadOption, Conflict, InputError, NotFound
from tiltyard.foundation.field_definitions import whole_number
from tiltyard.web.access.access import registry_of
from tiltyard.web.pages.operator.operator_access import (
    actor_of,
    arena_of,
    operator_page,
    operator_router,
    pool_of,
    redirect_with_notice,
)

router = operator_router()

Number = Annotated[int, Path(ge=1, lt=2**31)]
Link = Annotated[int, Path(ge=1, lt=2**63)]
Text = Annotated[str, Form()]


@router.get("/operators", response_class=HTMLResponse)
async def operators_page(request: Request) -> HTMLResponse:
    """All operators, and invitations that were not used."""
    return await _page(request, None)


@router.post("/operators", response_class=HTMLResponse)
async def invite_form(
    request: Request, invitee: Text = "", role: Text = "", arena: Text = "", days: Text = ""
) -> HTMLResponse:
    """Invite an operator, for the installation or for an arena. The link is shown on this page only."""
    given = {"invitee": invitee, "role": role, "arena": arena, "days": days}
    return await _invite(request, None, given)


@router.post("/operators/invitations/{link}/revoke")
async def revoke_invitation_form(link: Link, request: Request) -> Response:
    """Revoke an invitation that was not used."""
    await revoke_operator_invitation(pool_of(request), link, actor=actor_of(request).name)
    return redirect_with_notice("operator-uninvited", "operators")


@router.get("/operators/{operator}", response_class=HTMLResponse)
async def one_operator_page(operator: Number, request: Request) -> HTMLResponse:
    """One operator: its roles, and where it is signed in."""
    return await _one(request, operator)


@router.post("/operators/{operator}/role", response_class=HTMLResponse)
async def role_form(operator: Number, request: Request, role: Text = "", arena: Text = "") -> Response:
    """Give a role, or take it away."""
    one = await _find(request, operator)
    try:
        await set_operator_role(
            pool_of(request), one.name, role or None, arena=arena or None, actor=actor_of(request).name
        )
    except (InputError, Conflict) as error:
        return await _one(request, operator, trouble=str(error), status=409)
    return redirect_with_notice("role", "operators", operator)


@router.post("/operators/{operator}/sign-out")
async def sign_out_form(operator: Number, request: Request) -> Response:
    """Sign an operator out everywhere."""
    await _find(request, operator)
    await end_sessions(pool_of(request), operator, actor=actor_of(request).name)
    return redirect_with_notice("signed-out", "operators", operator)


@router.get("/operators/{operator}/remove", response_class=HTMLResponse)
async def remove_page(operator: Number, request: Request) -> HTMLResponse:
    """Confirm removing an operator."""
    one = await _find(request, operator)
    return operator_page(request, "operator_remove.html", active="operators", one=one)


@router.post("/operators/{operator}/remove", response_class=HTMLResponse)
async def remove_form(operator: Number, request: Request) -> Response:
    """Remove an operator."""
    one = await _find(request, operator)
    try:
        await remove_operator(pool_of(request), one.name, actor=actor_of(request).name)
    except Conflict as error:
        return await _one(request, operator, trouble=str(error), status=409)
    return redirect_with_notice("operator-removed", "operators")


@router.get("/arenas/{arena}/operators", response_class=HTMLResponse)
async def arena_operators_page(arena: str, request: Request) -> HTMLResponse:
    """The operators of one arena."""
    return await _page(request, arena)


@router.post("/arenas/{arena}/operators", response_class=HTMLResponse)
async def arena_invite_form(
    arena: str, request: Request, invitee: Text = "", role: Text = "", days: Text = ""
) -> HTMLResponse:
    """Invite an operator of this arena. The link is shown on this page only."""
    return await _invite(request, arena, {"invitee": invitee, "role": role, "arena": arena, "days": days})


@router.post("/arenas/{arena}/operators/invitations/{link}/revoke")
async def arena_revoke_invitation_form(arena: str, link: Link, request: Request) -> Response:
    """Revoke an invitation to this arena."""
    await revoke_operator_invitation(pool_of(request), link, arena=arena, actor=actor_of(request).name)
    return redirect_with_notice("operator-uninvited", "arenas", arena, "operators")


@router.post("/arenas/{arena}/operators/{operator}/role", response_class=HTMLResponse)
async def arena_role_form(arena: str, operator: Number, request: Request, role: Text = "") -> Response:
    """Give a role in this arena to an operator of it, or take it away."""
    one = await _find(request, operator, arena)
    try:
        await set_operator_role(
            pool_of(request), one.name, role or None, arena=arena, actor=actor_of(request).name
        )
    except InputError as error:
        return await _page(request, arena, trouble=str(error), status=422)
    return redirect_with_notice("role", "arenas", arena, "operators")


async def _find(request: Request, operator: int, arena: str | None = None) -> OperatorRecord:
    known = await list_operators(pool_of(request), arena)
    for one in known:
        if one.operator == operator:
            return one
    raise NotFound(f"no operator {operator}, or it was removed; see the list of operators")


async def _invite(request: Request, arena: str | None, given: dict[str, str]) -> HTMLResponse:
    try:
        days = whole_number(given["days"].strip())
        if days is None or not 0 < days <= 3650:
            raise BadOption(f"days is {given['days'][:100]!r}; expected a number from 1 to 3650")
        terms = invitation_terms(given["invitee"].strip(), timedelta(days=days))
        code, made = await invite_operator(
            pool_of(request),
            terms,
            given["role"],
            arena=given["arena"] or None,
            actor=actor_of(request).name,
        )
    except (InputError, Conflict, NotFound) as error:
        shown = {name: value[:200] for name, value in given.items()}
        return await _page(request, arena, status=422, trouble=str(error), given=shown)
    link = f"{registry_of(request).settings.address().rstrip('/')}/claim/{code}"
    return await _page(request, arena, link=link, made=made)


async def _page(request: Request, arena: str | None, **values: Any) -> HTMLResponse:
    pool = pool_of(request)
    shown = {
        "arena": None if arena is None else await arena_of(request, arena),
        "operators": await list_operators(pool, arena),
        "invitations": await list_operator_invitations(pool, arena),
        "arenas": await list_arenas(pool) if arena is None else [],
        "roles": OPERATOR_ROLES,
        "meanings": ROLE_MEANINGS,
        "given": {"invitee": "", "role": "moderator", "arena": "", "days": str(DEFAULT_INVITATION_DAYS)},
        "link": None,
        "made": None,
        "active": "operators",
    }
    return operator_page(request, "operators.html", **(shown | values))


async def _one(request: Request, operator: int, **said: Any) -> HTMLResponse:
    return operator_page(
        request,
        "operator.html",
        active="operators",
        one=await _find(request, operator),
        sessions=await list_sessions(pool_of(request), operator),
        arenas=await list_arenas(pool_of(request)),
        roles=OPERATOR_ROLES,
        meanings=ROLE_MEANINGS,
        **said,
    )
