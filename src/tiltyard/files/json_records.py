"""JSON: values within limits, documents scanned with one value in memory at a time, and records."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, TextIO

from tiltyard.errors import UnreadableFile
from tiltyard.files.input_file import (
    BOM,
    JSON_DEPTH_LIMIT,
    JSON_PART_LIMIT,
    JSON_VALUE_BYTES,
    FileRecords,
    InputFile,
    Record,
    bounded_lines,
    format_bytes,
    translate_read_errors,
)

#: The columns of a JSON file are those of this many records at its start.
SAMPLE_ROWS = 100

_CHUNK_CHARACTERS = 1 << 16
#: An error that near to the end of what was read may be the end of a chunk, in the middle of a word.
_WORD_CHARACTERS = 16
_BLANK = re.compile(r"[ \t\r\n]*")
_START_BYTES = 4096
#: By column ({"model_a": {"0": …), by row number ({"0": {…), or lists ({"columns": ["model_a", …).
_WHOLE_TABLE = re.compile(
    rb'\s*\{\s*(?:"[^"\\]{0,300}"\s*:\s*\{\s*"\d+"\s*:|"\d+"\s*:\s*\{|"(?:columns|index|model_a|model_b|winner)"\s*:\s*\[)'
)
#: A shorter text cannot be nested more deeply than the limit: each level takes two characters.
_SHALLOW_CHARACTERS = 2 * JSON_DEPTH_LIMIT


@dataclass(frozen=True)
class JsonLinesRecords(FileRecords):
    """One JSON object per line; empty lines are skipped."""

    columns: tuple[str, ...] = ()
    kind: ClassVar[str] = "jsonl"
    rows: ClassVar[int | None] = None

    @classmethod
    def opened(cls, file: InputFile) -> JsonLinesRecords:
        _refuse_whole_tables(file)
        return cls(file, _sampled_columns(cls(file).records(())))

    def records(self, columns: Collection[str] | None = None, /) -> Iterator[Record]:
        for where, line in self.lines():
            yield where, parse_object(where, line, columns)

    def lines(self) -> Iterator[tuple[str, bytes]]:
        """Every line that is not empty, unprocessed, with its location."""
        with translate_read_errors(self.name), self.file.open() as stream:
            for number, raw in enumerate(bounded_lines(self.name, stream), start=1):
                line = raw.removeprefix(BOM) if number == 1 else raw
                if line and not line.isspace():
                    yield f"{self.name}, line {number}", line


@dataclass(frozen=True)
class JsonListRecords(FileRecords):
    """One JSON list of objects, read incrementally."""

    columns: tuple[str, ...] = ()
    kind: ClassVar[str] = "json"
    rows: ClassVar[int | None] = None

    @classmethod
    def opened(cls, file: InputFile) -> JsonListRecords:
        return cls(file, _sampled_columns(cls(file).records(())))

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


def parse_object(where: str, line: bytes, columns: Collection[str] | None = None) -> dict[str, object]:
    """Parse one JSON object, of which only ``columns`` (``None``: all) will be used."""
    return _object(where, *_parsed(where, line), columns)


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


def _refuse_whole_tables(file: InputFile) -> None:
    """Refuse one object that holds all rows, in a line or in many: pandas writes tables so by default."""
    with translate_read_errors(file.name), file.open() as stream:
        start = stream.read(_START_BYTES).removeprefix(BOM)
    if _WHOLE_TABLE.match(start):
        raise UnreadableFile(
            f"{file.name}: one object that holds a whole table, where each row is expected in a line of its own; "
            'with pandas write it by df.to_json(path, orient="records", lines=True)'
        )


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


@dataclass
class JsonScanner:
    """A position in the text of a JSON document.

    `elements` and `members` yield before each element of a list and each value of an object; the
    caller then reads it by `value`, or by `elements` or `members` again.
    """

    name: str
    stream: TextIO
    text: str = ""
    at: int = 0
    #: How many elements of the last list have been found.
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

    def elements(self) -> Iterator[str]:
        """The location of each element of the list that is next."""
        self.take("[")
        self.number = 0
        if self.peek() != "]":
            while True:
                self.number += 1
                yield f"{self.name}, record {self.number}"
                if self.peek() != ",":
                    break
                self.take(",")
        self.take("]")

    def members(self) -> Iterator[str]:
        """The name of each member of the object that is next."""
        self.take("{")
        if self.peek() != "}":
            while True:
                _, name = self.value(self.name)
                if not isinstance(name, str):
                    raise UnreadableFile(f"{self.name}: not JSON (a name is not text)")
                self.take(":")
                yield name
                if self.peek() != ",":
                    break
                self.take(",")
        self.take("}")

    def value(self, where: str) -> tuple[str, Any]:
        """The text and the value that are next; errors name ``where``."""
        self.peek()
        while True:
            try:
                value, end = DECODER.raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                # Whether more text cannot mend it.
                if (
                    not error.msg.startswith("Unterminated") and error.pos < len(self.text) - _WORD_CHARACTERS
                ) or not self._lengthen(where):
                    raise UnreadableFile(f"{where}: not JSON ({error.msg})") from None
                continue
            except RecursionError:
                raise UnreadableFile(f"{where}: nested too deeply to be read") from None
            except ValueError as error:
                raise UnreadableFile(f"{where}: cannot be read ({error})") from None
            # A number may have been cut in two.
            if end == len(self.text) and self._lengthen(where):
                continue
            text, self.at = self.text[self.at : end], end
            check_depth(where, value)
            return text, value

    def _lengthen(self, where: str) -> bool:
        """Read as much again as there is of the value; false at the end of the file."""
        rest = self.text[self.at :]
        more = self.stream.read(max(_CHUNK_CHARACTERS, len(rest)))
        self.text, self.at = rest + more, 0
        if len(self.text) > JSON_VALUE_BYTES:
            raise UnreadableFile(f"{where}: longer than {format_bytes(JSON_VALUE_BYTES)}; split it")
        check_parts(where, self.text.count("[") + self.text.count("{"))
        return bool(more)


class DuplicateKey(ValueError):
    """A JSON object has a key twice."""


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        (key, _), *_rest = Counter(key for key, _ in pairs).most_common()
        raise DuplicateKey(f"the key {key[:80]!r} occurs twice in an object; remove one")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON; write null")


#: Readers disagree about which of two equal keys counts: both raise `DuplicateKey`. Other tools write NaN.
DECODER = json.JSONDecoder(object_pairs_hook=_distinct)
FINITE_DECODER = json.JSONDecoder(object_pairs_hook=_distinct, parse_constant=_no_constant)


def parse_json_text(where: str, text: str, decoder: json.JSONDecoder = DECODER) -> Any:
    """Parse one JSON value; raises `UnreadableFile` if it is not JSON, or beyond the limits."""
    if len(text) > _SHALLOW_CHARACTERS:
        check_parts(where, text.count("[") + text.count("{"))
    if len(text) > JSON_VALUE_BYTES:
        raise UnreadableFile(f"{where}: longer than {format_bytes(JSON_VALUE_BYTES)}; split it")
    try:
        value = decoder.decode(text)
    except json.JSONDecodeError as error:
        raise UnreadableFile(f"{where}: not JSON ({error.msg}, column {error.colno})") from None
    except RecursionError:
        raise _too_deep(where) from None
    except DuplicateKey as error:
        raise UnreadableFile(f"{where}: {error}") from None
    except ValueError as error:
        # Python names its own setting where a number has too many digits.
        raise UnreadableFile(
            f"{where}: cannot be read ({str(error).partition('; use sys.')[0][:300]})"
        ) from None
    if len(text) > _SHALLOW_CHARACTERS:
        check_depth(where, value)
    return value


def check_parts(where: str, count: int) -> None:
    """Raise if a value may have too many lists and objects: each takes many times its text."""
    if count > JSON_PART_LIMIT:
        raise UnreadableFile(
            f"{where}: more than {JSON_PART_LIMIT:,} lists and objects in one value; split it"
        )


def check_depth(where: str, value: Any) -> None:
    """Raise if a value is nested too deeply for those who walk it."""
    layer, depth = [value], 0
    while layer := [one for one in layer if isinstance(one, dict | list)]:
        depth += 1
        if depth > JSON_DEPTH_LIMIT:
            raise _too_deep(where)
        layer = [inner for one in layer for inner in (one.values() if isinstance(one, Mapping) else one)]


def _too_deep(where: str) -> UnreadableFile:
    return UnreadableFile(f"{where}: nested too deeply to be read; the limit is {JSON_DEPTH_LIMIT} levels")
