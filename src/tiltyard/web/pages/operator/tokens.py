"""API tokens: create and revoke."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import Form, Path
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.accounts import SCOPES
from tiltyard.arena.content.arenas import list_arenas
from tiltyard.errors import BadOption, NotFound
from tiltyard.web.access.access import access_of
from tiltyard.web.pages.operator.operator_access import (
    OnServer,
    OperatorVisit,
    operator_router,
    typed_number,
)
from tiltyard.web.routes.operators import check_token_arena, whose_tokens
from tiltyard.wire.records import Plain

router = operator_router("/tokens")

Token = Annotated[int, Path(ge=1, lt=2**31)]


@router.get("", response_class=HTMLResponse)
async def tokens_page(visit: OnServer) -> HTMLResponse:
    """All tokens, including revoked ones, without their secrets."""
    return await _page(visit)


@router.post("", response_class=HTMLResponse)
async def token_form(
    visit: OnServer,
    name: Annotated[Plain, Form()] = "",
    scopes: Annotated[list[str] | None, Form()] = None,
    arena: Annotated[Plain, Form()] = "",
    days: Annotated[str, Form()] = "",
) -> HTMLResponse:
    """Create a token. Its secret is shown on this page only."""
    try:
        life = timedelta(days=typed_number("days", days, most=3650)) if days.strip() else None
        token, made = await access_of(visit.request).accounts.make_token(
            visit.actor.name,
            name.strip(),
            scopes or [],
            arena=check_token_arena(visit.actor, arena or None),
            life=life,
            operator=visit.actor.operator,
        )
    except (BadOption, NotFound) as error:
        return await _page(visit, trouble=str(error), status=422)
    return await _page(visit, token=token, made=made.name)


@router.get("/{api_token}/revoke", response_class=HTMLResponse)
async def revoke_page(api_token: Token, visit: OnServer) -> HTMLResponse:
    """Confirm revoking a token."""
    tokens = await access_of(visit.request).accounts.list_tokens(whose_tokens(visit.actor))
    one = next((each for each in tokens if each.api_token == api_token and not each.revoked_at), None)
    if one is None:
        raise NotFound(
            f"no such token: {api_token}; it may have been revoked already: see the list of tokens"
        )
    return visit.page("revoke.html", active="tokens", token=one)


@router.post("/{api_token}/revoke")
async def revoke_form(api_token: Token, visit: OnServer) -> Response:
    """Revoke a token."""
    actor = visit.actor
    await access_of(visit.request).accounts.revoke_token(actor.name, api_token, operator=whose_tokens(actor))
    access_of(visit.request).forget()
    return visit.done("revoked", "tokens")


async def _page(
    visit: OperatorVisit, *, token: str | None = None, made: str | None = None, **said: Any
) -> HTMLResponse:
    actor = visit.actor
    tokens = await access_of(visit.request).accounts.list_tokens(whose_tokens(actor))
    arenas = [one for one in await list_arenas(visit.pool) if actor.grants.role_in(one.name)]
    return visit.page(
        "tokens.html",
        active="tokens",
        tokens=tokens[::-1],
        scopes=SCOPES,
        arenas=arenas,
        token=token,
        made=made,
        **said,
    )
