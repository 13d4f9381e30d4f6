"""Headers that every response carries, unless its route sets another value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tiltyard.settings.serving_settings import ServingSettings

__all__ = ["security_headers"]

_HEADERS: Final[Mapping[bytes, bytes]] = {
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
    b"referrer-policy": b"no-referrer",
    b"x-content-type-options": b"nosniff",
}
_HSTS = b"max-age=31536000"


def security_headers(settings: ServingSettings) -> dict[bytes, bytes]:
    """The headers by name. With https, browsers are told to stay with it."""
    secure = {b"strict-transport-security": _HSTS} if settings.secure else {}
    return {**_HEADERS, **secure}
