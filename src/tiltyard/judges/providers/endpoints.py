"""An endpoint of a provider, and the secrets that are sent to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from yarl import URL

from tiltyard.settings.endpoint_routes import EndpointRoute

__all__ = ["Credentials", "Endpoint", "merge_headers"]

#: Sent instead of a key: some servers that need none refuse a request without one.
_NO_KEY = "no-key"
#: Shorter secrets (such as ``EMPTY``) are words that a reply may contain for other reasons.
_REDACTED_BYTES = 8


@dataclass(frozen=True)
class Credentials:
    """Headers and query fields with secrets. They are not shown in its repr."""

    headers: Mapping[str, str] = field(repr=False)
    query: Mapping[str, str] = field(repr=False)

    @cached_property
    def _secrets(self) -> tuple[bytes, ...]:
        values = (value.removeprefix("Bearer ") for value in (*self.headers.values(), *self.query.values()))
        return tuple(secret for value in values if len(secret := value.encode()) >= _REDACTED_BYTES)

    def redact(self, content: bytes) -> bytes:
        """Remove secrets that a server repeats: replies and error messages are stored and shown."""
        for secret in self._secrets:
            if secret in content:
                content = content.replace(secret, b"[secret]")
        return content


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A base URL in its normal form, and how calls reach it."""

    provider: str
    base_url: str
    route: EndpointRoute

    @property
    def where(self) -> str:
        """Its name in messages."""
        return f"{self.provider} at {self.base_url}"

    @property
    def address(self) -> str:
        """The base URL, followed by the route if there is one. Part of every cache key."""
        route = self.route.identity
        return (
            f"{self.base_url} {json.dumps(route, sort_keys=True, separators=(',', ':'))}"
            if route
            else self.base_url
        )

    def is_at(self, domain: str) -> bool:
        return (URL(self.base_url).host or "").endswith(domain)

    def has_credentials(self, api_key: str | None) -> bool:
        return bool(api_key or self.route.secret_headers or self.route.secret_query)

    def credentials(self, api_key: str | None, header: str) -> Credentials:
        """The secrets of a call: the key in its header, which is ``header`` by default, and those of the route."""
        name = self.route.api_key_header or header
        key = api_key if self.has_credentials(api_key) else _NO_KEY
        bearer = "Bearer " if name.lower() == "authorization" else ""
        own = {} if key is None else {name: f"{bearer}{key}"}
        return Credentials(merge_headers(own, self.route.secret_headers), self.route.secret_query)


def merge_headers(*layers: Mapping[str, str]) -> dict[str, str]:
    """Later headers replace earlier ones, whatever their case."""
    merged: dict[str, tuple[str, str]] = {}
    for layer in layers:
        merged.update({name.lower(): (name, value) for name, value in layer.items()})
    return dict(merged.values())
