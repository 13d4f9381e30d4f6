"""Who is signed in: a person by the cookie of a sign-in, or by the headers of a gateway."""

from __future__ import annotations

from datetime import timedelta

from starlette.requests import HTTPConnection

from tiltyard.arena.operators.people import People, Person
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.compute_once import BoundedQueue
from tiltyard.identity.oidc_client import CodeRequest, OidcClient
from tiltyard.identity.person_identity import PersonIdentity
from tiltyard.settings.sign_in_settings import SignInSettings
from tiltyard.web.cookies import Cookies
from tiltyard.web.gateway_headers import GatewayHeaders
from tiltyard.web.sign_in_attempts import SignInAttempts

__all__ = ["Identities"]

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
        token = self._token(request)
        return None if token is None else await self._people.signed_in(token)

    def recognizes(self, request: HTTPConnection) -> bool:
        """Whether the request has the cookie of a sign-in that we signed, or a gateway names who it is."""
        return self._gateway.identity(request) is not None or self._token(request) is not None

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
        token = self._token(request)
        if token is not None:
            await self._people.sign_out(token)
        return self._cookies.clear_header(self._cookie)

    def _token(self, request: HTTPConnection) -> str | None:
        cookie = self._cookies.read(request, self._cookie)
        return None if cookie is None else self._cookies.unseal(self._cookie, cookie)
