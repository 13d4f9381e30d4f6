"""Token counts as OpenAI and compatible servers state them."""

from __future__ import annotations

from collections.abc import Mapping

from tiltyard.judges.providers.json_bodies import parse_token_count
from tiltyard.judges.providers.provider import Usage

__all__ = ["parse_usage"]


def parse_usage(stated: object) -> Usage | None:
    """The usage of a reply; ``None`` if it is not stated."""
    if not isinstance(stated, Mapping):
        return None
    given, made = (
        parse_token_count(stated.get("prompt_tokens")),
        parse_token_count(stated.get("completion_tokens")),
    )
    if given is None or made is None:
        return None
    # Some endpoints (such as for Gemini) count thinking tokens only in the total, and bill them as output.
    made = max(made, (parse_token_count(stated.get("total_tokens")) or 0) - given)
    details = stated.get("prompt_tokens_details")
    details = details if isinstance(details, Mapping) else {}
    read = min(parse_token_count(details.get("cached_tokens")) or 0, given)
    written = min(parse_token_count(details.get("cache_write_tokens")) or 0, given - read)
    return Usage(given - read - written, made, written, read)
