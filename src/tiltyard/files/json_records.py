"""JSON Lines, and JSON lists of objects."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, TextIO

from tiltyard.errors import UnreadableFile
from tiltyard.files.input_file import InputFile, translate_read_errors
from tiltyard.files.records import Record

__all__ = ["JsonLinesRecords", "JsonListRecords", "parse_json"]

#: The columns of a JSON file are those of this many records at its start.
SAMPLE_ROWS = 100

_BOM = b"\xef\xbb\xbf"
_CHUNK_CHARACTERS = 1 << 16
_BLANK = re.compile(r"[ \t\r\n]*")


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
            for number, raw in enumerate(stream, start=1):
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
            scanner = _Scanner(self.name, stream, columns)
            scanner.take("[")
            if scanner.peek() != "]":
                yield scanner.record()
                while scanner.peek() == ",":
                    scanner.take(",")
                    yield scanner.record()
            scanner.take("]")
            scanner.finish()


def parse_json(where: str, line: bytes) -> Any:
    """Parse one JSON value; raises if it is not JSON or cannot be written back as UTF-8."""
    text, value = _parsed(where, line)
    _check_characters(where, text, value)
    return value


def _parsed(where: str, line: bytes) -> tuple[str, Any]:
    try:
        text = line.decode()
        return text, json.loads(text)
    except json.JSONDecodeError as error:
        raise UnreadableFile(f"{where}: not JSON ({error.msg}, column {error.colno})") from None
    except UnicodeDecodeError:
        raise UnreadableFile(f"{where}: not UTF-8 text; save the file as UTF-8") from None
    except RecursionError:
        raise UnreadableFile(f"{where}: nested too deeply to be read") from None
    except ValueError as error:
        raise UnreadableFile(f"{where}: cannot be read ({error})") from None


@dataclass
class _Scanner:
    """Scans the text of a JSON list, with one object in memory at a time."""

    name: str
    stream: TextIO
    columns: Collection[str] | None
    text: str = ""
    at: int = 0
    number: int = field(default=0, init=False)

    def peek(self) -> str:
        """The next non-blank character; empty at the end of the file."""
        while True:
            found = _BLANK.match(self.text, self.at)
            self.at = found.end() if found else self.at
            if self.at < len(self.text):
                return self.text[self.at]
            self.text, self.at = self.stream.read(_CHUNK_CHARACTERS), 0
            if not self.text:
                return ""

    def take(self, character: str) -> None:
        found = self.peek()
        if found != character:
            seen = repr(found) if found else "the end of the file"
            raise UnreadableFile(
                f"{self.name}, after record {self.number}: expected {character!r}, found {seen}"
            )
        self.at += 1

    def record(self) -> Record:
        self.number += 1
        where = f"{self.name}, record {self.number}"
        if self.peek() != "{":
            raise UnreadableFile(f"{where}: not a JSON object; expected a list of objects")
        decoder = json.JSONDecoder()
        while True:
            try:
                value, end = decoder.raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                more = self.stream.read(max(_CHUNK_CHARACTERS, len(self.text)))
                if not more:
                    raise UnreadableFile(f"{where}: not JSON ({error.msg})") from None
                self.text, self.at = self.text[self.at :] + more, 0
                continue
            except RecursionError:
                raise UnreadableFile(f"{where}: nested too deeply to be read") from None
            except ValueError as error:
                raise UnreadableFile(f"{where}: cannot be read ({error})") from None
            text, self.at = self.text[self.at : end], end
            return where, _object(where, text, value, self.columns)

    def finish(self) -> None:
        if self.peek():
            raise UnreadableFile(f"{self.name}: more text after the list of {self.number} records")


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
