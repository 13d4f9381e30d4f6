"""Who somebody is, as a gateway before this server says it in headers.

Only requests whose socket comes from a named network are believed. X-Forwarded-For decides nothing here: whoever can send
one header can send two.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Final

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from tiltyard.errors import IdentityFault
from tiltyard.foundation.telemetry import REFUSED_IDENTITY_HEADERS
from tiltyard.identity.person_identity import (
    PROXY_ISSUER,
    PersonIdentity,
    check_groups,
    check_subject,
    clean_name,
)
from tiltyard.settings.sign_in_settings import SignInSettings

__all__ = ["GatewayHeaders", "PeerAddressMiddleware"]

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
    """Reads the headers of a gateway, if it is one of those that are named."""

    def __init__(self, settings: SignInSettings) -> None:
        self._user = settings.proxy_user_header.lower().encode()
        self._groups = settings.proxy_groups_header.lower().encode()
        networks = tuple(ipaddress.ip_network(one, strict=False) for one in settings.proxy_networks)
        self._enabled = bool(networks)

        @lru_cache(maxsize=10_000)
        def is_gateway(host: str) -> bool:
            try:
                address = ipaddress.ip_address(host)
            except ValueError:
                return False
            mapped = getattr(address, "ipv4_mapped", None)
            return any((mapped or address) in network for network in networks)

        self._is_gateway = is_gateway

    def identity(self, request: HTTPConnection) -> PersonIdentity | None:
        """The person of a request, read once; ``None`` if no gateway names one."""
        if not self._enabled:
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
        if peer is None or not self._is_gateway(peer[0]):
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
        """Nobody, and counted."""
        REFUSED_IDENTITY_HEADERS.record(1.0, reason)
        return None
