"""JSON as it travels: what is sent, what is read, and how far what was read can be believed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tiltyard.errors import BadOption

__all__ = ["encode_body", "parse_body", "parse_time", "parse_token_count", "repair_surrogates"]


def encode_body(body: Mapping[str, Any]) -> bytes:
    """A body as it is sent: keys in their order, no spaces."""
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise BadOption(f"a request cannot be written as JSON: {error}; check options") from None


def parse_body(data: bytes | str) -> Any:
    """JSON, and nothing but JSON: no NaN, no infinities. `ValueError` otherwise."""
    try:
        return json.loads(data, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def parse_token_count(value: object) -> int | None:
    """A count of tokens, where it is one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def repair_surrogates(text: str) -> str:
    """Text that can be written down: halves of surrogate pairs are joined, or replaced where alone."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def parse_time(value: object) -> datetime:
    """A provider's time: seconds since 1970, or ISO 8601. `ValueError` otherwise."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return datetime.fromtimestamp(value, UTC)
        except (OverflowError, OSError) as error:
            raise ValueError(str(error)) from None
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a time")  # noqa: TRY004  one kind of error for what was read
    found = datetime.fromisoformat(value)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
