"""Who is signed in: a person by the cookie of a sign-in, or by the headers of a gateway."""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
import secrets
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from tiltyard.arena.operators.people import People, Person
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.errors import IdentityFault
from tiltyard.foundation.caches import BoundedQueue
from tiltyard.foundation.telemetry import REFUSED_IDENTITY_HEADERS
from tiltyard.identity.oidc_client import (
    PROXY_ISSUER,
    CodeRequest,
    OidcClient,
    PersonIdentity,
    check_groups,
    check_subject,
    clean_name,
)
from tiltyard.settings.serving_settings import SignInSettings
from tiltyard.web.access.cookies import Cookies
from tiltyard.web.access.rate_limits import is_inside

#: Sign-ins that one process completes at the same time, and that wait for it. Each waits for the provider.
_CONCURRENT_SIGN_IN_LIMIT = 16
_WAITING_SIGN_IN_LIMIT = 500


class Identities:
    """The people who are signed in to one process, and how they sign in and out."""

    def __init__(
        self, people: People, keys: SecretKeys, cookies: Cookies, settings: SignInSettings, shard: int
    ) -> None:
        self.settings = settings
        self.provider = OidcClient(settings) if settings.by_provider else None
        self.attempts = SignInAttempts(keys, cookies, shard)
        self._people = people
        self._cookies = cookies
        self._cookie = f"tiltyard_person_{shard}"
        self._gateway = GatewayHeaders(settings)
        self._queue = BoundedQueue(_CONCURRENT_SIGN_IN_LIMIT, _WAITING_SIGN_IN_LIMIT, "the identity provider")

    def forget(self) -> None:
        """Clear the caches, because something was revoked."""
        self._people.forget()

    async def person(self, request: HTTPConnection) -> Person | None:
        """The person who is signed in, if any. What a gateway says comes first."""
        named = self._gateway.identity(request)
        if named is not None:
            return await self._people.meet(named)
        token = self._cookies.token(request, self._cookie)
        return None if token is None else await self._people.signed_in(token)

    def gateway_identity(self, request: HTTPConnection) -> PersonIdentity | None:
        """What a gateway says of whom this request comes from."""
        return self._gateway.identity(request)

    async def sign_in(self, asked: CodeRequest, code: str, issuer: str | None) -> tuple[PersonIdentity, str]:
        """Sign in with the code that came from the provider; return who it is and the ``Set-Cookie`` header."""
        assert self.provider is not None
        async with self._queue.acquire_slot():
            identity = await self.provider.sign_in(asked, code, issuer)
        life = timedelta(hours=self.settings.hours)
        token, _ = await self._people.start_sign_in(identity, asked.state, life)
        return identity, self._cookies.header(self._cookie, token, life)

    async def sign_out(self, request: HTTPConnection) -> str:
        """End the sign-in of this browser; return the ``Set-Cookie`` header."""
        token = self._cookies.token(request, self._cookie)
        if token is not None:
            await self._people.sign_out(token)
        return self._cookies.clear_header(self._cookie)


#: Keys in a request's scope: the address at the other end of the socket, and the identity that was read from headers.
PEER_KEY: Final = "tiltyard.peer"
_IDENTITY_KEY: Final = "tiltyard.gateway_identity"


class PeerAddressMiddleware:
    """Keeps the address at the other end of the socket, before X-Forwarded-For replaces it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[PEER_KEY] = scope.get("client")
        await self._app(scope, receive, send)


class GatewayHeaders:
    """Reads who somebody is from the headers of a gateway before this server.

    Only requests whose socket comes from a named network are believed. X-Forwarded-For decides nothing here: whoever
    can send one header can send two.
    """

    def __init__(self, settings: SignInSettings) -> None:
        self._user = settings.proxy_user_header.lower().encode()
        self._groups = settings.proxy_groups_header.lower().encode()
        self._networks = tuple(ipaddress.ip_network(one, strict=False) for one in settings.proxy_networks)

    def identity(self, request: HTTPConnection) -> PersonIdentity | None:
        """The person of a request, read once; ``None`` if no gateway names one."""
        if not self._networks:
            return None
        if _IDENTITY_KEY not in request.scope:
            request.scope[_IDENTITY_KEY] = self._read(request)
        found: PersonIdentity | None = request.scope[_IDENTITY_KEY]
        return found

    def _read(self, request: HTTPConnection) -> PersonIdentity | None:
        headers = request.scope["headers"]
        users = [value for name, value in headers if name.lower() == self._user]
        groups = [value for name, value in headers if name.lower() == self._groups]
        if not users and not groups:
            return None
        peer = request.scope.get(PEER_KEY)
        if peer is None or not is_inside(peer[0], self._networks):
            return self._refuse("network")
        if not users or users == [b""]:
            # A gateway that lets strangers through names nobody.
            return None
        if len(users) > 1 or len(groups) > 1:
            return self._refuse("repeated")
        try:
            subject = check_subject(users[0].decode().strip())
            listed = groups[0].decode().split(",") if groups else []
            found = check_groups(name.strip() for name in listed if name.strip())
        except (IdentityFault, UnicodeDecodeError):
            return self._refuse("value")
        return PersonIdentity(PROXY_ISSUER, subject, clean_name(subject), found)

    @staticmethod
    def _refuse(reason: str) -> PersonIdentity | None:
        REFUSED_IDENTITY_HEADERS.record(1.0, reason)
        return None


ATTEMPT_LIFETIME = timedelta(minutes=10)
_STATE_BYTES = 24
#: Longer paths are not returned to: a cookie must stay small.
_MAX_PATH_CHARACTERS = 1_000
_MAX_COOKIE_CHARACTERS = 1_600


@dataclass(frozen=True, slots=True)
class SignInAttempt:
    """An attempt that came back to the browser that made it."""

    asked: CodeRequest
    #: The path to go on to, as the attempt was begun with it.
    wanted: str


class SignInAttempts:
    """Begins attempts to sign in at the provider, and finds them again: each belongs to one browser, for some minutes.

    The browser's cookie holds the state, the time and the page to return to. Nonce and verifier are derived from the
    state with the secret key, so that they are nowhere but here and at the provider.
    """

    def __init__(self, keys: SecretKeys, cookies: Cookies, shard: int) -> None:
        self._keys = keys
        self._cookies = cookies
        self._cookie = f"tiltyard_signing_in_{shard}"

    def begin(self, wanted: str, redirect_uri: str) -> tuple[CodeRequest, str]:
        """A new attempt, and its ``Set-Cookie`` header. ``wanted``: the path to go on to."""
        state = secrets.token_urlsafe(_STATE_BYTES)
        path = base64.urlsafe_b64encode(wanted[: _MAX_PATH_CHARACTERS + 1].encode()).decode()
        if len(wanted) > _MAX_PATH_CHARACTERS:
            path = ""
        token = f"{state}:{int(time.time())}:{path}"
        return self._asked(state, redirect_uri), self._cookies.header(self._cookie, token, ATTEMPT_LIFETIME)

    def find(self, request: HTTPConnection, state: str, redirect_uri: str) -> SignInAttempt | None:
        """The attempt of this browser with this state; ``None`` if it has another one, or none, or it is too old."""
        cookie = self._cookies.read(request, self._cookie)
        token = None
        if cookie is not None:
            token = self._cookies.unseal(self._cookie, cookie, longest=_MAX_COOKIE_CHARACTERS)
        if token is None:
            return None
        kept, issued, path = token.split(":")
        if not hmac.compare_digest(kept.encode(), state.encode("utf-8", "replace")):
            return None
        if not 0 <= time.time() - int(issued) < ATTEMPT_LIFETIME.total_seconds():
            return None
        try:
            wanted = base64.urlsafe_b64decode(path).decode() or "/"
        except (ValueError, binascii.Error):
            wanted = "/"
        return SignInAttempt(self._asked(kept, redirect_uri), wanted)

    def clear_header(self) -> str:
        """The ``Set-Cookie`` header that ends the attempt."""
        return self._cookies.clear_header(self._cookie)

    def _asked(self, state: str, redirect_uri: str) -> CodeRequest:
        return CodeRequest(
            state, self._derived("nonce", state), self._derived("verifier", state), redirect_uri
        )

    def _derived(self, what: str, state: str) -> str:
        digest = self._keys.sign(f"{what} of a sign-in", state.encode())
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")
