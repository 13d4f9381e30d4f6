"""The answers file: one response of one model to one prompt per line."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tiltyard.errors import UnreadableFile
from tiltyard.files.battle_writer import write_rows
from tiltyard.files.format_detection import open_records

__all__ = ["KINDS", "Answer", "drop_replaced_answers", "read_answers", "read_flag", "write_answers"]

#: Kinds of responses; all but text are given as a path or a URL.
KINDS = ("text", "image", "audio", "app")

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer. ``extra`` keeps unknown fields, so that they are written back."""

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
    #: Aliases of the model's family and its maker.
    family: str | None = None
    maker: str | None = None
    #: Whether the response was cut off at the token limit.
    truncated: bool = False
    extra: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)

    @classmethod
    def from_dict(cls, row: Mapping[str, object], where: str) -> Answer:
        """Read one row; errors name ``where``."""
        kind = row.get("kind", "text")
        if kind not in KINDS:
            raise UnreadableFile(f"{where}: kind is {kind!r}; expected one of {', '.join(KINDS)}")
        given: dict[str, Any] = {name: _text(row, name, where) for name in _TEXTS}
        for name in _REQUIRED:
            if given[name] is None:
                raise UnreadableFile(f"{where}: {name} is missing; expected text")
        unknown = {key: value for key, value in row.items() if key not in _FIELDS}
        truncated = read_flag(row, "truncated", where)
        return cls(kind=kind, truncated=truncated, extra=MappingProxyType(unknown), **given)

    def to_dict(self) -> dict[str, object]:
        """The row as written: the fields that are set, then the unknown ones."""
        known = {name: getattr(self, name) for name in _FIELDS} | {"truncated": self.truncated or None}
        return {name: value for name, value in known.items() if value is not None} | dict(self.extra)


_FIELDS = tuple(one.name for one in dataclasses.fields(Answer) if one.name != "extra")
_TEXTS = tuple(name for name in _FIELDS if name not in ("kind", "truncated"))
_REQUIRED = ("prompt_id", "prompt", "model", "response")
#: Spellings of true and false; CSV has only text.
_FLAGS = {"true": True, "1": True, "false": False, "0": False, "": False}


def read_answers(path: str | os.PathLike[str]) -> Iterator[Answer]:
    """All answers of a file: JSON Lines (optionally compressed), CSV or Parquet."""
    for where, record in open_records(path).records():
        yield Answer.from_dict(record, where)


def write_answers(path: str | os.PathLike[str], answers: Iterable[Answer]) -> None:
    """Write answers as JSON Lines; ``-`` is standard output."""
    write_rows(path, (answer.to_dict() for answer in answers))


def drop_replaced_answers(answers: Iterable[Answer]) -> Iterator[Answer]:
    """Drop truncated answers for which there is a complete or later answer to the same prompt."""
    found = list(answers)
    whole = {(one.model, one.prompt_id) for one in found if not one.truncated}
    last = {(one.model, one.prompt_id): number for number, one in enumerate(found) if one.truncated}
    for number, one in enumerate(found):
        place = one.model, one.prompt_id
        if not one.truncated or (place not in whole and last[place] == number):
            yield one


def read_flag(row: Mapping[str, object], name: str, where: str) -> bool:
    """A boolean field; false if missing."""
    value = row.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    flag = _FLAGS.get(str(value).lower())
    if flag is None:
        raise UnreadableFile(f"{where}: {name} is {str(value)[:40]!r}; expected true or false")
    return flag


def _text(row: Mapping[str, object], name: str, where: str) -> str | None:
    value = row.get(name)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise UnreadableFile(f"{where}: {name} is {type(value).__name__}; expected text")
