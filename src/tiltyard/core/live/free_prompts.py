"""When two prompts that people wrote are the same prompt."""

from __future__ import annotations

import hashlib
import unicodedata

__all__ = ["free_prompt_name", "hash_prompt", "normalize_prompt"]


def normalize_prompt(text: str) -> str:
    """A prompt without what does not make it another one: case, white space, punctuation around it, and compatible
    spellings of the same character (NFKC).

    A prompt of punctuation alone stays as it is, apart from its white space.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    joined = " ".join(folded.split())
    start, stop = 0, len(joined)
    while start < stop and _is_outer(joined[start]):
        start += 1
    while stop > start and _is_outer(joined[stop - 1]):
        stop -= 1
    return joined[start:stop] or joined


def free_prompt_name(number: int) -> str:
    """How files and boards call a prompt that a voter wrote; its text is not published with it."""
    return f"live-{number}"


def hash_prompt(text: str) -> bytes:
    """The SHA-256 of the normalised prompt."""
    return hashlib.sha256(normalize_prompt(text).encode("utf-8", "surrogatepass")).digest()


def _is_outer(character: str) -> bool:
    return character == " " or unicodedata.category(character).startswith("P")
