"""How people come in: by an invitation link, with a passcode, or signed in at the installation's identity provider.

Opening a link changes nothing, because mail programs and chats open links too; pressing the button uses it. Paths of
signing in begin with the number of the shard, so that a proxy before several databases leads the browser back to the one
that it came from."""

from __future__ import annotations

import secrets
from dataclasses import replace
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.accounts import greater_role
from tiltyard.arena.operators.invitations import (
    InvitationOffer,
    LinkTrouble,
    find_invitation,
    find_passcode,
    use_invitation,
)
from tiltyard.arena.operators.operators import ExternalIdentity, check_role, sign_in_identity
from tiltyard.arena.operators.panels import PanelRater, find_rater_by_invitation
from tiltyard.errors import IdentityFault, NotAdmitted, NotAllowed, NotFound
from tiltyard.foundation.telemetry import SESSIONS
from tiltyard.identity.oidc_client import PersonIdentity
from tiltyard.settings.serving_settings import SignInSettings
from tiltyard.web.access.access import access_of, registry_of
from tiltyard.web.access.cookies import OPERATOR_COOKIE
from tiltyard.web.access.identities import Identities
from tiltyard.web.access.rate_limits import client_address
from tiltyard.web.access.route_access import ReadableArena, boards_of, origin_of
from tiltyard.web.edge.logs import log_event
from tiltyard.web.pages import paths
from tiltyard.web.pages.layout import private_page, redirect_to, render_page
from tiltyard.wire.records import OperatorRole

router = APIRouter(include_in_schema=False)

#: A random number of each page with the button, so that pressing it twice is one use.
_VISIT_CHARACTERS = 32
_NOT_STORED = {"Cache-Control": "no-store"}


@router.get("/join/{code}")
async def join_page(code: str, request: Request) -> HTMLResponse:
    """What the arena of an invitation is, and the button that uses the invitation."""
    try:
        offer = await find_invitation(registry_of(request).pool, code)
    except NotAdmitted:
        return _refuse(request, None)
    rater = await find_rater_by_invitation(registry_of(request).pool, offer.invitation)
    inside = await _is_inside(request, offer, rater)
    if offer.trouble is not None and not inside:
        return _refuse(request, offer.trouble)
    return render_page(
        request,
        "entry/join.html",
        headers=_NOT_STORED,
        code=code,
        title=offer.arena.title,
        is_live=offer.arena.settings.is_live,
        single=offer.single,
        inside=inside,
        rater=None if rater is None else rater.name,
        visit=secrets.token_hex(_VISIT_CHARACTERS // 2),
    )


@router.post("/join/{code}")
async def join_form(code: str, request: Request, visit: Annotated[str, Form()] = "") -> Response:
    """Come in: use the invitation once, unless this browser is in already."""
    access, pool = access_of(request), registry_of(request).pool
    offer: InvitationOffer | None = None
    try:
        async with access.entry_throttle.sign_in_attempt(client_address(request)):
            offer = await find_invitation(pool, code)
            rater = await find_rater_by_invitation(pool, offer.invitation)
            if await _is_inside(request, offer, rater):
                return redirect_to(paths.vote(offer.arena.name))
            offer = offer if rater is None else replace(offer, session=rater.session)
            cookie = await _come_in(request, offer, visit if len(visit) == _VISIT_CHARACTERS else None)
    except NotAdmitted:
        return _refuse(request, None if offer is None else offer.trouble or "used up")
    return redirect_to(paths.vote(offer.arena.name), cookie=cookie)


@router.get("/arenas/{arena}/enter")
async def enter_page(arena: ReadableArena) -> Response:
    """The voting page for those who are in; all others are asked for the link or the passcode."""
    return redirect_to(paths.vote(arena.name))


@router.post("/arenas/{arena}/enter")
async def enter_form(
    arena: str, request: Request, passcode: Annotated[str, Form()] = "", next: Annotated[str, Form()] = ""
) -> Response:
    """Come in with the passcode, and go on to the page that was asked for."""
    access, found = access_of(request), await boards_of(request).arena(arena)
    if found.settings.hidden:
        raise NotFound.arena(arena)
    if found.settings.entry != "passcode":
        return redirect_to(paths.vote(arena))
    wanted = paths.local(next, paths.vote(arena))
    if await access.entry.admit(request, found.arena, found.settings):
        return redirect_to(wanted)
    try:
        async with access.entry_throttle.sign_in_attempt(client_address(request)):
            offer = await find_passcode(registry_of(request).pool, found, passcode)
            cookie = await _come_in(request, offer)
    except NotAdmitted:
        return private_page(request, arena, "passcode-required", wanted, wrong=True)
    return redirect_to(wanted, cookie=cookie)


async def _come_in(request: Request, offer: InvitationOffer, visit: str | None = None) -> str:
    """Use a link or the passcode, and return the cookie of whoever came in; `Busy` if too many do."""
    access, arena = access_of(request), offer.arena
    if offer.trouble is None:
        alone = offer.single or offer.session is not None
        await access.limits.admit_session(request, arena, invited=alone)
    pool, origin = registry_of(request).pool, access.gate.origin(request)
    grant = await use_invitation(pool, access.keys, offer, visit, origin)
    SESSIONS.record()
    return access.entry.cookie(arena.arena, grant)


async def _is_inside(request: Request, offer: InvitationOffer, rater: PanelRater | None) -> bool:
    """Whether this browser may come in without the invitation: it has been in, or the arena is open and has no gate.

    A rater of a panel is inside as this rater only.
    """
    arena, access = offer.arena, access_of(request)
    voter = await access.entry.admitted(request, arena.arena, arena.settings)
    if rater is not None:
        return voter is not None and voter.session == rater.session
    return voter is not None or (arena.settings.public and not arena.settings.is_gated)


def _refuse(request: Request, trouble: LinkTrouble | None) -> HTMLResponse:
    """The page for a link that does not let in; without a trouble, there is no such link."""
    return render_page(request, "entry/refused.html", status=403, headers=_NOT_STORED, trouble=trouble)


Text = Annotated[str, Query()]


@router.get("/sign-in/{shard}")
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


@router.get("/sign-in/{shard}/callback")
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


@router.get("/sign-in/{shard}/account")
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


@router.post("/sign-in/{shard}/out")
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
