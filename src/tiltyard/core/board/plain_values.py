"""Frozen records as plain JSON values, and back.

A record is a dataclass whose fields are numbers, texts, enumerations, other records, tuples of one kind, or
mappings. Its JSON object has the same names. Reading checks that every field is there, with a value of its type; a
name that the record does not know is ignored.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from tiltyard.core.policy.validity.rules import float_or_none
from tiltyard.errors import InputError

T = TypeVar("T")
Reader = Callable[[Any], Any]

_SCALARS: Mapping[type, frozenset[type]] = {
    bool: frozenset({bool}),
    float: frozenset({float, int}),
    int: frozenset({int}),
    str: frozenset({str}),
}


def to_plain(value: Any) -> Any:
    """Dataclasses, enumerations and tuples as JSON knows them; a number that is none as ``None``."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return float_or_none(value)
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Mapping):
        return {str(name): to_plain(part) for name, part in value.items()}
    if is_dataclass(value):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    return [to_plain(part) for part in value]


def from_plain(kind: type[T], value: Any) -> T:
    """A record of this kind; `InputError` if a value is missing or has another type than its field."""
    record: T = _reader(cast("Hashable", kind))(value)
    return record


@cache
def _reader(kind: Any) -> Reader:
    """What reads one type. Unions are those with ``None`` only."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        (present,) = (part for part in parts if part is not type(None))
        reader = _reader(present)
        return lambda value: None if value is None else reader(value)
    if origin is tuple:
        return _sequence(_reader(parts[0]))
    if origin is Literal:
        return _one_of({part: part for part in parts}, " or ".join(parts))
    return _mapping if origin is not None else _plain_reader(kind)


def _plain_reader(kind: type[Any]) -> Reader:
    if kind in _SCALARS:
        return _scalar(_SCALARS[kind], kind.__name__)
    if is_dataclass(kind):
        return _record(kind)
    return _one_of({member.value: member for member in kind}, kind.__name__)


def _record(kind: Any) -> Reader:
    hints = get_type_hints(kind)
    parts = [
        (field.name, _as_they_are(hints[field.name]), _reader(hints[field.name])) for field in fields(kind)
    ]

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise _wrong(kind.__name__, value)
        found = []
        for name, plain, reader in parts:
            if name not in value:
                raise InputError(
                    f"a document lacks {name} of {kind.__name__}: another version of Tiltyard made it; read it with that"
                )
            part = value[name]
            found.append(part if type(part) in plain else reader(part))
        return kind(*found)

    return read


def _as_they_are(kind: Any) -> frozenset[type]:
    """Types of JSON values that need no reader: most of a document is numbers, and calls are slow."""
    if get_origin(kind) in (Union, types.UnionType):
        return frozenset().union(*map(_as_they_are, get_args(kind)))
    return frozenset({kind}) if kind is type(None) else _SCALARS.get(kind, frozenset())


def _scalar(allowed: frozenset[type], called: str) -> Reader:
    def read(value: Any) -> Any:
        if type(value) not in allowed:
            raise _wrong(called, value)
        return value

    return read


def _one_of(allowed: Mapping[Any, Any], called: str) -> Reader:
    """A text or number that stands for one of a few values."""

    def read(value: Any) -> Any:
        if type(value) not in (str, int) or value not in allowed:
            raise _wrong(called, value)
        return allowed[value]

    return read


def _sequence(reader: Reader) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not list:
            raise _wrong("list", value)
        return tuple([reader(part) for part in value])

    return read


def _mapping(value: Any) -> Any:
    if type(value) is not dict:
        raise _wrong("object", value)
    return value


def _wrong(expected: str, value: Any) -> InputError:
    return InputError(f"a document has {str(value)[:40]!r}; expected {expected}")
