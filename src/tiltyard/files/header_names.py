"""Headers in other spellings: ``Model A``, ``model_1`` and ``WINNER`` are columns of battles too."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tiltyard.files.canonical_columns import CANONICAL, OTHER_NAMES, RESPONSES, STYLE
from tiltyard.files.memory_records import FrameRecords
from tiltyard.files.parquet_records import ParquetRecords
from tiltyard.files.records import ColumnRecords, Record, Records

_WORDS = (*CANONICAL, *OTHER_NAMES, *RESPONSES, *STYLE, "blind", "loser", "unrated")
#: Spellings beyond case, spaces and punctuation.
_ALIASES = {
    "modela": "model_a",
    "modelb": "model_b",
    "model_1": "model_a",
    "model_2": "model_b",
    "model1": "model_a",
    "model2": "model_b",
}
#: Names of the column of questions in files of battles that have none with its own name.
QUESTION_NAMES = {"prompt_id": "question_id"}


def respelled(records: Records, mapped: Mapping[str, str]) -> Records:
    """The records with their headers in canonical spelling, where exactly one header can be meant.

    Headers that the caller has mapped, and fields that the caller has mapped to a header, are left alone.
    """
    meant: dict[str, list[str]] = {}
    for header in records.columns:
        if header not in mapped.values():
            meant.setdefault(_word(header), []).append(header)
    # Files without pairs are no battles, and messages name their columns as they are.
    if "model_b" in meant or "model_b" in mapped:
        for other, name in QUESTION_NAMES.items():
            if other in meant and name not in meant:
                meant[name] = meant.pop(other)
    names = {
        headers[0]: word
        for word, headers in meant.items()
        if word in _WORDS and word not in records.columns and word not in mapped and len(headers) == 1
    }
    if not names:
        return records
    if isinstance(records, ParquetRecords | FrameRecords):
        return RenamedColumns(records, names)
    return RenamedRecords(records, names)


def _word(header: str) -> str:
    letters = "".join(letter if letter.isalnum() else " " for letter in header.lower())
    word = "_".join(letters.split())
    return _ALIASES.get(word, word)


@dataclass(frozen=True)
class RenamedRecords:
    """Records under other names. ``names`` maps headers to the names they get."""

    origin: Records
    names: Mapping[str, str]

    @property
    def kind(self) -> str:
        return self.origin.kind

    @property
    def name(self) -> str:
        return self.origin.name

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.names.get(header, header) for header in self.origin.columns)

    @property
    def rows(self) -> int | None:
        return self.origin.rows

    def records(self, columns: Collection[str] | None = None, /) -> Iterator[Record]:
        wanted = None if columns is None else set(self._headers(list(columns)))
        for where, record in self.origin.records(wanted):
            yield where, {self.names.get(header, header): value for header, value in record.items()}

    def _headers(self, columns: Sequence[str]) -> list[str]:
        headers = {name: header for header, name in self.names.items()}
        return [headers.get(name, name) for name in columns]


@dataclass(frozen=True)
class RenamedColumns(RenamedRecords):
    """Columns under other names."""

    origin: ColumnRecords

    @property
    def column_types(self) -> Mapping[str, pa.DataType]:
        return {self.names.get(header, header): kind for header, kind in self.origin.column_types.items()}

    def batches(
        self, columns: Sequence[str], batch_size: int, codes: Collection[str] = (), /
    ) -> Iterator[pa.RecordBatch]:
        coded = self._headers(list(codes))
        for batch in self.origin.batches(self._headers(columns), batch_size, coded):
            yield pa.RecordBatch.from_arrays(batch.columns, names=list(columns))
