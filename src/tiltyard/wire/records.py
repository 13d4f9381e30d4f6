"""How records are checked, and how they become JSON. An answer has every field: it has no defaults."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import ConfigDict, TypeAdapter, with_config

Record = TypeVar("Record")

#: A request: a field that is not known is refused.
request = with_config(ConfigDict(extra="forbid"))
#: The same, and no value is converted. For routes that read JSON directly.
strict_request = with_config(ConfigDict(extra="forbid", strict=True))


def reader_of(record: type[Record]) -> TypeAdapter[Record]:
    """Checks what came from the other side."""
    return _adapter(cast("Hashable", record))


@cache
def _adapter(record: Any) -> TypeAdapter[Any]:
    return TypeAdapter(record)


def json_bytes(record: object) -> bytes:
    """A record as JSON. Nothing is checked: this is on the way of every vote."""
    return _adapter(cast("Hashable", type(record))).serializer.to_json(record)


def body_of(record: object) -> dict[str, object]:
    """A request as it is sent: fields that are None are left out."""
    values = ((one.name, getattr(record, one.name)) for one in fields(cast("Any", record)))
    return {name: _sent(value) for name, value in values if value is not None}


def _sent(value: object) -> object:
    if is_dataclass(value):
        return body_of(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (list, tuple)):
        return [_sent(one) for one in value]
    return value.isoformat() if isinstance(value, datetime) else value
