"""Attempts to sign in at the identity provider: each belongs to one browser, for some minutes.

The browser's cookie holds the state, the time and the page to return to. Nonce and verifier are derived from the state
with the secret key, so that they are nowhere but here and at the provider.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
import time
from dataclasses import dataclass
from datetime import timedelta

from starlette.requests import HTTPConnection

from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.identity.oidc_client import CodeRequest
from tiltyard.web.cookies import Cookies
from tiltyard.web.pages import paths

__all__ = ["SignInAttempt", "SignInAttempts"]

ATTEMPT_LIFETIME = timedelta(minutes=10)
_STATE_BYTES = 24
#: Longer paths are not returned to: a cookie must stay small.
_MAX_PATH_CHARACTERS = 1_000
_MAX_COOKIE_CHARACTERS = 1_600


@dataclass(frozen=True, slots=True)
class SignInAttempt:
    """An attempt that came back to the browser that made it."""

    asked: CodeRequest
    #: The path to go on to.
    wanted: str


class SignInAttempts:
    """Begins attempts, and finds them again."""

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
        return SignInAttempt(self._asked(kept, redirect_uri), _path(path))

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


def _path(encoded: str) -> str:
    try:
        return paths.local(base64.urlsafe_b64decode(encoded).decode())
    except (ValueError, binascii.Error):
        return "/"
