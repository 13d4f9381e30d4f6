"""The answers file: one response of one model to one prompt on each line."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tiltyard.errors import UnreadableFile
from tiltyard.formats.detect import open_records
from tiltyard.formats.writing import write_rows

__all__ = ["KINDS", "Answer", "read_answers", "write_answers"]

#: What a response can be; all but text are given by a path or an address.
KINDS = ("text", "image", "audio", "app")

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer. ``extra`` keeps the fields that Tiltyard does not know and writes them back."""

    prompt_id: str
    prompt: str
    model: str
    response: str
    kind: str = "text"
    category: str | None = None
    language: str | None = None
    gold: str | None = None
    expected_behavior: str | None = None
    source: str | None = None
    #: Names under which the model's family and its maker are known.
    family: str | None = None
    maker: str | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)

    @classmethod
    def from_dict(cls, row: Mapping[str, Any], where: str) -> Answer:
        """Read one row; what is wrong with it is said of ``where``."""
        kind = row.get("kind", "text")
        if kind not in KINDS:
            raise UnreadableFile(f"{where}: kind is {kind!r}; expected one of {', '.join(KINDS)}")
        given: dict[str, Any] = {name: _text(row, name, where) for name in _FIELDS if name != "kind"}
        for name in _REQUIRED:
            if given[name] is None:
                raise UnreadableFile(f"{where}: {name} is missing; expected text")
        unknown = {key: value for key, value in row.items() if key not in _FIELDS}
        return cls(kind=kind, extra=MappingProxyType(unknown), **given)

    def to_dict(self) -> dict[str, Any]:
        """The row as it is written: set fields, then the unknown ones."""
        known = {name: getattr(self, name) for name in _FIELDS}
        return {name: value for name, value in known.items() if value is not None} | dict(self.extra)


_FIELDS = tuple(one.name for one in dataclasses.fields(Answer) if one.name != "extra")
_REQUIRED = ("prompt_id", "prompt", "model", "response")


def read_answers(path: str | os.PathLike[str]) -> Iterator[Answer]:
    """Every answer of a file (JSON Lines, also compressed; CSV and Parquet alike), one by one."""
    for where, record in open_records(path).records():
        yield Answer.from_dict(record, where)


def write_answers(path: str | os.PathLike[str], answers: Iterable[Answer]) -> None:
    """Write answers as JSON Lines; ``-`` is standard output."""
    write_rows(path, (answer.to_dict() for answer in answers))


def _text(row: Mapping[str, Any], name: str, where: str) -> str | None:
    value = row.get(name)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise UnreadableFile(f"{where}: {name} is {type(value).__name__}; expected text")
