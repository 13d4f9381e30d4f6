"""Tokens of a request before a provider has counted them: a bound to reserve by, and an estimate to plan by."""

from __future__ import annotations

__all__ = ["EXPECTED_BYTES", "LOW_BYTES", "expected_tokens", "most_tokens"]

#: Bytes of text in a token. English prose has four to five, code, other languages and numbers fewer.
LOW_BYTES, EXPECTED_BYTES = 5.0, 4.0
#: Tokens that a provider may add to a request of its own: roles, the schema's grammar, the tool's wrapping.
_ADDED = 1024


def most_tokens(size: int) -> int:
    """A bound: tokenizers of bytes spend at least one byte on a token, and providers add a little."""
    return size + _ADDED


def expected_tokens(size: int, bytes_per_token: float = EXPECTED_BYTES) -> int:
    """An estimate, stated as such wherever it is shown."""
    return round(size / bytes_per_token)
