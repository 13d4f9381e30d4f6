"""Tokens of a request before a provider has counted them: a bound to reserve by, and an estimate to plan by."""

from __future__ import annotations

__all__ = ["EXPECTED_BYTES_PER_TOKEN", "LOW_BYTES_PER_TOKEN", "expected_tokens", "token_upper_bound"]

#: Bytes of text in a token. English prose has four to five, code, other languages and numbers fewer.
LOW_BYTES_PER_TOKEN, EXPECTED_BYTES_PER_TOKEN = 5.0, 4.0
#: Tokens that a provider may add to a request of its own: roles, the schema's grammar, the tool's wrapping.
_OVERHEAD_TOKENS = 1024


def token_upper_bound(size: int) -> int:
    """A bound: tokenizers of bytes spend at least one byte on a token, and providers add a little."""
    return size + _OVERHEAD_TOKENS


def expected_tokens(size: int, bytes_per_token: float = EXPECTED_BYTES_PER_TOKEN) -> int:
    """An estimate, stated as such wherever it is shown."""
    return round(size / bytes_per_token)
