"""Reads an answers file row by row, so that every bad row is reported, not only the first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tiltyard.errors import InputError, UnreadableFile
from tiltyard.files.answer import Answer
from tiltyard.files.csv_reader import CsvRecords
from tiltyard.files.input_file import InputFile, translate_read_errors
from tiltyard.files.json_records import JsonListRecords, parse_json
from tiltyard.files.parquet_records import ParquetRecords
from tiltyard.files.read_limits import bounded_lines

_NAME = "the file"
_BOM = b"\xef\xbb\xbf"
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
#: Parquet rows decoded at a time: a few bytes of a file can expand to a gigabyte.
_BATCH_ROWS = 32
#: Fields that the first word of a message (or the second, after "the") may name.
_FIELDS = frozenset({"prompt_id", "prompt", "model", "response", "kind", "category", "language"}) | {
    "gold",
    "expected_behavior",
    "source",
    "family",
    "maker",
    "truncated",
}
#: Columns that are read of a Parquet file.
_READ_COLUMNS = _FIELDS | {"messages", "trace", "system", "scores", "repeat", "finish_reason", "stop_reason"}


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be used. ``field`` is ``None`` if the row as a whole is bad."""

    where: str
    field: str | None
    problem: str
    #: Whether reading stopped at this row.
    last: bool = False


def answer_rows(path: Path, *, most: int) -> Iterator[tuple[str, Answer] | BadRow]:
    """Every row of an uncompressed file (JSON Lines, a JSON list, CSV or Parquet), good or bad, with its location.

    The first bytes determine the file type. Compressed files are rejected, because their size is
    unknown until they are unpacked. Reading stops when the rows exceed ``most`` bytes of text.
    """
    file, size = InputFile(_NAME, path, None), 0
    try:
        for where, record in _records(file, most):
            size += _size(record)
            if size > most:
                raise _unfolding(most)
            yield _answer(where, record)
    except InputError as error:
        yield bad_row(_NAME, error, last=True)


def bad_row(where: str, error: InputError, *, last: bool = False) -> BadRow:
    """The location, field and problem of a bad row, taken from an error."""
    place, problem = _plain(where), str(error)
    found, colon, rest = problem.partition(": ")
    if colon and (found == _NAME or found.startswith(f"{_NAME}, ")):
        place, problem = _plain(found), rest
    return BadRow(place, problem_field(problem), problem, last)


def _records(file: InputFile, most: int) -> Iterator[tuple[str, dict[str, object] | InputError]]:
    with translate_read_errors(file.name), file.open() as stream:
        start = stream.read(4096)
    if start.startswith(_PACKED):
        raise UnreadableFile(f"{_NAME}: the file is compressed; unpack it first")
    if start.startswith(b"PAR1"):
        return _parquet_rows(file, most)
    start = start.removeprefix(_BOM).lstrip(b" \t\r\n")
    if start.startswith(b"["):
        return JsonListRecords.opened(file).records()
    if not start:
        raise UnreadableFile(f"{_NAME}: the file is empty; expected answers")
    return _json_lines(file) if start.startswith(b"{") else _csv_rows(file)


def _json_lines(file: InputFile) -> Iterator[tuple[str, dict[str, object] | InputError]]:
    with translate_read_errors(file.name), file.open() as stream:
        for number, raw in enumerate(bounded_lines(_NAME, stream), start=1):
            line = raw.removeprefix(_BOM) if number == 1 else raw
            if line and not line.isspace():
                where = f"{_NAME}, line {number}"
                yield where, _caught(lambda line=line, where=where: _object(where, line))  # type: ignore[misc]


def _parquet_rows(file: InputFile, most: int) -> Iterator[tuple[str, dict[str, object]]]:
    """Row by row. Repeated values stay dictionary codes until their row is read."""
    opened, number = ParquetRecords.opened(file), 0
    if opened.unpacked() > most:
        raise _unfolding(most)
    columns = [name for name in opened.columns if name in _READ_COLUMNS]
    for batch in opened.batches(columns, _BATCH_ROWS, columns):
        for k in range(batch.num_rows):
            number += 1
            where = f"{_NAME}, row {number}"
            with translate_read_errors(where):
                (row,) = batch.slice(k, 1).to_pylist()
            yield where, {name: value for name, value in row.items() if value is not None}


def _csv_rows(file: InputFile) -> Iterator[tuple[str, dict[str, object] | InputError]]:
    opened = CsvRecords.opened(file)
    for where, values in opened.lines(_NAME):
        yield where, _csv_row(where, opened.columns, values)


def _csv_row(where: str, columns: tuple[str, ...], values: list[str]) -> dict[str, object] | InputError:
    if len(values) != len(columns):
        return UnreadableFile(
            f"{where}: {len(values)} fields where the header has {len(columns)}; "
            "quote a field that contains the delimiter"
        )
    return {name: text for name, text in zip(columns, values, strict=True) if text != ""}


def _object(where: str, line: bytes) -> dict[str, object]:
    value = parse_json(where, line)
    if not isinstance(value, dict):
        raise UnreadableFile(f"{where}: not a JSON object; expected one object per line")
    return value


def _caught(read: Callable[[], dict[str, object]]) -> dict[str, object] | InputError:
    try:
        return read()
    except InputError as error:
        return error


def _answer(where: str, record: dict[str, object] | InputError) -> tuple[str, Answer] | BadRow:
    if isinstance(record, InputError):
        return bad_row(where, record)
    try:
        return _plain(where), Answer.from_dict(record, where)
    except InputError as error:
        return bad_row(where, error)


def _size(record: dict[str, object] | InputError) -> int:
    """The size in bytes of a row's texts."""
    if isinstance(record, InputError):
        return 0
    return sum(len(text.encode(errors="surrogatepass")) for text in record.values() if isinstance(text, str))


def _unfolding(most: int) -> UnreadableFile:
    return UnreadableFile(
        f"{_NAME}: it expands to more than {most} bytes; split it, or import it with tiltyard serve"
    )


def _plain(where: str) -> str:
    return where.removeprefix(f"{_NAME}, ")


def problem_field(problem: str) -> str | None:
    """The field that a message is about: messages about a row begin with it."""
    word = problem.removeprefix("the ").partition(" ")[0]
    if word in _FIELDS:
        return word
    return "response" if problem.startswith("these bytes") else None
