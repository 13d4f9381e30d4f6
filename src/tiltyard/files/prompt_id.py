"""Generates ids for prompts without one."""

from __future__ import annotations

import hashlib
from typing import Any

from tiltyard.errors import BadBattle


def prompt_id(prompt: Any) -> str | None:
    """Half of the text's SHA-256, so that the same text has the same id in every file."""
    if prompt is None:
        return None
    if not isinstance(prompt, str):
        raise BadBattle(f"the prompt is {type(prompt).__name__}; expected text")
    return hashlib.sha256(prompt.encode(errors="surrogatepass")).hexdigest()[:32]
