"""Checks which fields of a request users may set."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tiltyard.core.judging.question import TOOL_NAME
from tiltyard.errors import BadOption

__all__ = ["VERDICT_TOOL", "checked_options"]

#: The tool of the reply form ``tool``.
VERDICT_TOOL = {"name": TOOL_NAME, "description": "Give the verdict on the two responses."}
_INSTEAD = {
    "model": "model",
    "system": "the rubric",
    "messages": "the rubric",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "tools": "form",
    "tool_choice": "form",
    "response_format": "form",
}


def checked_options(options: Mapping[str, Any], ours: Collection[str]) -> tuple[dict[str, Any], str | None]:
    """The user's own fields, and the requested lifetime of the prompt cache, if any.

    Fields that we set ourselves are rejected: the reserved budget depends on them.
    """
    extra = dict(options)
    cache = extra.pop("prompt_cache", None)
    if cache not in {None, False, "off", "5m", "1h"}:
        raise BadOption(f"prompt_cache: {cache!r}; expected off, 5m or 1h")
    for field in extra:
        if field in ours:
            instead = f"; use {_INSTEAD[field]}" if field in _INSTEAD else ""
            raise BadOption(f"options: {field} cannot be set here{instead}")
    return extra, cache if cache in {"5m", "1h"} else None
