"""An operator's own account: its roles, its second factor, where it is signed in; and API tokens."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

import segno
from fastapi import Form, Path
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup

from tiltyard.arena.accounts import ROLE_MEANINGS, SCOPES
from tiltyard.arena.content.arenas import list_arenas
from tiltyard.arena.operators.operators import end_session, end_sessions, list_sessions
from tiltyard.arena.operators.second_factor import (
    begin_second_factor,
    confirm_second_factor,
    key_text,
    otpauth_link,
    read_second_factor,
    turn_off_second_factor,
)
from tiltyard.errors import Conflict, NotFound
from tiltyard.web.access.access import access_of, keys_of
from tiltyard.web.access.actors import Actor
from tiltyard.web.pages.operator.operator_access import (
    OnServer,
    OperatorVisit,
    operator_router,
    typed_number,
)
from tiltyard.wire.records import Plain

router = operator_router()

Number = Annotated[int, Path(ge=1, lt=2**63)]
Code = Annotated[str, Form()]


@router.get("/account")
async def account_page(visit: OnServer) -> HTMLResponse:
    """Who one is, and where one is signed in."""
    return await _page(visit)


@router.post("/account/second-factor")
async def begin_form(visit: OnServer) -> HTMLResponse:
    """Show the key for an authenticator app, and ask for its first code."""
    return await _key_page(visit)


@router.post("/account/second-factor/confirm")
async def confirm_form(visit: OnServer, code: Code = "") -> HTMLResponse:
    """Put the second factor in use. The recovery codes are shown on this page only."""
    visit.on_refusal(_key_page)
    codes = await confirm_second_factor(
        visit.pool, keys_of(visit.request), visit.session.operator, code, actor=visit.actor.name
    )
    return await _page(visit, codes=codes)


@router.post("/account/second-factor/off")
async def off_form(visit: OnServer, code: Code = "") -> Response:
    """Turn the second factor off, with a code of it."""
    visit.on_refusal(_page)
    own, access = visit.session, access_of(visit.request)
    async with access.actors.attempt_sign_in(visit.request):
        await turn_off_second_factor(visit.pool, access.keys, own, code, actor=visit.actor.name)
    return visit.done("factor-off", "account")


@router.post("/account/sessions/{session}/end")
async def end_form(session: Number, visit: OnServer) -> Response:
    """Sign out of one of one's sessions."""
    await end_session(visit.pool, visit.session.operator, session, actor=visit.actor.name)
    return visit.done("signed-out", "account")


@router.post("/account/sessions/end-others")
async def end_others_form(visit: OnServer) -> Response:
    """Sign out everywhere but here."""
    own = visit.session
    await end_sessions(visit.pool, own.operator, kept=own.session, actor=visit.actor.name)
    return visit.done("signed-out", "account")


async def _key_page(visit: OperatorVisit, **said: Any) -> HTMLResponse:
    own = visit.session
    try:
        key = await begin_second_factor(visit.pool, keys_of(visit.request), own.operator)
    except Conflict as error:
        return await _page(visit, trouble=str(error), status=409)
    text = key_text(key)
    link = otpauth_link(key, own.name, f"Tiltyard {visit.request.url.hostname or ''}".strip())
    return visit.page(
        "second_factor.html",
        active="account",
        key=" ".join(text[start : start + 4] for start in range(0, len(text), 4)),
        link=link,
        picture=draw_qr_code(link),
        **said,
    )


async def _page(visit: OperatorVisit, **values: Any) -> HTMLResponse:
    own = visit.session
    given: dict[str, Any] = {
        "sessions": await list_sessions(visit.pool, own.operator),
        "own": own,
        "factor": await read_second_factor(visit.pool, own.operator),
        "meanings": ROLE_MEANINGS,
        "codes": None,
    }
    return visit.page("account.html", "account", **(given | values))


#: Empty modules around the code, as ISO/IEC 18004 wants them.
_BORDER_COUNT = 4


def draw_qr_code(text: str) -> Markup:
    """The QR code of a text as an SVG element, black on white in every theme: some apps read no other."""
    code = segno.make(text, error="m", micro=False)
    drawn = code.svg_inline(
        border=_BORDER_COUNT, dark="#000", light="#fff", omitsize=True, svgclass="qr-code", lineclass=None
    )
    return Markup(drawn)  # noqa: S704 - it has numbers only


Token = Annotated[int, Path(ge=1, lt=2**31)]


@router.get("/tokens")
async def tokens_page(visit: OnServer) -> HTMLResponse:
    """All tokens, including revoked ones, without their secrets."""
    return await _tokens_page(visit)


@router.post("/tokens")
async def token_form(
    visit: OnServer,
    name: Annotated[Plain, Form()] = "",
    scopes: Annotated[list[str] | None, Form()] = None,
    arena: Annotated[Plain, Form()] = "",
    days: Annotated[str, Form()] = "",
) -> HTMLResponse:
    """Create a token. Its secret is shown on this page only."""
    visit.on_refusal(_tokens_page)
    life = timedelta(days=typed_number("days", days, most=3650)) if days.strip() else None
    if arena and visit.actor.grants.role_in(arena) is None:
        raise NotFound.arena(arena)
    token, made = await access_of(visit.request).accounts.make_token(
        visit.actor.name,
        name.strip(),
        scopes or [],
        arena=arena or None,
        life=life,
        operator=visit.actor.operator,
    )
    return await _tokens_page(visit, token=token, made=made.name)


@router.get("/tokens/{api_token}/revoke")
async def revoke_page(api_token: Token, visit: OnServer) -> HTMLResponse:
    """Confirm revoking a token."""
    tokens = await access_of(visit.request).accounts.list_tokens(_whose_tokens(visit.actor))
    one = next((each for each in tokens if each.api_token == api_token and not each.revoked_at), None)
    if one is None:
        raise NotFound(
            f"no such token: {api_token}; it may have been revoked already: see the list of tokens"
        )
    return visit.page("revoke.html", active="tokens", token=one)


@router.post("/tokens/{api_token}/revoke")
async def revoke_form(api_token: Token, visit: OnServer) -> Response:
    """Revoke a token."""
    actor = visit.actor
    await access_of(visit.request).accounts.revoke_token(actor.name, api_token, operator=_whose_tokens(actor))
    access_of(visit.request).forget()
    return visit.done("revoked", "tokens")


def _whose_tokens(actor: Actor) -> int | None:
    """The operator whose tokens this one may see and revoke; ``None`` for everybody's."""
    return None if actor.grants.allow("owner", None) else actor.operator


async def _tokens_page(
    visit: OperatorVisit, *, token: str | None = None, made: str | None = None, **said: Any
) -> HTMLResponse:
    actor = visit.actor
    tokens = await access_of(visit.request).accounts.list_tokens(_whose_tokens(actor))
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
