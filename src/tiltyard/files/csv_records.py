"""Delimited text: comma, tab or semicolon, with a header."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from tiltyard.errors import UnreadableFile
from tiltyard.files.input_file import InputFile, translate_read_errors
from tiltyard.files.read_limits import LINE_BYTES, bounded_lines
from tiltyard.files.records import Record, reject_duplicate_columns

_DELIMITERS = ",\t;"


@dataclass(frozen=True)
class CsvRecords:
    """A header and its rows; an empty field is an absent value."""

    file: InputFile
    columns: tuple[str, ...]
    delimiter: str
    kind: ClassVar[str] = "csv"
    rows: ClassVar[int | None] = None

    @classmethod
    def opened(cls, file: InputFile) -> CsvRecords:
        with translate_read_errors(f"{file.name}, line 1"):
            with file.open_text() as stream:
                line = stream.readline(1 << 20)
            delimiter = max(_DELIMITERS, key=line.count)
            columns: list[str] = next(_rows([line], delimiter), [])
        reject_duplicate_columns(f"{file.name}, line 1", columns)
        return cls(file, tuple(columns), delimiter)

    @property
    def name(self) -> str:
        return self.file.name

    def records(self, _columns: Collection[str] | None = None, /) -> Iterator[Record]:
        for where, fields in self.lines(self.name):
            yield where, self._record(where, fields)

    def lines(self, name: str) -> Iterator[tuple[str, list[str]]]:
        """Every non-empty line below the header, unprocessed, with its location in the file called ``name``."""
        with translate_read_errors(self.name), self.file.open_text() as stream:
            reader = _rows(bounded_lines(name, stream), self.delimiter)
            next(reader, None)
            while True:
                where = f"{name}, line {reader.line_num + 1}"
                try:
                    fields = next(reader, None)
                except csv.Error as error:
                    raise UnreadableFile(f"{where}: broken CSV ({error})") from None
                if fields is None:
                    return
                if fields:
                    yield where, fields

    def _record(self, where: str, fields: list[str]) -> dict[str, object]:
        if len(fields) != len(self.columns):
            raise UnreadableFile(
                f"{where}: {len(fields)} fields where the header has {len(self.columns)}; "
                "quote a field that contains the delimiter"
            )
        return {name: text for name, text in zip(self.columns, fields, strict=True) if text != ""}


def _rows(lines: Any, delimiter: str) -> Any:
    # Models' answers can exceed the csv module's default limit of 128 kB.
    csv.field_size_limit(max(csv.field_size_limit(), LINE_BYTES))
    return csv.reader(lines, delimiter=delimiter, strict=True)
