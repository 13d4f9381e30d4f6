"""Sign-in with password and code, sign-out, and links that make operators or set their passwords."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import HTMLResponse

from tiltyard.arena.accounts import OPERATOR_SESSION_LIFETIME, ROLE_MEANINGS, LinkPurpose
from tiltyard.arena.operators.second_factor import finish_sign_in
from tiltyard.errors import BadOption, Busy, CodeNeeded, NotAllowed
from tiltyard.web.access.access import access_of, registry_of
from tiltyard.web.access.cookies import OPERATOR_COOKIE
from tiltyard.web.access.route_access import origin_of
from tiltyard.web.pages import paths
from tiltyard.web.pages.layout import redirect_to, render_page

router = APIRouter(include_in_schema=False)

HOME = "/operator"
CODE = "/operator/sign-in/code"
#: Longer names and passwords are never valid.
_MAX_NAME_CHARACTERS, _MAX_PASSWORD_CHARACTERS = 100, 1024


@dataclass(frozen=True, slots=True)
class _Visitor:
    #: The operator's name, if signed in.
    known: str | None = None
    #: Whether there is a cookie whose session has expired or was revoked.
    lapsed: bool = False
    #: Whether the operator account exists.
    claimed_before: bool = True


_UNKNOWN_VISITOR = _Visitor()


@router.get("/operator/sign-in")
async def sign_in_page(request: Request, next: str = HOME) -> HTMLResponse:
    """The sign-in form; an operator who is signed in already can continue."""
    access = access_of(request)
    known = None if "authorization" in request.headers else await access.actors.find(request)
    visitor = _Visitor(
        known=None if known is None else known.name.removeprefix("operator:"),
        lapsed=known is None and access_of(request).cookies.read(request, OPERATOR_COOKIE) is not None,
        claimed_before=await access.accounts.has_operator(),
    )
    return _form(request, paths.local(next, HOME), visitor)


@router.post("/operator/sign-in")
async def sign_in_form(
    request: Request,
    name: Annotated[str, Form()] = "",
    password: Annotated[str, Form()] = "",
    next: Annotated[str, Form()] = HOME,
) -> Response:
    """Sign in; errors are shown on the same page."""
    wanted = paths.local(next, HOME)
    try:
        cookie, needs_code = await _sign_in(request, *_tried(name, password))
    except (NotAllowed, Busy) as error:
        return _form(request, wanted, name=name[:_MAX_NAME_CHARACTERS], **_trouble(error))
    return redirect_to(paths.asked(CODE, {"next": wanted}) if needs_code else wanted, cookie=cookie)


@router.get("/operator/sign-in/code")
async def code_page(request: Request, next: str = HOME) -> HTMLResponse:
    """The form for a code of the second factor, after the password."""
    return _code(request, paths.local(next, HOME))


@router.post("/operator/sign-in/code")
async def code_form(
    request: Request, code: Annotated[str, Form()] = "", next: Annotated[str, Form()] = HOME
) -> Response:
    """Sign in with the code; errors are shown on the same page, or lead back to the password."""
    wanted, access = paths.local(next, HOME), access_of(request)
    token = access.actors.operator_token(request)
    if token is None:
        return redirect_to(paths.asked("/operator/sign-in", {"next": wanted}))
    pool, origin = registry_of(request).pool, origin_of(request)
    try:
        async with access.actors.attempt_sign_in(request):
            signed = await finish_sign_in(pool, access.keys, token, code, origin)
    except (CodeNeeded, Busy) as error:
        return _code(request, wanted, **_trouble(error))
    except NotAllowed as error:
        return _form(request, wanted, **_trouble(error))
    return redirect_to(wanted, cookie=_cookie(request, signed))


@router.post("/operator/sign-out")
async def sign_out_form(request: Request) -> Response:
    """Sign out."""
    access = access_of(request)
    token = access.actors.operator_token(request)
    if token is not None:
        await access.accounts.sign_out(token)
        access.forget()
    return redirect_to("/", cookie=access.cookies.clear_header(OPERATOR_COOKIE))


@router.get("/claim/{token}")
async def claim_page(token: str, request: Request) -> HTMLResponse:
    """The form of a link that makes an operator or sets a password."""
    purpose = await access_of(request).accounts.link_purpose(token)
    if purpose is None:
        raise NotAllowed(
            "this link has been used or revoked, or has expired; ask whoever sent it for another, or create one:"
            " tiltyard arena token operator"
        )
    return _claim(request, purpose)


@router.post("/claim/{token}")
async def claim_form(
    token: str, request: Request, password: Annotated[str, Form()], name: Annotated[str, Form()] = ""
) -> Response:
    """Make the operator, or set the password."""
    access = access_of(request)
    try:
        name, password = _typed(name, password)
        async with access.actors.attempt_sign_in(request):
            claimed_by = await access.accounts.claim(token, name, password)
    except BadOption as error:
        purpose = await access.accounts.link_purpose(token) or LinkPurpose()
        typed = name[:_MAX_NAME_CHARACTERS]
        return _claim(request, purpose, trouble=str(error), name=typed, status=422)
    access.forget()
    cookie, needs_code = await _sign_in(request, claimed_by, password)
    if needs_code:
        return redirect_to(CODE, cookie=cookie)
    made = _claim(request, LinkPurpose(), claimed_by=claimed_by)
    made.headers.append("set-cookie", cookie)
    return made


async def _sign_in(request: Request, name: str, password: str) -> tuple[str, bool]:
    """Sign an operator in; return the header of the cookie, and whether its session waits for a code."""
    access = access_of(request)
    async with access.actors.attempt_sign_in(request):
        token = await access.accounts.sign_in(name, password, origin_of(request))
    return _cookie(request, token), await access.accounts.signed_in(token) is None


def _cookie(request: Request, token: str) -> str:
    return access_of(request).cookies.header(OPERATOR_COOKIE, token, OPERATOR_SESSION_LIFETIME)


def _trouble(error: NotAllowed | Busy) -> dict[str, Any]:
    return {"trouble": str(error), "status": 429 if isinstance(error, Busy) else 401}


def _typed(name: str, password: str) -> tuple[str, str]:
    """Reject a name or password that the sign-in form would not accept."""
    if "\0" in name + password:
        raise BadOption("the name or password contains a null character; choose another")
    return name, password


def _tried(name: str, password: str) -> tuple[str, str]:
    """Reject input that cannot be valid: too long, or with a null character."""
    if (
        len(name) > _MAX_NAME_CHARACTERS
        or len(password) > _MAX_PASSWORD_CHARACTERS
        or "\0" in name + password
    ):
        raise NotAllowed("name or password is wrong")
    return name, password


def _form(
    request: Request,
    wanted: str,
    visitor: _Visitor = _UNKNOWN_VISITOR,
    *,
    name: str = "",
    trouble: str | None = None,
    status: int = 200,
) -> HTMLResponse:
    return render_page(
        request,
        "operator/sign_in.html",
        status=status,
        next=wanted,
        name=name,
        trouble=trouble,
        known=visitor.known,
        lapsed=visitor.lapsed,
        claimed_before=visitor.claimed_before,
        organisation=_organisation(request, wanted),
    )


def _organisation(request: Request, wanted: str) -> str | None:
    """Where operators sign in through their organisation; ``None`` if groups have no roles."""
    identities = access_of(request).identities
    if identities is None or not identities.settings.roles:
        return None
    if identities.provider is None and identities.gateway_identity(request) is None:
        return None
    return paths.asked(paths.sign_in(registry_of(request).settings.shard), {"next": wanted})


def _code(request: Request, wanted: str, *, trouble: str | None = None, status: int = 200) -> HTMLResponse:
    return render_page(
        request, "operator/sign_in_code.html", status=status, next=wanted, trouble=trouble, here="/operator"
    )


def _claim(
    request: Request,
    purpose: LinkPurpose,
    *,
    trouble: str | None = None,
    name: str = "",
    claimed_by: str | None = None,
    status: int = 200,
) -> HTMLResponse:
    return render_page(
        request,
        "operator/claim.html",
        status=status,
        trouble=trouble,
        name=name,
        purpose=purpose,
        meanings=ROLE_MEANINGS,
        claimed_by=claimed_by,
        here="/operator",
    )
