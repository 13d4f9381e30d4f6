"""Sign-in, sign-out, and the link that creates the operator account."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import HTMLResponse

from tiltyard.errors import BadOption, Busy, NotAllowed
from tiltyard.web.access import access_of
from tiltyard.web.cookies import OPERATOR_COOKIE, read_cookie
from tiltyard.web.pages import paths
from tiltyard.web.pages.layout import redirect_to, render_page
from tiltyard.web.routes.operators import claim_operator, end_sign_in, sign_in_operator

__all__ = ["router"]

router = APIRouter(include_in_schema=False)

HOME = "/operator"
#: Longer names and passwords are never valid.
_MAX_NAME_CHARACTERS, _MAX_PASSWORD_CHARACTERS = 100, 1024


@dataclass(frozen=True, slots=True)
class _Visitor:
    """The visitor of the sign-in page."""

    #: The operator's name, if signed in.
    known: str | None = None
    #: Whether there is a cookie whose session has expired or was revoked.
    lapsed: bool = False
    #: Whether the operator account exists.
    claimed_before: bool = True


_UNKNOWN_VISITOR = _Visitor()


@router.get("/operator/sign-in", response_class=HTMLResponse)
async def sign_in_page(request: Request, next: str = HOME) -> HTMLResponse:
    """The sign-in form; an operator who is signed in already can continue."""
    access = access_of(request)
    known = None if "authorization" in request.headers else await access.actor(request)
    visitor = _Visitor(
        known=None if known is None else known.name.removeprefix("operator:"),
        lapsed=known is None and read_cookie(request, OPERATOR_COOKIE) is not None,
        claimed_before=await access.accounts.has_operator(),
    )
    return _form(request, paths.local(next, HOME), visitor)


@router.post("/operator/sign-in", response_class=HTMLResponse)
async def sign_in_form(
    request: Request,
    name: Annotated[str, Form()] = "",
    password: Annotated[str, Form()] = "",
    next: Annotated[str, Form()] = HOME,
) -> Response:
    """Sign in; errors are shown on the same page."""
    wanted, signed = paths.local(next, HOME), Response()
    try:
        await sign_in_operator(request, signed, *_tried(name, password))
    except NotAllowed as error:
        return _form(request, wanted, name=name[:_MAX_NAME_CHARACTERS], trouble=str(error), status=401)
    except Busy as error:
        return _form(request, wanted, name=name[:_MAX_NAME_CHARACTERS], trouble=str(error), status=429)
    return redirect_to(wanted, cookie=signed.headers["set-cookie"])


@router.post("/operator/sign-out")
async def sign_out_form(request: Request) -> Response:
    """Sign out."""
    await end_sign_in(request)
    return redirect_to("/", cookie=access_of(request).cookies.clear_header(OPERATOR_COOKIE))


@router.get("/claim/{token}", response_class=HTMLResponse)
async def claim_page(token: str, request: Request) -> HTMLResponse:
    """The form that creates the operator account."""
    if not await access_of(request).accounts.link_is_open(token):
        raise NotAllowed(
            "this link has been used or is more than an hour old; create another: tiltyard token operator"
        )
    return _claim(request)


@router.post("/claim/{token}", response_class=HTMLResponse)
async def claim_form(
    token: str, request: Request, name: Annotated[str, Form()], password: Annotated[str, Form()]
) -> HTMLResponse:
    """Create the operator account."""
    signed = Response()
    try:
        found = await claim_operator(request, signed, token, *_typed(name, password))
    except BadOption as error:
        return _claim(request, trouble=str(error), name=name[:_MAX_NAME_CHARACTERS], status=422)
    made = _claim(request, claimed_by=found.name.removeprefix("operator:"))
    made.headers.append("set-cookie", signed.headers["set-cookie"])
    return made


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
    )


def _claim(
    request: Request,
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
        claimed_by=claimed_by,
        here="/operator",
    )
