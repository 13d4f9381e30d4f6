"""Files as bytes: paths, standard input and what was fetched, decompression, limits, errors; and what records of them offer.

Real files stay far below the limits, which `docs/reference/formats.md` lists.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import shutil
import sys
import tempfile
import weakref
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, AnyStr, BinaryIO, Protocol, cast

import pyarrow as pa

from tiltyard.errors import UnreadableFile
from tiltyard.foundation.local_files import SpecialFile, check_no_device
from tiltyard.foundation.option_names import quoted

#: A line of JSON Lines or CSV, a field of CSV, and a cell.
LINE_BYTES = 1 << 26
#: A value in a JSON document.
JSON_VALUE_BYTES = 1 << 28
#: Levels of a JSON value, and its lists and objects.
JSON_DEPTH_LIMIT = 200
JSON_PART_LIMIT = 1_000_000
#: What is compressed may expand to so many times its size, and to so much in any case.
EXPANSION_RATIO = 100
EXPANSION_FLOOR_BYTES = 1 << 26
#: The same of values that Parquet repeats by number: they are delivered once for each row.
DELIVERED_FLOOR_BYTES = 1 << 30
#: A zip archive: a member, all of them, how many there are, and what is read of it (or of a tar archive) in one piece.
MEMBER_BYTES = JSON_VALUE_BYTES
ARCHIVE_BYTES = 1 << 36
MEMBER_LIMIT = 1_000_000
ARCHIVE_READ_BYTES = 1 << 26
#: A Parquet file: its footer, and a page as it is stored and as it is unpacked.
FOOTER_BYTES = 1 << 26
PAGE_BYTES = 1 << 29
#: Rows that it may have whatever its size, and for each of its bytes: equal values take next to no space.
ROW_FLOOR_LIMIT = 1 << 20
ROWS_PER_BYTE_LIMIT = 8
#: A workbook: cells of a sheet from the first to the last row and column, texts; levels of its XML, which has under ten.
SHEET_CELLS = 5_000_000
XML_DEPTH_LIMIT = 64

STDIN = "standard input"

#: The byte-order mark of UTF-8, which some programs write first.
BOM = b"\xef\xbb\xbf"
#: What compressed files begin with.
COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_LISTED_COUNT = 5
_BLANK = b" \t\r\n"

#: Rows converted to Python objects at a time: conversations are large.
RECORD_BATCH_ROWS = 1024

#: A record and its location (``votes.jsonl, line 12``).
Record = tuple[str, dict[str, object]]


def is_bomb(size: int, packed: int, floor: int = EXPANSION_FLOOR_BYTES) -> bool:
    """Whether so few bytes must not expand to so many."""
    return size > max(floor, EXPANSION_RATIO * packed)


def check_expansion(where: str, size: int, packed: int, advice: str) -> None:
    """Raise if so few bytes expand to so many."""
    if is_bomb(size, packed):
        raise UnreadableFile(
            f"{where}: expands to more than {EXPANSION_RATIO} times its {format_bytes(packed)}; {advice}"
        )


def bounded_lines(name: str, stream: IO[AnyStr]) -> Iterator[AnyStr]:
    """The lines of a stream of bytes or text; raises at one that is too long, before it is in memory."""
    number = 0
    while line := stream.readline(LINE_BYTES + 1):
        number += 1
        if len(line) > LINE_BYTES:
            raise UnreadableFile(
                f"{name}, line {number}: longer than {format_bytes(LINE_BYTES)}; split it, or check that it is text"
            )
        yield line


def format_bytes(size: int) -> str:
    """A size in the largest binary unit that leaves a whole number, or in bytes."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size:,} bytes"


@dataclass(frozen=True, eq=False)
class InputFile:
    """Bytes that can be read any number of times; ``name`` is used in messages."""

    name: str
    path: Path
    compression: str | None

    def open(self) -> BinaryIO:
        """The bytes from the start, decompressed."""
        match self.compression:
            case "gzip":
                return self._bounded(cast("BinaryIO", gzip.open(self.path, "rb")))
            case "zstd":
                return self._bounded(pa.CompressedInputStream(pa.OSFile(os.fspath(self.path)), "zstd"))
            case _:
                return self.path.open("rb", buffering=1 << 18)

    def _bounded(self, stream: BinaryIO) -> BinaryIO:
        expanded = _ExpandedStream(self.name, stream, self.path.stat().st_size)
        return cast("BinaryIO", io.BufferedReader(expanded, 1 << 18))

    @contextmanager
    def open_text(self) -> Iterator[io.TextIOWrapper]:
        """The bytes as UTF-8 text, with line endings unchanged."""
        try:
            with io.TextIOWrapper(self.open(), encoding="utf-8-sig", newline="") as stream:
                yield stream
        except UnicodeDecodeError:
            where = f"{self.name}, line {self._first_line_of_other_bytes()}"
            raise UnreadableFile(f"{where}: not UTF-8 text; save the file as UTF-8") from None

    def _first_line_of_other_bytes(self) -> int:
        with self.open() as stream:
            for number, line in enumerate(bounded_lines(self.name, stream), start=1):
                try:
                    line.decode()
                except UnicodeDecodeError:
                    return number
        raise AssertionError("every line is UTF-8 text")

    def first_bytes(self) -> bytes:
        """The first bytes that are not blank, as many as tell what the file is; none if all are."""
        with translate_read_errors(self.name), self.open() as stream:
            start = stream.read(4).removeprefix(BOM)
            while start and not start.strip(_BLANK):
                start = stream.read(4096)
        return start.lstrip(_BLANK)

    def decompressed(self) -> InputFile:
        """The same bytes in an uncompressed file, for readers that must seek."""
        if self.compression is None:
            return self
        with translate_read_errors(self.name), self.open() as stream:
            return spool_input(self.name, stream)


class _ExpandedStream(io.RawIOBase):
    """What a compressed file expands to; raises where that is too much for its size."""

    def __init__(self, name: str, stream: BinaryIO, packed: int) -> None:
        super().__init__()
        self._name = name
        self._stream = stream
        self._packed = packed
        self._size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self._stream.read(len(view))
        view[: len(data)] = data
        self._size += len(data)
        check_expansion(
            self._name, self._size, self._packed, "if you trust it, unpack it and read the result"
        )
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


def open_input(path: str | os.PathLike[str], *, name: str | None = None) -> InputFile:
    """Open a path; ``-`` is standard input. ``name`` replaces the path in messages.

    A source that can be read only once (a pipe) is copied to a temporary file, which is
    deleted with the returned object.
    """
    text = os.fspath(path)
    if text == "-":
        with translate_read_errors(STDIN):
            return spool_input(STDIN, sys.stdin.buffer)
    with translate_read_errors(text):
        place = Path(text)
        if place.is_file():
            return InputFile(name or text, place, _compression(place))
        check_no_device(place)
        with place.open("rb") as stream:
            return spool_input(text, stream)


@contextmanager
def translate_read_errors(where: str) -> Iterator[None]:
    """Translate errors raised while reading into `UnreadableFile`, naming ``where``."""
    try:
        yield
    except FileNotFoundError:
        raise UnreadableFile(f"{where}: no such file; check the path") from None
    except PermissionError:
        raise UnreadableFile(f"{where}: permission denied; make the file readable") from None
    except SpecialFile as error:
        raise UnreadableFile(f"{where}: {error.strerror}; name a regular file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UnreadableFile(f"{where}: broken gzip data ({error}); the file may be truncated") from None
    except csv.Error as error:
        raise UnreadableFile(f"{where}: broken CSV ({error})") from None
    except MemoryError:
        raise UnreadableFile(f"{where}: needs more memory than there is; split the file") from None
    except (pa.ArrowException, OSError) as error:
        raise UnreadableFile(f"{where}: {_first_line(error)}; the file may be damaged or truncated") from None
    except (ValueError, OverflowError) as error:
        raise UnreadableFile(f"{where}: {_first_line(error)}") from None


def _compression(place: Path) -> str | None:
    with place.open("rb") as stream:
        start = stream.read(4)
    return next((kind for magic, kind in COMPRESSED.items() if start.startswith(magic)), None)


def spool_input(name: str, stream: BinaryIO) -> InputFile:
    """Copy a stream to a temporary file, which is deleted with the returned object."""
    descriptor, text = tempfile.mkstemp(prefix="tiltyard-", suffix=".spool")
    place = Path(text)
    try:
        with os.fdopen(descriptor, "wb") as copy:
            shutil.copyfileobj(stream, copy, 1 << 20)
        spool = InputFile(name, place, _compression(place))
    except BaseException:
        place.unlink()
        raise
    weakref.finalize(spool, place.unlink, missing_ok=True)
    return spool


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__


@dataclass(frozen=True)
class FetchedFiles:
    """The files of an address. The name of each is its own address: ``place``, and what follows it.

    ``path`` is the address that was given, as it may be shown.
    """

    path: str
    place: str
    files: tuple[InputFile, ...]

    @property
    def note(self) -> str:
        """Which bytes were fetched: the place (of a dataset, with its commit), files and size."""
        size = sum(file.path.stat().st_size for file in self.files)
        parts = [file.name.removeprefix(self.place).lstrip("/") for file in self.files]
        names = [part for part in parts if part]
        if not names:
            return f"{self.place}: {size:,} bytes"
        shown = ", ".join(names[:_LISTED_COUNT])
        rest = f" and {len(names) - _LISTED_COUNT} more" if len(names) > _LISTED_COUNT else ""
        count = f"{len(names)} file{'s' if len(names) > 1 else ''}"
        return f"{self.place}: {count}, {size:,} bytes: {shown}{rest}"


def check_no_page(file: InputFile) -> None:
    """Raise if the file is a web page or XML: no format of battles or answers begins with ``<``."""
    if file.first_bytes().startswith(b"<"):
        raise UnreadableFile(
            f"{file.name}: is a web page, not a file of data; use the address of the file itself "
            "(GitHub: the button Raw; Hugging Face: hf://datasets/OWNER/NAME)"
        )


class Records(Protocol):
    """Records with named columns in one file, which can be read any number of times."""

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def rows(self) -> int | None: ...

    def records(self, columns: Collection[str] | None = None, /) -> Iterator[Record]:
        """All records in order; for Parquet, only the given ``columns`` are read."""
        ...


@dataclass(frozen=True)
class FileRecords:
    """What all records of a single file have."""

    file: InputFile

    @property
    def name(self) -> str:
        return self.file.name


class ColumnRecords(Records, Protocol):
    """Records that can be read by column."""

    @property
    def column_types(self) -> Mapping[str, pa.DataType]:
        """The types of the columns, as far as they are known before reading."""
        ...

    def batches(
        self, columns: Sequence[str], batch_size: int, codes: Collection[str] = (), /
    ) -> Iterator[pa.RecordBatch]:
        """The named columns with their own types; those in ``codes`` may come dictionary-encoded."""
        ...


def reject_duplicate_columns(where: str, columns: Sequence[str]) -> None:
    """Raise if two columns have the same name."""
    seen: set[str] = set()
    for name in columns:
        if name in seen:
            raise UnreadableFile(f"{where}: duplicate column {quoted(name)}; rename one")
        seen.add(name)


def numbered_rows(name: str, batches: Iterable[pa.RecordBatch]) -> Iterator[Record]:
    """The rows of batches as records, each with its number in what ``name`` names."""
    number = 0
    for batch in batches:
        with translate_read_errors(f"{name}, rows {number + 1} to {number + batch.num_rows}"):
            rows = batch.to_pylist()
        for row in rows:
            number += 1
            yield f"{name}, row {number}", {k: v for k, v in row.items() if v is not None}
