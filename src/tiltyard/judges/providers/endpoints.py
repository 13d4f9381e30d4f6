"""An endpoint of a provider: its address, checked and written in one way, and the secrets that are sent to it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import SplitResult, quote, urlsplit

from yarl import URL

from tiltyard.errors import BadOption
from tiltyard.settings.model_endpoints import PROVIDERS, EndpointRoute

#: Sent instead of a key: some servers that need none refuse a request without one.
_NO_KEY = "no-key"
#: Shorter secrets (such as ``EMPTY``) are words that a reply may contain for other reasons.
_REDACTED_BYTES = 8
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_DEFAULT_PORTS = {"http": 80, "https": 443}
#: Characters of a path that are sent as they are, besides letters, digits and ``-._~``.
_PATH_SAFE = "!$%&'()*+,/:;=@[\\]^|"


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


def checked_base_url(base_url: str | None, provider: str) -> str:
    """A checked base URL in its normal form; ``None`` is the provider's default, regardless of environment variables."""
    if base_url is None:
        return PROVIDERS[provider].base_url
    if _CONTROL.search(base_url):
        raise BadOption(f"base_url {base_url!r} is not a valid URL: it has a control character")
    try:
        parts = urlsplit(base_url)
        port, host = parts.port, _host(parts)
    except ValueError as error:
        raise BadOption(f"base_url {base_url!r} is not a valid URL: {error}") from None
    if parts.scheme not in _DEFAULT_PORTS or not host:
        raise BadOption(f"base_url {base_url!r} must start with http:// or https:// and have a host")
    if parts.query or parts.fragment:
        raise BadOption(f"base_url {base_url!r} must end with its path; set query for what follows '?'")
    shown = "" if port in {None, _DEFAULT_PORTS[parts.scheme]} else f":{port}"
    return f"{parts.scheme}://{host}{shown}{_path(parts.path)}".rstrip("/")


def _host(parts: SplitResult) -> str:
    """The host as it is looked up: lower case, and ASCII. Raises `ValueError`."""
    if parts.username is not None:
        raise ValueError("it has a password; name the key's variable in api_key_env")
    host = parts.hostname or ""
    if ":" in host:
        # As it was written: keys of calls that were paid contain it.
        return parts.netloc[: parts.netloc.index("]") + 1]
    return host if host.isascii() else str(URL.build(scheme="http", host=host).raw_host)


def _path(path: str) -> str:
    """The path without ``.`` and ``..``, with anything unsafe percent-encoded."""
    kept: list[str] = []
    for part in path.split("/"):
        if part == ".." and len(kept) > 1:
            kept.pop()
        elif part not in {".", ".."}:
            kept.append(part)
    return quote("/".join(kept), safe=_PATH_SAFE)
