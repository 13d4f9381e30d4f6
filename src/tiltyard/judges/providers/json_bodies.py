"""JSON of requests and replies: encoding, parsing and checking."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tiltyard.errors import BadOption

__all__ = ["encode_body", "parse_body", "parse_time", "parse_token_count", "repair_surrogates"]


def encode_body(body: Mapping[str, object]) -> bytes:
    """Encode a body: keys in their order, no spaces."""
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise BadOption(f"a request cannot be written as JSON: {error}; check options") from None


def parse_body(data: bytes | str) -> Any:
    """Parse strict JSON: no NaN or infinities. Raises `ValueError`."""
    text = data if isinstance(data, str) else data.decode(json.detect_encoding(data), "surrogatepass")
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def parse_token_count(value: object) -> int | None:
    """The value if it is a nonnegative integer, else ``None``."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def repair_surrogates(text: str) -> str:
    """Make text encodable: join surrogate pairs, replace lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def parse_time(value: object) -> datetime:
    """Parse a provider's time: Unix seconds or ISO 8601. Raises `ValueError`."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return datetime.fromtimestamp(value, UTC)
        except (OverflowError, OSError) as error:
            raise ValueError(str(error)) from None
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a time")  # noqa: TRY004  one error type for all bad input
    moment = datetime.fromisoformat(value)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


#: Made once: `json.loads` would make one for every call.
_DECODER = json.JSONDecoder(parse_constant=_no_constant)
