"""Native Parquet files, read by column; single rows are read only when necessary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from tiltyard.core.battles.battle import Battle
from tiltyard.errors import BadBattle
from tiltyard.files.canonical_columns import CANONICAL, EXTRA_JSON, OTHER_NAMES, RESPONSES, STYLE, TEXT
from tiltyard.files.column_types import canonical_array, style_array
from tiltyard.files.input_file import translate_read_errors
from tiltyard.files.json_records import parse_json
from tiltyard.files.parquet_records import ParquetRecords
from tiltyard.files.row_reader import parse_battle
from tiltyard.files.style_text import style_row

__all__ = ["ParquetReader"]

_BATCH_ROWS = 4096


@dataclass(frozen=True)
class ParquetReader:
    """A Parquet file of battles. ``mapped`` maps canonical names to headers, where they differ."""

    records: ParquetRecords
    mapped: Mapping[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> int | None:
        return self.records.rows

    @property
    def stored(self) -> tuple[str, ...]:
        headers = self._headers()
        known = [name for name in CANONICAL if name in headers]
        return (*known, *(name for name in headers if name not in CANONICAL))

    @property
    def later(self) -> tuple[str, ...]:
        return ()

    @property
    def countable(self) -> tuple[str, ...]:
        headers = self._headers()
        return tuple(name for name in STYLE if name not in headers) if set(RESPONSES) <= set(headers) else ()

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        fields = {name: self.records.schema.field(header) for name, header in self._headers().items()}
        return {name: field.type for name, field in fields.items() if name not in {*CANONICAL, *STYLE}}

    def batches(
        self, columns: Sequence[str], batch_size: int, _tally: Counter[str], /
    ) -> Iterator[pa.RecordBatch]:
        countable = self.countable
        counted = [name for name in columns if name in countable]
        reads = [name for name in columns if name not in countable]
        reads += [name for name in RESPONSES if counted and name not in reads]
        row = 0
        for batch in self._read(reads, batch_size, coded=True):
            made = dict(zip(reads, batch.columns, strict=True))
            for name in set(reads).intersection(STYLE):
                made[name] = style_array(self.records.name, name, made[name], row)
            if counted:
                made = self._styles([made[name] for name in RESPONSES], row) | made
            yield pa.RecordBatch.from_arrays([made[name] for name in columns], names=list(columns))
            row += batch.num_rows

    def battles(self, _tally: Counter[str], /) -> Iterator[Battle]:
        number = 0
        for batch in self._read(self.stored, _BATCH_ROWS, coded=False):
            with translate_read_errors(
                f"{self.records.name}, rows {number + 1} to {number + batch.num_rows}"
            ):
                rows = batch.to_pylist()
            for row in rows:
                number += 1
                where = f"{self.records.name}, row {number}"
                yield parse_battle(where, _unpacked(where, row))

    def _read(self, columns: Sequence[str], batch_size: int, *, coded: bool) -> Iterator[pa.RecordBatch]:
        """The columns under their canonical names and in their canonical types."""
        headers = self._headers()
        codes = [headers[name] for name in columns if coded and name in TEXT]
        row = 0
        reads = list(dict.fromkeys(headers[name] for name in columns))
        for batch in self.records.batches(reads, batch_size, codes):
            arrays = [
                canonical_array(self.records.name, name, batch.column(headers[name]), row) for name in columns
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))
            row += batch.num_rows

    def _headers(self) -> dict[str, str]:
        """Maps output column names to headers in the file."""
        taken = {*self.mapped, *self.mapped.values()}
        headers = dict(self.mapped)
        for header in self.records.columns:
            name = OTHER_NAMES.get(header, header)
            if header not in taken and (name == header or name not in self.records.columns):
                headers.setdefault(name, header)
        return headers

    def _styles(self, answers: Sequence[pa.Array], row: int) -> dict[str, pa.Array]:
        """The style columns, measured in the answers of one batch that starts after ``row`` rows."""
        rows = []
        for number, pair in enumerate(
            zip(*(array.to_pylist() for array in answers), strict=True), start=row + 1
        ):
            if not all(isinstance(text, str) for text in pair):
                where = f"{self.records.name}, row {number}"
                raise BadBattle("an answer is missing or is not text; style is measured in text", where=where)
            rows.append(style_row(*pair))
        return {name: pa.array([row[name] for row in rows], pa.float64()) for name in STYLE}


def _unpacked(where: str, row: dict[str, object]) -> dict[str, object]:
    """The row as written: without absent values, and with the fields kept as JSON restored."""
    packed = row.pop(EXTRA_JSON, None)
    kept = {key: value for key, value in row.items() if value is not None}
    if packed is None:
        return kept
    fields = parse_json(f"{where}, column {EXTRA_JSON}", str(packed).encode())
    if not isinstance(fields, dict):
        raise BadBattle(f"{EXTRA_JSON} is not a JSON object", where=where)
    return fields | kept
