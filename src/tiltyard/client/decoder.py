"""From the JSON of an answer to a value: fields are checked, and those of a newer server passed over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tiltyard.wire.records import reader_of

__all__ = ["decode_list", "decode_nothing", "decode_value"]

T = TypeVar("T")


def decode_value(kind: type[T]) -> Callable[[Any], T]:
    """Reads one value."""

    return reader_of(kind).validate_python


def decode_list(kind: type[T], field: str) -> Callable[[Any], list[T]]:
    """Reads the list that stands under ``field``."""

    reader = reader_of(kind)

    def read(document: Any) -> list[T]:
        return [reader.validate_python(one) for one in document[field]]

    return read


def decode_nothing(_document: Any) -> None:
    """Reads an answer that says no more than that it was done."""
