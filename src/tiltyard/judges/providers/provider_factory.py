"""Creates providers by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiltyard.errors import BadOption, MissingExtra
from tiltyard.judges.providers.provider import Provider
from tiltyard.judges.providers.streams import StreamingProvider, StreamTimeouts
from tiltyard.settings.endpoint_routes import EndpointRoute

if TYPE_CHECKING:
    from tiltyard.judges.providers.anthropic import Anthropic
    from tiltyard.judges.providers.openai import OpenAI

__all__ = ["PROVIDERS", "STREAMING_PROVIDERS", "open_provider", "open_streaming_provider"]

PROVIDERS = ("anthropic", "openai", "replay")
#: Those that can answer as a stream.
STREAMING_PROVIDERS = ("anthropic", "openai")


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
    if name == "replay":
        return _open_replay(base_url)
    if name not in STREAMING_PROVIDERS:
        raise BadOption(f"provider: {name!r}; expected one of {', '.join(PROVIDERS)}")
    return _open_http(name, base_url, api_key, timeout_seconds, route)


def open_streaming_provider(
    name: str,
    base_url: str | None,
    api_key: str | None,
    timeouts: StreamTimeouts,
    route: EndpointRoute | None = None,
) -> StreamingProvider:
    """The same for a provider whose answers are streamed. Its calls end by their own timeouts."""
    if name not in STREAMING_PROVIDERS:
        raise BadOption(f"provider: {name!r}; expected one of {', '.join(STREAMING_PROVIDERS)}")
    return _open_http(name, base_url, api_key, timeouts.total_seconds, route)


def _open_http(
    name: str, base_url: str | None, api_key: str | None, timeout_seconds: float, route: EndpointRoute | None
) -> Anthropic | OpenAI:
    try:
        if name == "anthropic":
            from tiltyard.judges.providers.anthropic import Anthropic

            return Anthropic(base_url, api_key, timeout_seconds, route)
        from tiltyard.judges.providers.openai import OpenAI

        return OpenAI(base_url, api_key, timeout_seconds, route)
    except ModuleNotFoundError as error:
        if error.name not in {"aiohttp", "truststore", "yarl"}:
            raise
        raise MissingExtra("judges", f"calling {name} models") from None


def _open_replay(path: str | None) -> Provider:
    from tiltyard.judges.providers.replay import ReplayProvider

    if path is None:
        raise BadOption("base_url: a replayed judge needs the path of its file of recorded replies")
    return ReplayProvider(path)
