"""Options: which fields of a request are the user's to set."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tiltyard.core.judging.question import TOOL_NAME
from tiltyard.errors import BadOption

__all__ = ["VERDICT_TOOL", "checked_options"]

#: The tool by which a verdict is given, where it is given by tool.
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
    """The user's own fields, and the lifetime of the prompt cache where it is asked for.

    Fields that we set ourselves are refused: the budget is reserved by what they say.
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
