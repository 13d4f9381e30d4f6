"""Creates providers by name."""

from __future__ import annotations

from tiltyard.errors import BadOption, MissingExtra
from tiltyard.judges.providers.provider import Provider
from tiltyard.settings.endpoint_routes import EndpointRoute

__all__ = ["PROVIDERS", "open_provider"]

PROVIDERS = ("anthropic", "openai", "replay")


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
    try:
        if name == "anthropic":
            from tiltyard.judges.providers.anthropic import Anthropic

            return Anthropic(base_url, api_key, timeout_seconds, route)
        if name == "openai":
            from tiltyard.judges.providers.openai import OpenAI

            return OpenAI(base_url, api_key, timeout_seconds, route)
    except ModuleNotFoundError as error:
        if error.name not in {"aiohttp", "truststore", "yarl"}:
            raise
        raise MissingExtra("judges", f"calling {name} models") from None
    raise BadOption(f"provider: {name!r}; expected one of {', '.join(PROVIDERS)}")


def _open_replay(path: str | None) -> Provider:
    from tiltyard.judges.providers.replay import ReplayProvider

    if path is None:
        raise BadOption("base_url: a replayed judge needs the path of its file of recorded replies")
    return ReplayProvider(path)
