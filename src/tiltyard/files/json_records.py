"""JSON Lines, and JSON lists of objects."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from tiltyard.errors import UnreadableFile
from tiltyard.files.input_file import InputFile, translate_read_errors
from tiltyard.files.json_scanner import JsonScanner
from tiltyard.files.json_values import parse_json_text
from tiltyard.files.read_limits import bounded_lines
from tiltyard.files.records import Record

#: The columns of a JSON file are those of this many records at its start.
SAMPLE_ROWS = 100

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class JsonLinesRecords:
    """One JSON object per line; empty lines are skipped."""

    file: InputFile
    columns: tuple[str, ...] = ()
    kind: ClassVar[str] = "jsonl"
    rows: ClassVar[int | None] = None

    @classmethod
    def opened(cls, file: InputFile) -> JsonLinesRecords:
        return cls(file, _sampled_columns(cls(file).records(())))

    @property
    def name(self) -> str:
        return self.file.name

    def records(self, columns: Collection[str] | None = None, /) -> Iterator[Record]:
        with translate_read_errors(self.name), self.file.open() as stream:
            for number, raw in enumerate(bounded_lines(self.name, stream), start=1):
                line = raw.removeprefix(_BOM) if number == 1 else raw
                if line and not line.isspace():
                    where = f"{self.name}, line {number}"
                    text, value = _parsed(where, line)
                    yield where, _object(where, text, value, columns)


@dataclass(frozen=True)
class JsonListRecords:
    """One JSON list of objects, read incrementally."""

    file: InputFile
    columns: tuple[str, ...] = ()
    kind: ClassVar[str] = "json"
    rows: ClassVar[int | None] = None

    @classmethod
    def opened(cls, file: InputFile) -> JsonListRecords:
        return cls(file, _sampled_columns(cls(file).records(())))

    @property
    def name(self) -> str:
        return self.file.name

    def records(self, columns: Collection[str] | None = None, /) -> Iterator[Record]:
        with translate_read_errors(self.name), self.file.open_text() as stream:
            scanner = JsonScanner(self.name, stream)
            for where in scanner.elements():
                if scanner.peek() != "{":
                    raise UnreadableFile(f"{where}: not a JSON object; expected a list of objects")
                text, value = scanner.value(where)
                yield where, _object(where, text, value, columns)
            if scanner.peek():
                raise UnreadableFile(f"{self.name}: more text after the list of {scanner.number} records")


def parse_json(where: str, line: bytes) -> Any:
    """Parse one JSON value; raises if it is not JSON or cannot be written back as UTF-8."""
    text, value = _parsed(where, line)
    _check_characters(where, text, value)
    return value


def load_json(where: str, data: bytes) -> Any:
    """Parse one JSON value, which may contain lone surrogates; raises if it is not JSON."""
    return _parsed(where, data)[1]


def _parsed(where: str, line: bytes) -> tuple[str, Any]:
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise UnreadableFile(f"{where}: not UTF-8 text; save the file as UTF-8") from None
    return text, parse_json_text(where, text)


def _sampled_columns(records: Iterator[Record]) -> tuple[str, ...]:
    seen = dict.fromkeys(key for _, record in itertools.islice(records, SAMPLE_ROWS) for key in record)
    return tuple(seen)


def _object(where: str, text: str, value: Any, columns: Collection[str] | None) -> dict[str, object]:
    """The record in ``text``, of which only ``columns`` (``None``: all) will be used."""
    if not isinstance(value, dict):
        raise UnreadableFile(f"{where}: not a JSON object; expected one object per line")
    if "\\u" in text:
        used = value if columns is None else {key: value[key] for key in columns if key in value}
        _check_characters(where, text, used)
    return value


def _check_characters(where: str, text: str, value: Any) -> None:
    """Reject lone surrogates, which are legal in JSON but cannot be encoded as UTF-8."""
    if "\\u" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise UnreadableFile(f"{where}: contains a lone surrogate, which is not a character") from None
