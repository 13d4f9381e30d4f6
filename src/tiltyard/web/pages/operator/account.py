"""An operator's own account: its roles, its second factor, and where it is signed in."""

from __future__ import annotations

from typing import Annotated, Any

import segno
from fastapi import Form, Path
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup

from tiltyard.arena.accounts import ROLE_MEANINGS
from tiltyard.arena.operators.operators import end_session, end_sessions, list_sessions
from tiltyard.arena.operators.second_factor import (
    begin_second_factor,
    confirm_second_factor,
    key_text,
    otpauth_link,
    read_second_factor,
    turn_off_second_factor,
)
from tiltyard.errors import BadOption, CodeNeeded, Conflict
from tiltyard.web.access.access import access_of, keys_of
from tiltyard.web.pages.operator.operator_access import (
    OnServer,
    OperatorVisit,
    operator_router,
    trouble_of,
)

router = operator_router("/account")

Number = Annotated[int, Path(ge=1, lt=2**63)]
Code = Annotated[str, Form()]


@router.get("", response_class=HTMLResponse)
async def account_page(visit: OnServer) -> HTMLResponse:
    """Who one is, and where one is signed in."""
    return await _page(visit)


@router.post("/second-factor", response_class=HTMLResponse)
async def begin_form(visit: OnServer) -> HTMLResponse:
    """Show the key for an authenticator app, and ask for its first code."""
    return await _key_page(visit)


@router.post("/second-factor/confirm", response_class=HTMLResponse)
async def confirm_form(visit: OnServer, code: Code = "") -> HTMLResponse:
    """Put the second factor in use. The recovery codes are shown on this page only."""
    actor = visit.actor
    try:
        codes = await confirm_second_factor(
            visit.pool, keys_of(visit.request), visit.session.operator, code, actor=actor.name
        )
    except BadOption as error:
        return await _key_page(visit, **trouble_of(error))
    except Conflict as error:
        return await _page(visit, **trouble_of(error))
    return await _page(visit, codes=codes)


@router.post("/second-factor/off", response_class=HTMLResponse)
async def off_form(visit: OnServer, code: Code = "") -> Response:
    """Turn the second factor off, with a code of it."""
    own, access = visit.session, access_of(visit.request)
    try:
        async with access.actors.attempt_sign_in(visit.request):
            await turn_off_second_factor(visit.pool, access.keys, own, code, actor=visit.actor.name)
    except CodeNeeded as error:
        return await _page(visit, trouble=str(error), status=422)
    return visit.done("factor-off", "account")


@router.post("/sessions/{session}/end")
async def end_form(session: Number, visit: OnServer) -> Response:
    """Sign out of one of one's sessions."""
    await end_session(visit.pool, visit.session.operator, session, actor=visit.actor.name)
    return visit.done("signed-out", "account")


@router.post("/sessions/end-others")
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
