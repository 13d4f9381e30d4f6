"""Token counts before a provider has counted: an upper bound for reservations, and an estimate for plans."""

from __future__ import annotations

__all__ = [
    "EXPECTED_BYTES_PER_TOKEN",
    "IMAGE_TOKENS",
    "LOW_BYTES_PER_TOKEN",
    "expected_tokens",
    "token_upper_bound",
]

#: Bytes of text per token. English prose has four to five; code, other languages and numbers have fewer.
LOW_BYTES_PER_TOKEN, EXPECTED_BYTES_PER_TOKEN = 5.0, 4.0
#: An upper bound of the tokens of one image; most models bill far fewer.
IMAGE_TOKENS = 50_000
#: Tokens that a provider may add to a request: roles, the schema's grammar, the tool definition.
_OVERHEAD_TOKENS = 1024


def token_upper_bound(size: int) -> int:
    """An upper bound: a token has at least one byte, and providers add a little."""
    return size + _OVERHEAD_TOKENS


def expected_tokens(size: int, bytes_per_token: float = EXPECTED_BYTES_PER_TOKEN) -> int:
    """An estimate, and marked as one wherever it is shown."""
    return round(size / bytes_per_token)
