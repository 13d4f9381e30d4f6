"""Base URLs: checked, and written in one way, because a cache key contains them."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, quote, urlsplit

from yarl import URL

from tiltyard.errors import BadOption
from tiltyard.settings.prices import OWN_ADDRESSES

__all__ = ["checked_base_url"]

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_DEFAULT_PORTS = {"http": 80, "https": 443}
#: Characters of a path that are sent as they are, besides letters, digits and ``-._~``.
_PATH_SAFE = "!$%&'()*+,/:;=@[\\]^|"


def checked_base_url(base_url: str | None, provider: str) -> str:
    """A checked base URL in its normal form; ``None`` is the provider's default, regardless of environment variables."""
    if base_url is None:
        return OWN_ADDRESSES[provider]
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
