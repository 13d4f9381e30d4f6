"""Columns as PostgreSQL array literals: inserts many rows in one statement, without per-value conversion."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

Scalar = int | float | str | UUID | datetime | dict[str, object] | None


def array_literal(values: Iterable[Scalar]) -> str:
    """PostgreSQL's text form of an array; the statement casts it to its type."""
    return "{" + ",".join(map(_item, values)) + "}"


def _item(value: Scalar) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, UUID):
        return value.hex
    if isinstance(value, datetime):
        return value.isoformat()
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
