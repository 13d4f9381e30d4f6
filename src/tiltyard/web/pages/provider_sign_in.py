"""Signing in at the installation's identity provider, and out again.

Paths begin with the number of the shard, so that a proxy before several databases leads the browser back to the one that
it came from.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.accounts import greater_role
from tiltyard.arena.operators.operators import ExternalIdentity, check_role, sign_in_identity
from tiltyard.errors import IdentityFault, NotAllowed, NotFound
from tiltyard.identity.oidc_client import PersonIdentity
from tiltyard.settings.sign_in_settings import SignInSettings
from tiltyard.web.access.access import access_of, registry_of
from tiltyard.web.access.cookies import OPERATOR_COOKIE
from tiltyard.web.access.identities import Identities
from tiltyard.web.access.route_access import origin_of
from tiltyard.web.edge.logs import log_event
from tiltyard.web.pages import paths
from tiltyard.web.pages.layout import redirect_to, render_page
from tiltyard.wire.records import OperatorRole

router = APIRouter(prefix="/sign-in/{shard}", include_in_schema=False)

_NOT_STORED = {"Cache-Control": "no-store"}
Text = Annotated[str, Query()]


@router.get("")
async def sign_in_start(shard: str, request: Request, next: Text = "") -> Response:
    """Send the browser to the provider. It comes back to the page that was asked for."""
    identities = _identities(request, shard)
    provider, named = identities.provider, identities.gateway_identity(request)
    if named is not None:
        return await _go_on(request, named, paths.local(next))
    if provider is None:
        raise NotFound("no identity provider is configured; ask whoever runs this server")
    asked, cookie = identities.attempts.begin(paths.local(next), _redirect_uri(request))
    try:
        url = await provider.authorization_url(asked)
    except IdentityFault as error:
        return _failed(request, error, paths.local(next))
    return redirect_to(url, cookie=cookie)


@router.get("/callback")
async def sign_in_callback(
    shard: str,
    request: Request,
    code: Text = "",
    state: Text = "",
    error: Text = "",
    iss: Annotated[str | None, Query()] = None,
) -> Response:
    """The browser comes back from the provider: with a code, or because the person did not sign in."""
    identities = _identities(request, shard)
    if identities.provider is None:
        raise NotFound("no identity provider is configured; ask whoever runs this server")
    attempt = identities.attempts.find(request, state, _redirect_uri(request))
    if attempt is None:
        return _page(request, "expired", 400, "/")
    wanted = paths.local(attempt.wanted)
    if error:
        answer: Response = _page(request, "declined", 403, wanted)
    else:
        try:
            identity, cookie = await identities.sign_in(attempt.asked, code, iss)
            answer = await _go_on(request, identity, wanted)
            answer.headers.append("set-cookie", cookie)
        except IdentityFault as fault:
            answer = _failed(request, fault, wanted)
    answer.headers.append("set-cookie", identities.attempts.clear_header())
    return answer


@router.get("/account", response_class=HTMLResponse)
async def sign_in_account(shard: str, request: Request, out: Text = "") -> HTMLResponse:
    """Who is signed in with this browser, and the button to sign out."""
    identities = _identities(request, shard)
    person = await identities.person(request)
    provider = identities.provider
    return render_page(
        request,
        "entry/account.html",
        headers=_NOT_STORED,
        shard=shard,
        person=person,
        by_gateway=identities.gateway_identity(request) is not None,
        signed_out=bool(out) and person is None,
        elsewhere=await provider.sign_out_url() if provider is not None and out else None,
        can_sign_in=provider is not None,
    )


@router.post("/out")
async def sign_in_end(shard: str, request: Request) -> Response:
    """Sign out, in this browser."""
    cookie = await _identities(request, shard).sign_out(request)
    return redirect_to(paths.asked(paths.sign_in(shard, "account"), {"out": "yes"}), cookie=cookie)


async def _go_on(request: Request, identity: PersonIdentity, wanted: str) -> Response:
    """To the page that was asked for: as an operator too, if a group of the person has a role."""
    cookie = await _operator_cookie(request, identity)
    if cookie is None and (wanted == "/operator" or wanted.startswith("/operator/")):
        return _page(request, "no role", 403, wanted)
    return redirect_to(wanted, cookie=cookie)


async def _operator_cookie(request: Request, identity: PersonIdentity) -> str | None:
    """Give the person the roles of its groups, and take away all others; return the ``Set-Cookie`` header of the session.

    The session ends when the sign-in does: groups are known from it only.
    """
    access = access_of(request)
    settings = access.identities.settings
    if not settings.roles:
        return None
    life = timedelta(hours=settings.hours)
    known = ExternalIdentity(identity.issuer, identity.subject, identity.name or identity.subject)
    try:
        token = await sign_in_identity(
            registry_of(request).pool, known, _roles(settings, identity), origin_of(request), life=life
        )
    except NotAllowed:
        return None
    return access.cookies.header(OPERATOR_COOKIE, token, life)


def _roles(settings: SignInSettings, identity: PersonIdentity) -> dict[str | None, OperatorRole]:
    """The greatest role that the groups give in each arena, and for the installation."""
    found: dict[str | None, OperatorRole] = {}
    for one in settings.roles:
        if one.group in identity.groups:
            role = greater_role(check_role(one.role), found.get(one.arena))
            assert role is not None
            found[one.arena] = role
    return found


def _identities(request: Request, shard: str) -> Identities:
    """How people sign in; `NotFound` if nobody can, or the path is that of another shard."""
    identities = access_of(request).identities
    usable = identities.settings.by_provider or identities.settings.by_proxy
    if not usable or shard != str(registry_of(request).settings.shard):
        raise NotFound("nobody signs in here; ask whoever runs this server")
    return identities


def _redirect_uri(request: Request) -> str:
    """Where the provider sends the browser back to. Without a base_url, only addresses of this machine get here."""
    settings = registry_of(request).settings
    base = settings.base_url or f"{request.url.scheme}://{request.headers.get('host', '')}"
    return base.rstrip("/") + paths.sign_in(settings.shard, "callback")


def _failed(request: Request, fault: IdentityFault, wanted: str) -> Response:
    log_event("sign-in failed", problem=str(fault))
    trouble, status = ("unreachable", 503) if fault.unreachable else ("refused", 403)
    return _page(request, trouble, status, wanted, str(fault))


def _page(
    request: Request, trouble: str, status: int, wanted: str, detail: str | None = None
) -> HTMLResponse:
    shard = registry_of(request).settings.shard
    return render_page(
        request,
        "entry/sign_in_failed.html",
        status=status,
        headers=_NOT_STORED,
        trouble=trouble,
        detail=detail,
        again=paths.asked(paths.sign_in(shard), {"next": wanted}),
    )
