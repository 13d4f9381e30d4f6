"""Delimited text with a header, comma, tab or semicolon: as records, and battles in it by column.

Columns are read by Arrow, whose reader repairs quotes that stand in the wrong place: they are checked on the way. From
the first row that needs a closer look, rows are read one by one.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.csv

from tiltyard.errors import BadOption, InputError, UnreadableFile
from tiltyard.files.canonical_columns import REQUIRED, STYLE, TYPES, canonical_array
from tiltyard.files.conditions import wanted_columns
from tiltyard.files.input_file import InputFile, translate_read_errors
from tiltyard.files.read_limits import LINE_BYTES, bounded_lines
from tiltyard.files.read_options import outcome_array, winners_by_name
from tiltyard.files.records import FileRecords, Record, Records, reject_duplicate_columns
from tiltyard.files.row_reader import RowReader

_BLOCK_BYTES = 1 << 22
#: Columns of numbers; text in them that Arrow does not take for a number is left to the reader of rows.
_NUMBERS = frozenset({"pref", "weight", *STYLE})
_DELIMITERS = ",\t;"
_QUOTE = ord('"')
_LINE_ENDS = (ord("\n"), ord("\r"))


@dataclass(frozen=True)
class CsvRecords(FileRecords):
    """A header and its rows; an empty field is an absent value."""

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

    def records(self, _columns: Collection[str] | None = None, /) -> Iterator[Record]:
        for where, fields in self.lines():
            yield where, self.record(where, fields)

    def lines(self) -> Iterator[tuple[str, list[str]]]:
        """Every non-empty line below the header, unprocessed, with its location."""
        with translate_read_errors(self.name), self.file.open_text() as stream:
            reader = _rows(bounded_lines(self.name, stream), self.delimiter)
            next(reader, None)
            while True:
                where = f"{self.name}, line {reader.line_num + 1}"
                try:
                    fields = next(reader, None)
                except csv.Error as error:
                    raise UnreadableFile(f"{where}: broken CSV ({error})") from None
                if fields is None:
                    return
                if fields:
                    yield where, fields

    def record(self, where: str, fields: list[str]) -> dict[str, object]:
        """The fields of a line by their headers; raises if there are more or fewer."""
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


def csv_records(records: Records) -> CsvRecords | None:
    """The CSV file behind records, whatever their headers are called."""
    origin = getattr(records, "origin", records)
    return origin if isinstance(origin, CsvRecords) else None


@dataclass(frozen=True)
class CsvReader(RowReader):
    """A CSV file of battles."""

    def batches(
        self, columns: Sequence[str], batch_size: int, tally: Counter[str], /
    ) -> Iterator[pa.RecordBatch]:
        asked = wanted_columns(columns, self.condition, self.stored)
        headers = self._file_headers(asked)
        rows, left_out = 0, Counter[str]()
        if self.invalid is None and headers is not None:
            try:
                for read in self._column_batches(asked, headers):
                    batch = read if self.condition is None else self.condition.kept(read, left_out)
                    yield batch.select(list(columns))
                    rows += batch.num_rows
            except BadOption:
                raise
            except (pa.ArrowException, InputError, ValueError, OSError):
                pass
            else:
                tally.update(left_out)
                return
        # From here on every row is read again, and counted again.
        self.repairs.changes.clear()
        rest = itertools.islice(self._located(tally, style=self._measures(columns)), rows, None)
        yield from self._row_batches(rest, columns, batch_size)

    def _file_headers(self, columns: Sequence[str]) -> dict[str, str] | None:
        """The header of each column in the file; nothing where a column is more than text or a number."""
        records = csv_records(self.records)
        assert records is not None
        places = dict(zip(self.records.columns, records.columns, strict=True))
        free = {name: header for name, header in places.items() if name not in self.mapped.values()}
        if {"winner", "outcome"} <= set(free) or self._measures(columns):
            return None
        headers = {**free, **{name: places[header] for name, header in self.mapped.items()}}
        if "winner" not in headers and "outcome" in headers:
            headers["winner"] = headers["outcome"]
        plain = all(name in headers and name != "position" for name in columns)
        return {name: headers[name] for name in columns} if plain and columns else None

    def _column_batches(self, columns: Sequence[str], headers: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        for read in self._text_batches(list(dict.fromkeys(headers.values()))):
            arrays = {name: self._array(name, read.column(headers[name])) for name in columns}
            if set(REQUIRED) <= set(columns):
                arrays["winner"] = winners_by_name(arrays["winner"], arrays["model_a"], arrays["model_b"])
            yield pa.RecordBatch.from_arrays(list(arrays.values()), names=list(columns))

    def _array(self, name: str, array: pa.Array) -> pa.Array:
        if name in _NUMBERS:
            return array.cast(TYPES.get(name, pa.float64()))
        array = self.repairs.array(name, array)
        return canonical_array(
            self.records.name, name, outcome_array(array, self.outcomes) if name == "winner" else array, 0
        )

    def _text_batches(self, headers: list[str]) -> Iterator[pa.RecordBatch]:
        """The columns as text, with nulls for empty fields."""
        records = csv_records(self.records)
        assert records is not None
        with (
            closing(CheckedQuotes(records.file.open(), records.delimiter)) as stream,
            pyarrow.csv.open_csv(
                stream,
                pyarrow.csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
                pyarrow.csv.ParseOptions(delimiter=records.delimiter, newlines_in_values=True),
                pyarrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(headers, pa.string()),
                    include_columns=headers,
                    null_values=[""],
                    strings_can_be_null=True,
                ),
            ) as opened,
        ):
            yield from opened


class CheckedQuotes(io.RawIOBase):
    """A stream of CSV that raises `ValueError` before it returns bytes with a misplaced quote.

    A quoted field begins after a delimiter or a line's end, and ends before one; quotes inside it are doubled.
    """

    def __init__(self, stream: BinaryIO, delimiter: str) -> None:
        super().__init__()
        self._stream = stream
        self._borders = np.array([ord(delimiter), *_LINE_ENDS], dtype=np.uint8)
        self._quotes = 0
        self._last = _LINE_ENDS[0]

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        if data:
            self._check(np.frombuffer(data, dtype=np.uint8))
        elif self._quotes % 2:
            raise ValueError("a quoted field does not end")
        return data

    def close(self) -> None:
        self._stream.close()
        super().close()

    def _check(self, data: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> None:
        after_closing = self._last == _QUOTE and self._quotes % 2 == 0 and self._quotes > 0
        if after_closing and data[0] != _QUOTE and data[0] not in self._borders:
            raise ValueError("text after a quoted field")
        places = np.flatnonzero(data == _QUOTE)
        opening = (np.arange(len(places)) + self._quotes) % 2 == 0
        before = np.concatenate([[self._last], data[:-1]])[places[opening]]
        closings = places[~opening]
        after = data[np.minimum(closings + 1, len(data) - 1)][closings + 1 < len(data)]
        allowed = np.append(self._borders, _QUOTE)
        if not (np.isin(before, allowed).all() and np.isin(after, allowed).all()):
            raise ValueError("a quote in the wrong place")
        self._quotes += len(places)
        self._last = int(data[-1])
