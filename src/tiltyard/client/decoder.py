"""From the JSON of an answer to a value: fields are checked, and those of a newer server passed over."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter

__all__ = ["decode_list", "decode_nothing", "decode_value"]

T = TypeVar("T")


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def decode_value(kind: type[T]) -> Callable[[Any], T]:
    """Reads one value."""

    def read(document: Any) -> T:
        value: T = _adapter(cast("Any", kind)).validate_python(document)
        return value

    return read


def decode_list(kind: type[T], field: str) -> Callable[[Any], list[T]]:
    """Reads the list that stands under ``field``."""

    def read(document: Any) -> list[T]:
        values: list[T] = _adapter(list[kind]).validate_python(document[field])  # type: ignore[valid-type]
        return values

    return read


def decode_nothing(_document: Any) -> None:
    """Reads an answer that says no more than that it was done."""
