"""API routes for operators' accounts and tokens."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response

from tiltyard.arena.accounts import OPERATOR_SESSION_LIFETIME, SCOPE_ROLES, SCOPES, includes_role
from tiltyard.arena.operators.second_factor import finish_sign_in
from tiltyard.errors import CodeNeeded, NotAllowed, NotFound
from tiltyard.web.access.access import access_of, registry_of
from tiltyard.web.access.actors import Actor, operator_actor
from tiltyard.web.access.cookies import OPERATOR_COOKIE
from tiltyard.web.access.route_access import CurrentActor, ScopeCheck, origin_of
from tiltyard.web.edge.problem_details import document_problems
from tiltyard.wire.operators import ClaimRequest, Me, NewToken, SignInRequest, TokenList, TokenRequest

router = APIRouter(tags=["operator"])

Admin = Annotated[Actor, Depends(ScopeCheck("admin"))]


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
    """Sign in with name and password, and a code if there is a second factor; the response sets a cookie."""
    return await sign_in_operator(request, response, body.name, body.password, body.code)


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
)
async def list_tokens(actor: Admin, request: Request) -> TokenList:
    """All tokens for owners of the installation, else one's own; including revoked ones, without their secrets."""
    return TokenList(await access_of(request).accounts.list_tokens(whose_tokens(actor)))


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
        actor.name,
        body.name,
        body.scopes,
        arena=check_token_arena(actor, body.arena),
        life=life,
        operator=actor.operator,
    )
    return NewToken(**asdict(made), token=token)


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
    await access_of(request).accounts.revoke_token(actor.name, api_token, operator=whose_tokens(actor))
    access_of(request).forget()
    return Response(status_code=204)


def whose_tokens(actor: Actor) -> int | None:
    """The operator whose tokens this actor may see and revoke; ``None`` for everybody's."""
    return None if actor.grants.allow("owner", None) else actor.operator


def check_token_arena(actor: Actor, arena: str | None) -> str | None:
    """The arena that a token is for; `NotFound` if its maker has no role there."""
    if arena is not None and actor.grants.role_in(arena) is None:
        raise NotFound.arena(arena)
    return arena


async def end_sign_in(request: Request) -> None:
    """End the operator session of a request, if there is one."""
    access = access_of(request)
    token = access.actors.operator_token(request)
    if token is not None:
        await access.accounts.sign_out(token)
        access.forget()


async def claim_operator(request: Request, response: Response, token: str, name: str, password: str) -> Me:
    """Use an operator's link and sign in; the response sets a cookie."""
    access = access_of(request)
    async with access.actors.attempt_sign_in(request):
        name = await access.accounts.claim(token, name, password)
    access.forget()
    return await sign_in_operator(request, response, name, password)


async def sign_in_operator(
    request: Request, response: Response, name: str, password: str, code: str | None = None
) -> Me:
    """Sign an operator in; the response sets a cookie.

    `CodeNeeded` if a code is needed and not given: the cookie is that of a session that waits for it.
    """
    access = access_of(request)
    async with access.actors.attempt_sign_in(request):
        token = await access.accounts.sign_in(name, password, origin_of(request))
    session = await access.accounts.signed_in(token)
    if session is None and code is not None:
        return await send_code(request, response, token, code)
    _set_cookie(request, response, token)
    if session is None:
        raise CodeNeeded("this operator has a second factor; a code of it is needed")
    return _me(operator_actor(session))


async def send_code(request: Request, response: Response, token: str, code: str) -> Me:
    """Sign in with a code of the second factor, after the password; the response sets a new cookie."""
    access, pool = access_of(request), registry_of(request).pool
    async with access.actors.attempt_sign_in(request):
        signed = await finish_sign_in(pool, access.keys, token, code, origin_of(request))
    session = await access.accounts.signed_in(signed)
    if session is None:
        raise NotAllowed("this operator was removed; ask an owner")
    _set_cookie(request, response, signed)
    return _me(operator_actor(session))


def _set_cookie(request: Request, response: Response, token: str) -> None:
    cookie = access_of(request).cookies.header(OPERATOR_COOKIE, token, OPERATOR_SESSION_LIFETIME)
    response.headers.append("set-cookie", cookie)


def _me(actor: Actor) -> Me:
    greatest = actor.grants.greatest
    scopes = sorted(
        one for one in SCOPES if one in actor.scopes and includes_role(greatest, SCOPE_ROLES[one])
    )
    return Me(name=actor.name, scopes=tuple(scopes), arena=actor.arena)
