"""Native CSV files, read by column; from the first row that needs a closer look they are read row by row."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.csv

from tiltyard.errors import BadOption, InputError
from tiltyard.files.canonical_columns import REQUIRED, STYLE, TYPES
from tiltyard.files.column_types import canonical_array
from tiltyard.files.conditions import wanted_columns
from tiltyard.files.csv_quotes import CheckedQuotes
from tiltyard.files.csv_records import CsvRecords
from tiltyard.files.outcome_words import outcome_array, winners_by_name
from tiltyard.files.records import Records
from tiltyard.files.row_reader import RowReader

_BLOCK_BYTES = 1 << 22
#: Columns of numbers; text in them that Arrow does not take for a number is left to the reader of rows.
_NUMBERS = frozenset({"pref", "weight", *STYLE})


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
        plain = all(name in headers and name not in ("time", "position") for name in columns)
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
