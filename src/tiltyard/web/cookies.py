"""Cookies of voters and the operator: a random token and its signature.

Cookies without a valid signature are rejected without a database query. The token's hash has a row in
the database, which can be revoked.
"""

from __future__ import annotations

import base64
import binascii
from datetime import timedelta

from starlette.requests import HTTPConnection

from tiltyard.arena.secret_keys import SecretKeys

__all__ = ["OPERATOR_COOKIE", "VOTER_COOKIE", "Cookies", "read_cookie"]

VOTER_COOKIE = "tiltyard_session"
OPERATOR_COOKIE = "tiltyard_operator"

VOTER_COOKIE_LIFETIME = timedelta(days=400)
_SIGNATURE_BYTES = 16


class Cookies:
    """Signs tokens for cookies, and verifies them."""

    def __init__(self, keys: SecretKeys, *, secure: bool) -> None:
        self._keys = keys
        self._secure = secure

    def seal(self, name: str, token: str) -> str:
        """The value of the cookie with this name for a token."""
        signature = self._keys.sign(f"cookie {name}", token.encode())[:_SIGNATURE_BYTES]
        return f"{token}.{_shown(signature)}"

    def unseal(self, name: str, value: str) -> str | None:
        """The token in the cookie with this name; ``None`` if the signature is invalid."""
        token, dot, signed = value.partition(".")
        if not dot or len(value) > 200 or not value.isascii():
            return None
        try:
            signature = base64.urlsafe_b64decode(signed + "==")
        except (ValueError, binascii.Error):
            return None
        # Accept only the canonical encoding, because the cookie is also the key of its voter in the cache.
        known = _shown(signature) == signed and self._keys.verify(f"cookie {name}", token.encode(), signature)
        return token if known else None

    def header(self, name: str, token: str, life: timedelta) -> str:
        """The ``Set-Cookie`` header that sets a token."""
        return self._text(name, self.seal(name, token), int(life.total_seconds()))

    def clear_header(self, name: str) -> str:
        """The ``Set-Cookie`` header that deletes the cookie."""
        return self._text(name, "", 0)

    def _text(self, name: str, value: str, seconds: int) -> str:
        secure = "; Secure" if self._secure else ""
        return f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"


def _shown(signature: bytes) -> str:
    return base64.urlsafe_b64encode(signature).decode().rstrip("=")


def read_cookie(request: HTTPConnection, name: str) -> str | None:
    """The raw value of the first cookie with this name."""
    wanted = name + "="
    for key, value in request.scope["headers"]:
        if key == b"cookie":
            for part in value.decode("latin-1").split(";"):
                pair = part.strip()
                if pair.startswith(wanted):
                    return str(pair[len(wanted) :])
    return None
