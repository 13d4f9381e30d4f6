"""API routes for the operator account and tokens."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response

from tiltyard.arena.accounts import OPERATOR_SESSION_LIFETIME
from tiltyard.errors import NotAllowed
from tiltyard.web.access import Access, Actor, CurrentActor, access_of, require_scope
from tiltyard.web.cookies import OPERATOR_COOKIE, read_cookie
from tiltyard.web.problem_details import document_problems
from tiltyard.web.rate_limits import client_address
from tiltyard.wire.operators import ClaimRequest, Me, NewToken, SignInRequest, TokenList, TokenRequest

__all__ = ["claim_operator", "end_sign_in", "router", "sign_in_operator"]

router = APIRouter(tags=["operator"])

Admin = Annotated[Actor, Depends(require_scope("admin"))]


@router.post(
    "/api/v1/operator/claim",
    summary="Create the operator account",
    responses=document_problems(401, 422, 429, 503),
)
async def claim(body: ClaimRequest, request: Request, response: Response) -> Me:
    """Set the operator's name and password with a link that works once, and sign in."""
    return await claim_operator(request, response, body.token, body.name, body.password)


@router.post("/api/v1/operator/sign-in", summary="Sign in", responses=document_problems(401, 422, 429, 503))
async def sign_in(body: SignInRequest, request: Request, response: Response) -> Me:
    """Sign in with name and password; the response sets a cookie."""
    return await sign_in_operator(request, response, body.name, body.password)


@router.post(
    "/api/v1/operator/sign-out",
    status_code=204,
    response_model=None,
    summary="Sign out",
    responses=document_problems(503),
)
async def sign_out(request: Request) -> Response:
    """Sign out. It succeeds even if nobody is signed in."""
    await end_sign_in(request)
    answer = Response(status_code=204)
    answer.headers.append("set-cookie", access_of(request).cookies.clear_header(OPERATOR_COOKIE))
    return answer


@router.get("/api/v1/me", summary="Who am I", responses=document_problems(401, 503))
async def me(actor: CurrentActor) -> Me:
    """The current identity and its scopes."""
    if actor is None:
        raise NotAllowed("not signed in; send a token, or sign in as the operator")
    return _me(actor)


@router.get(
    "/api/v1/tokens",
    summary="Tokens",
    responses=document_problems(401, 403, 503),
    dependencies=[Depends(require_scope("admin"))],
)
async def list_tokens(request: Request) -> TokenList:
    """All tokens, including revoked ones, without their secrets."""
    return TokenList(await access_of(request).accounts.list_tokens())


@router.post(
    "/api/v1/tokens",
    status_code=201,
    summary="Create a token",
    responses=document_problems(401, 403, 404, 422, 503),
)
async def make_token(body: TokenRequest, actor: Admin, request: Request) -> NewToken:
    """Create an API token. Its secret is shown only in this response."""
    life = None if body.days is None else timedelta(days=body.days)
    token, made = await access_of(request).accounts.make_token(
        actor.name, body.name, body.scopes, arena=body.arena, life=life
    )
    return NewToken(
        api_token=made.api_token,
        name=made.name,
        scopes=made.scopes,
        arena=made.arena,
        created_at=made.created_at,
        expires_at=made.expires_at,
        revoked_at=made.revoked_at,
        token=token,
    )


@router.delete(
    "/api/v1/tokens/{api_token}",
    status_code=204,
    response_model=None,
    summary="Revoke a token",
    responses=document_problems(401, 403, 404, 503),
)
async def revoke_token(
    api_token: Annotated[int, Path(ge=1, lt=2**31)], actor: Admin, request: Request
) -> Response:
    """Revoke a token. Other web processes notice within five seconds."""
    await access_of(request).accounts.revoke_token(actor.name, api_token)
    access_of(request).forget()
    return Response(status_code=204)


async def end_sign_in(request: Request) -> None:
    """End the operator session of a request, if there is one."""
    access = access_of(request)
    cookie = read_cookie(request, OPERATOR_COOKIE)
    token = None if cookie is None else access.cookies.unseal(OPERATOR_COOKIE, cookie)
    if token is not None:
        await access.accounts.sign_out(token)
        access.forget()


async def claim_operator(request: Request, response: Response, token: str, name: str, password: str) -> Me:
    """Create the operator account and sign in; the response sets a cookie."""
    access = access_of(request)
    async with access.sign_in_throttle.sign_in_attempt(client_address(request)):
        await access.accounts.claim(token, name, password)
    access.forget()
    return await sign_in_operator(request, response, name, password)


async def sign_in_operator(request: Request, response: Response, name: str, password: str) -> Me:
    """Sign the operator in; the response sets a cookie."""
    access = access_of(request)
    async with access.sign_in_throttle.sign_in_attempt(client_address(request)):
        token = await access.accounts.sign_in(name, password)
    response.headers.append(
        "set-cookie", access.cookies.header(OPERATOR_COOKIE, token, OPERATOR_SESSION_LIFETIME)
    )
    return _me(Access.operator(name))


def _me(actor: Actor) -> Me:
    return Me(name=actor.name, scopes=tuple(sorted(actor.scopes)), arena=actor.arena)
