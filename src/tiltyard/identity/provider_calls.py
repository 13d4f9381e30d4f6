"""HTTP to the identity provider: bounded in time and size, and never redirected."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from tiltyard.errors import IdentityFault
from tiltyard.settings.serving_settings import is_loopback

_CALL_SECONDS = 10.0
_MAX_ANSWER_BYTES = 1024 * 1024


class ProviderCalls:
    """Asks one provider for JSON documents. What is no document is an `IdentityFault`."""

    def __init__(self, issuer: str) -> None:
        self._local = is_loopback(urlsplit(issuer).hostname or "")

    async def get(self, url: str, what: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The document at an address. ``what`` names it in messages."""
        return await self._call("GET", url, what, headers or {}, None)

    async def post(
        self, url: str, what: str, headers: Mapping[str, str], form: Mapping[str, str]
    ) -> dict[str, Any]:
        """The answer to a form."""
        return await self._call("POST", url, what, headers, form)

    def check_address(self, url: object, what: str) -> str:
        """An address of the provider: https, unless the provider is on this machine."""
        if isinstance(url, str) and url.isascii() and url.isprintable():
            try:
                parts = urlsplit(url)
                secure = parts.scheme == "https" or (self._local and parts.scheme == "http")
                if secure and parts.hostname and not parts.username:
                    return url
            except ValueError:
                pass
        raise IdentityFault(f"the provider's discovery document has no usable {what}")

    async def _call(
        self, method: str, url: str, what: str, headers: Mapping[str, str], form: Mapping[str, str] | None
    ) -> dict[str, Any]:
        import httpx2

        try:
            async with asyncio.timeout(_CALL_SECONDS):
                async with (
                    httpx2.AsyncClient(follow_redirects=False, timeout=_CALL_SECONDS) as client,
                    client.stream(
                        method, url, headers={"Accept": "application/json", **headers}, data=form
                    ) as answer,
                ):
                    body = b""
                    async for part in answer.aiter_bytes():
                        body += part
                        if len(body) > _MAX_ANSWER_BYTES:
                            raise IdentityFault(
                                f"the provider's {what} has more than {_MAX_ANSWER_BYTES:,} bytes"
                            )
                    status = answer.status_code
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, OSError) as error:
            raise IdentityFault(
                f"the identity provider did not answer ({what}: {type(error).__name__})", unreachable=True
            ) from None
        return _document(body, status, what)


def _document(body: bytes, status: int, what: str) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if status == 200 and isinstance(document, dict):
        return document
    # RFC 6749, section 5.2: error is a short code, such as invalid_client.
    code = document.get("error") if isinstance(document, dict) else None
    said = (
        f", {code}"
        if isinstance(code, str) and code.isascii() and code.isprintable() and len(code) <= 60
        else ""
    )
    raise IdentityFault(
        f"the identity provider refused ({what}: status {status}{said})",
        unreachable=status >= 500 or status == 429,
    )
