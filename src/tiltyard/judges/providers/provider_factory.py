"""Creates providers by name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tiltyard.errors import BadOption, MissingExtra
from tiltyard.judges.providers.local_replies import PythonFunction, ReplayProvider
from tiltyard.judges.providers.provider import Provider
from tiltyard.settings.model_endpoints import PROVIDERS, PYTHON, REPLAY, EndpointRoute

if TYPE_CHECKING:
    from tiltyard.judges.providers.http_client import HttpProvider


def open_provider(
    name: str,
    base_url: str | None,
    api_key: str | None,
    timeout_seconds: float = 600.0,
    route: EndpointRoute | None = None,
) -> Provider:
    """Create a provider; a ``base_url`` of ``None`` is its default. Nothing is sent yet, and no key is needed yet.

    Use it on one event loop, and close it before that loop ends. For ``replay``, ``base_url`` is the path of the
    file of recorded replies. ``route`` adds path, query and headers.
    """
    if name == PYTHON:
        return PythonFunction(base_url or "")
    if name != REPLAY:
        return open_http_provider(name, base_url, api_key, timeout_seconds, route)
    if base_url is None:
        raise BadOption("base_url: a replayed judge needs the path of its file of recorded replies")
    return ReplayProvider(base_url)


def open_http_provider(
    name: str, base_url: str | None, api_key: str | None, timeout_seconds: float, route: EndpointRoute | None
) -> HttpProvider:
    """The same for a provider over HTTP, whose answers can be streamed: the ``ADAPTER`` of the module with its name."""
    if name not in PROVIDERS:
        raise BadOption(f"provider: {name!r}; expected one of {', '.join((*PROVIDERS, REPLAY))}")
    try:
        adapter: type[HttpProvider] = import_module(f"tiltyard.judges.providers.{name}").ADAPTER
    except ModuleNotFoundError as error:
        if error.name not in {"aiohttp", "truststore", "yarl"}:
            raise
        raise MissingExtra("judges", f"calling {name} models") from None
    return adapter(base_url, api_key, timeout_seconds, route)
