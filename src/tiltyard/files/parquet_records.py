"""Parquet files by row or by column, checked before Arrow takes the memory for them.

What a file states of its pages is read first, by a parser of our own: Arrow's access to the metadata of single columns
crashes on damaged files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar

import pyarrow as pa

from tiltyard.errors import UnreadableFile
from tiltyard.files.input_file import (
    DELIVERED_FLOOR_BYTES,
    EXPANSION_RATIO,
    FOOTER_BYTES,
    PAGE_BYTES,
    RECORD_BATCH_ROWS,
    ROW_FLOOR_LIMIT,
    ROWS_PER_BYTE_LIMIT,
    FileRecords,
    InputFile,
    Record,
    format_bytes,
    is_bomb,
    numbered_rows,
    reject_duplicate_columns,
    translate_read_errors,
)

#: The header of a page.
_HEADER_BYTES = 1 << 24
_FIRST_HEADER_BYTES = 1 << 10
_MAGIC = b"PAR1"
_DEPTH_LIMIT = 16

# Numbers of fields in parquet.thrift.
_FILE_ROWS_CODE, _FILE_GROUPS_CODE, _GROUP_CHUNKS_CODE, _CHUNK_METADATA_CODE = 3, 4, 1, 3
_COLUMN_TYPE_CODE, _COLUMN_PATH_CODE, _COLUMN_VALUES_CODE, _COLUMN_BYTES_CODE = 1, 3, 5, 7
_COLUMN_DATA_AT_CODE, _COLUMN_DICTIONARY_AT_CODE = 9, 11
_PAGE_TYPE_CODE, _PAGE_UNPACKED_CODE, _PAGE_PACKED_CODE, _PAGE_V1_CODE, _PAGE_V2_CODE = 1, 2, 3, 5, 8
# Values of types in it.
_DICTIONARY_PAGE_CODE, _TEXT_TYPE_CODE = 2, 6
#: What a batch may take if every value of it is the longest of its dictionary.
_BATCH_BYTES = 1 << 28


@dataclass(frozen=True)
class ParquetRecords(FileRecords):
    """A Parquet file; absent values are left out of the records."""

    schema: pa.Schema
    rows: int
    kind: ClassVar[str] = "parquet"

    @classmethod
    def opened(cls, file: InputFile) -> ParquetRecords:
        """Read the footer of an uncompressed file."""
        import pyarrow.parquet as pq

        with translate_read_errors(file.name), pq.ParquetFile(file.path) as parquet:
            # Do not read the metadata of single columns: on a damaged file, Arrow's binding crashes
            # the process.
            schema, rows = parquet.schema_arrow, parquet.metadata.num_rows
        reject_duplicate_columns(file.name, schema.names)
        return cls(file, schema, rows)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.schema.names)

    @property
    def column_types(self) -> Mapping[str, pa.DataType]:
        return {field.name: field.type for field in self.schema}

    def unpacked(self) -> int:
        """The uncompressed size in bytes that the file declares; repeated values count once."""
        return self._sizes(None).unpacked_bytes

    def _sizes(self, columns: Collection[str] | None) -> ParquetSizes:
        with translate_read_errors(self.name), self.file.path.open("rb") as stored:
            return check_parquet(self.name, stored, columns)

    def records(self, columns: Collection[str] | None = None, /) -> Iterator[Record]:
        wanted = [name for name in self.columns if columns is None or name in columns]
        return numbered_rows(self.name, self.batches(wanted, RECORD_BATCH_ROWS))

    def batches(
        self, columns: Sequence[str], batch_size: int, codes: Collection[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The named columns with the file's types; those in ``codes`` dictionary-encoded."""
        import pyarrow.parquet as pq

        coded = [name for name in codes if _is_text(self.schema.field(name).type)]
        sizes, size = self._sizes(columns), self.file.path.stat().st_size
        # Values that a file repeats by number are delivered once for each row.
        repeated = sum(held for name, held in sizes.dictionary_bytes.items() if name not in coded)
        rows = max(1, min(batch_size, _BATCH_BYTES // max(1, repeated)))
        # Pre-buffering would keep everything read in memory until the file is closed.
        options = {"read_dictionary": coded, "pre_buffer": False}
        with translate_read_errors(self.name), pq.ParquetFile(self.file.path, **options) as parquet:
            row = delivered = 0
            for batch in parquet.iter_batches(rows, columns=list(columns), use_threads=False):
                self._check(batch, row)
                delivered += batch.nbytes
                if is_bomb(delivered, size, DELIVERED_FLOOR_BYTES):
                    raise UnreadableFile(
                        f"{self.name}, row {row + 1}: the rows up to here are more than {EXPANSION_RATIO} times as large "
                        "as the file; if you trust it, write it again as JSON Lines"
                    )
                yield batch.select(list(columns))
                row += batch.num_rows

    def _check(self, batch: pa.RecordBatch, row: int) -> None:
        """Reject the dictionary codes out of range and the invalid text of a damaged file."""
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            try:
                array.validate(full=True)
            except pa.ArrowException as error:
                damage = "bytes that are not UTF-8 text" if "UTF8" in str(error) else "damaged values"
                rows = f"rows {row + 1} to {row + batch.num_rows}"
                raise UnreadableFile(f"{self.name}, {rows}: column {name} contains {damage}") from None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


class _Damaged(ValueError):
    """The bytes are not what the format says."""


@dataclass(frozen=True)
class ParquetSizes:
    """What some columns of a file state: all their bytes unpacked, and those of each text's largest dictionary."""

    unpacked_bytes: int
    dictionary_bytes: Mapping[str, int]


def check_parquet(name: str, file: BinaryIO, columns: Collection[str] | None = None) -> ParquetSizes:
    """The sizes of these columns (``None``: all); raises `UnreadableFile` if they are beyond the limits."""
    try:
        sizes, rows = read_parquet_sizes(name, file, columns)
    except (_Damaged, IndexError) as error:
        raise UnreadableFile(f"{name}: damaged Parquet ({error}); get another copy") from None
    stored = file.seek(0, os.SEEK_END)
    file.seek(0)
    if is_bomb(sizes.unpacked_bytes, stored):
        raise UnreadableFile(
            f"{name}: states to expand to {format_bytes(sizes.unpacked_bytes)}, more than {EXPANSION_RATIO} times "
            "its size; if you trust it, write it again with less compression"
        )
    if rows > max(ROW_FLOOR_LIMIT, ROWS_PER_BYTE_LIMIT * stored):
        raise UnreadableFile(
            f"{name}: states {rows:,} rows in {format_bytes(stored)}; if you trust it, write it again as JSON Lines"
        )
    return sizes


def read_parquet_sizes(
    name: str, file: BinaryIO, columns: Collection[str] | None = None
) -> tuple[ParquetSizes, int]:
    """The sizes of these columns, and the rows of the file."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 8))
    end = file.read(8)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != _MAGIC or length > size - 12:
        raise _Damaged("there is no footer at its end")
    if length > FOOTER_BYTES:
        raise _Damaged(f"its footer has more than {format_bytes(FOOTER_BYTES)}")
    file.seek(size - 8 - length)
    document = _Thrift(file.read(length)).struct()
    unpacked, dictionaries = 0, dict[str, int]()
    for group in _items(document.get(_FILE_GROUPS_CODE)):
        for chunk in _items(_struct(group).get(_GROUP_CHUNKS_CODE)):
            column = _struct(_struct(chunk).get(_CHUNK_METADATA_CODE))
            path = _items(column.get(_COLUMN_PATH_CODE))
            label = bytes(path[0]).decode("utf-8", "replace") if path and isinstance(path[0], bytes) else ""
            if columns is not None and label not in columns:
                continue
            for kind, page in _pages(name, file, size, column):
                unpacked += page
                if kind == _DICTIONARY_PAGE_CODE and column.get(_COLUMN_TYPE_CODE) == _TEXT_TYPE_CODE:
                    dictionaries[label] = max(page, dictionaries.get(label, 0))
    return ParquetSizes(unpacked, dictionaries), _number(document.get(_FILE_ROWS_CODE))


def _pages(name: str, file: BinaryIO, size: int, column: dict[int, Any]) -> Iterator[tuple[int, int]]:
    """The type and the unpacked size of each page of a column chunk."""
    at, first = _number(column.get(_COLUMN_DATA_AT_CODE)), column.get(_COLUMN_DICTIONARY_AT_CODE)
    if isinstance(first, int) and 0 < first < at:
        at = first
    end, left = at + _number(column.get(_COLUMN_BYTES_CODE)), _number(column.get(_COLUMN_VALUES_CODE))
    if not 0 <= at <= end <= size:
        raise _Damaged("a column lies outside the file")
    while at < end and left > 0:
        header, length = _page_header(file, at, end)
        unpacked, packed = _number(header.get(_PAGE_UNPACKED_CODE)), _number(header.get(_PAGE_PACKED_CODE))
        if unpacked < 0 or not 0 <= packed <= end - at - length:
            raise _Damaged("a page lies outside its column")
        if unpacked > PAGE_BYTES:
            raise UnreadableFile(
                f"{name}: has a page of {format_bytes(unpacked)}, the limit is {format_bytes(PAGE_BYTES)}; "
                "write it again with fewer rows in a page"
            )
        yield _number(header.get(_PAGE_TYPE_CODE)), unpacked
        about = _struct(header.get(_PAGE_V1_CODE) or header.get(_PAGE_V2_CODE) or {})
        left -= max(0, _number(about.get(1, 0)))
        at += length + packed


def _page_header(file: BinaryIO, at: int, end: int) -> tuple[dict[int, Any], int]:
    """A page header, and its length: statistics may make it long."""
    wanted = _FIRST_HEADER_BYTES
    while True:
        file.seek(at)
        reader = _Thrift(file.read(min(wanted, end - at)))
        try:
            return reader.struct(), reader.at
        except IndexError:
            if wanted >= min(_HEADER_BYTES, end - at):
                raise
            wanted *= 16


def _struct(value: Any) -> dict[int, Any]:
    if not isinstance(value, dict):
        raise _Damaged("a part of its metadata is missing")
    return value


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any) -> int:
    if not isinstance(value, int):
        raise _Damaged("a number of its metadata is missing")
    return value


class _Thrift:
    """Values in Thrift's compact protocol; reading past the end is an `IndexError`."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0
        self._depth = 0

    def struct(self) -> dict[int, Any]:
        """The fields of a struct by their numbers; texts are bytes."""
        fields: dict[int, Any] = {}
        number = 0
        while kind := (head := self.byte()) & 0x0F:
            number = number + (head >> 4) if head >> 4 else self.integer()
            fields[number] = kind == 1 if kind in (1, 2) else self._value(kind)
        return fields

    def _value(self, kind: int) -> Any:
        if not 1 <= kind <= len(_THRIFT_READERS):
            raise _Damaged("its metadata have a value of an unknown type")
        self._depth += 1
        if self._depth > _DEPTH_LIMIT:
            raise _Damaged("its metadata are nested too deeply")
        value = _THRIFT_READERS[kind - 1](self)
        self._depth -= 1
        return value

    def items(self) -> list[Any]:
        head = self.byte()
        count = head >> 4 if head >> 4 != 15 else self._unsigned()
        if count > len(self._data) - self.at:
            raise _Damaged("a list is longer than the metadata")
        return [self._value(head & 0x0F) for _ in range(count)]

    def pairs(self) -> list[Any]:
        count = self._unsigned()
        if count > len(self._data) - self.at:
            raise _Damaged("a map is longer than the metadata")
        kinds = self.byte() if count else 0
        return [(self._value(kinds >> 4), self._value(kinds & 0x0F)) for _ in range(count)]

    def byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def text(self) -> bytes:
        return self._skip(self._unsigned())

    def double(self) -> bytes:
        return self._skip(8)

    def _skip(self, size: int) -> bytes:
        self.at += size
        if self.at > len(self._data):
            raise IndexError("metadata end early")
        return self._data[self.at - size : self.at]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            if shift > 63:
                raise _Damaged("a number of its metadata is too long")

    def integer(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)


#: How values are read, by their type from 1 on: truth, bytes, integers, doubles, texts, lists, sets, maps, structs.
_THRIFT_READERS: tuple[Callable[[_Thrift], Any], ...] = (
    *[_Thrift.byte] * 3,
    *[_Thrift.integer] * 3,
    _Thrift.double,
    _Thrift.text,
    *[_Thrift.items] * 2,
    _Thrift.pairs,
    _Thrift.struct,
)
