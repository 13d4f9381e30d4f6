"""The operator: claiming the house, signing in and out, tokens for programs."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from html import escape
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Path, Request, Response
from fastapi.responses import HTMLResponse

from tiltyard.errors import BadOption, NotAllowed
from tiltyard.store.accounts import SESSION_LIFE, ApiToken
from tiltyard.web.access import Access, Actor, Asker, access_of, needs
from tiltyard.web.cookies import OPERATOR_COOKIE, read_cookie
from tiltyard.web.crowds import address_of
from tiltyard.web.problems import problems
from tiltyard.web.schemas import ClaimIn, MeOut, NewTokenOut, SignInIn, TokenIn, TokenOut, TokensOut

__all__ = ["router"]

router = APIRouter(tags=["operator"])

Admin = Annotated[Actor, Depends(needs("admin"))]


@router.post("/api/v1/operator/claim", summary="Claim the house", responses=problems(401, 422, 429, 503))
async def claim(body: ClaimIn, request: Request, response: Response) -> MeOut:
    """Set the operator's name and password with a link that works once, and sign in."""
    return await _claimed(request, response, body.token, body.name, body.password)


@router.post("/api/v1/operator/sign-in", summary="Sign in", responses=problems(401, 422, 429, 503))
async def sign_in(body: SignInIn, request: Request, response: Response) -> MeOut:
    """Sign in with name and password; the answer sets a cookie."""
    return await _signed_in(request, response, body.name, body.password)


@router.post(
    "/api/v1/operator/sign-out",
    status_code=204,
    response_model=None,
    summary="Sign out",
    responses=problems(503),
)
async def sign_out(request: Request) -> Response:
    """End this sign-in. Whoever is not signed in is not, afterwards."""
    access = access_of(request)
    cookie = read_cookie(request, OPERATOR_COOKIE)
    token = None if cookie is None else access.cookies.unseal(OPERATOR_COOKIE, cookie)
    if token is not None:
        await access.accounts.sign_out(token)
        access.forget()
    answer = Response(status_code=204)
    answer.headers.append("set-cookie", access.cookies.clearing(OPERATOR_COOKIE))
    return answer


@router.get("/api/v1/me", summary="Who am I", responses=problems(401, 503))
async def me(actor: Asker) -> MeOut:
    """Who is asking, and what they may do."""
    if actor is None:
        raise NotAllowed("nobody is signed in; send a token, or sign in as the operator")
    return _me(actor)


@router.get(
    "/api/v1/tokens",
    summary="Tokens",
    responses=problems(401, 403, 503),
    dependencies=[Depends(needs("admin"))],
)
async def list_tokens(request: Request) -> TokensOut:
    """Every token there ever was, without the tokens themselves."""
    found = await access_of(request).accounts.list_tokens()
    return TokensOut(tokens=[TokenOut(**_fields(one)) for one in found])


@router.post(
    "/api/v1/tokens", status_code=201, summary="Make a token", responses=problems(401, 403, 404, 422, 503)
)
async def make_token(body: TokenIn, actor: Admin, request: Request) -> NewTokenOut:
    """A token for programs. It is shown once, in this answer."""
    life = None if body.days is None else timedelta(days=body.days)
    token, made = await access_of(request).accounts.make_token(
        actor.name, body.name, body.scopes, arena=body.arena, life=life
    )
    return NewTokenOut(token=token, **_fields(made))


@router.delete(
    "/api/v1/tokens/{api_token}",
    status_code=204,
    response_model=None,
    summary="Revoke a token",
    responses=problems(401, 403, 404, 503),
)
async def revoke_token(
    api_token: Annotated[int, Path(ge=1, lt=2**31)], actor: Admin, request: Request
) -> Response:
    """The token is worth nothing from now on; other web processes know within five seconds."""
    await access_of(request).accounts.revoke_token(actor.name, api_token)
    access_of(request).forget()
    return Response(status_code=204)


@router.get("/claim/{token}", response_class=HTMLResponse, include_in_schema=False)
async def claim_page(token: str, request: Request) -> HTMLResponse:
    """The page that the first operator link leads to."""
    if not await access_of(request).accounts.link_is_open(token):
        raise NotAllowed(
            "this link was used before or is older than an hour; make another: tiltyard token operator"
        )
    return _page(_FORM)


@router.post("/claim/{token}", response_class=HTMLResponse, include_in_schema=False)
async def claim_form(
    token: str, request: Request, name: Annotated[str, Form()], password: Annotated[str, Form()]
) -> HTMLResponse:
    """The same, filled in."""
    signed = Response()
    try:
        found = await _claimed(request, signed, token, name, password)
    except BadOption as error:
        return _page(f"<p role=alert>{escape(str(error))}</p>{_FORM}", 422)
    page = _page(f"<p>You are signed in as {escape(found.name.removeprefix('operator:'))}.</p>")
    page.headers.append("set-cookie", signed.headers["set-cookie"])
    return page


async def _claimed(request: Request, response: Response, token: str, name: str, password: str) -> MeOut:
    access = access_of(request)
    async with access.turnstile.passing(address_of(request)):
        await access.accounts.claim(token, name, password)
    access.forget()
    return await _signed_in(request, response, name, password)


async def _signed_in(request: Request, response: Response, name: str, password: str) -> MeOut:
    access = access_of(request)
    async with access.turnstile.passing(address_of(request)):
        token = await access.accounts.sign_in(name, password)
    response.headers.append("set-cookie", access.cookies.header(OPERATOR_COOKIE, token, SESSION_LIFE))
    return _me(Access.operator(name))


def _me(actor: Actor) -> MeOut:
    return MeOut(name=actor.name, scopes=sorted(actor.scopes), arena=actor.arena)  # type: ignore[arg-type]


def _fields(token: ApiToken) -> dict[str, Any]:
    return asdict(token) | {"scopes": list(token.scopes)}


def _page(body: str, status: int = 200) -> HTMLResponse:
    policy = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    return HTMLResponse(_PAGE.format(body=body), status, headers={"Content-Security-Policy": policy})


_PAGE = """<!doctype html>
<html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width">
<title>Tiltyard: the operator</title>
<style>body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 26rem; margin: 3rem auto; padding: 0 1rem }}
label, input, button {{ display: block; width: 100%; box-sizing: border-box; font: inherit; margin: .4rem 0 }}
</style><h1>The operator of this house</h1>
{body}
</html>
"""
_FORM = """<p>Choose a name and a password. This link works once.</p>
<form method=post><label>Name <input name=name required maxlength=100 autocomplete=username></label>
<label>Password, 12 characters or more
<input name=password type=password required minlength=12 maxlength=1024 autocomplete=new-password></label>
<button>Claim this house</button></form>"""
