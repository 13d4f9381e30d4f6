"""An answers file row by row: what is wrong with one row does not hide what is wrong with the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiltyard.errors import InputError, UnreadableFile
from tiltyard.files.answers import Answer
from tiltyard.files.csv_records import CsvRecords
from tiltyard.files.input_file import InputFile, translate_read_errors
from tiltyard.files.json_records import JsonListRecords, parse_json
from tiltyard.files.parquet_records import ParquetRecords

__all__ = ["BadRow", "answer_rows", "bad_row", "problem_field"]

_NAME = "the file"
_BOM = b"\xef\xbb\xbf"
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
#: Rows of a Parquet file that are decoded at a time: a few bytes of it can stand for a gigabyte.
_BATCH_ROWS = 32
#: What the first word of a message, or the second after "the", may name.
_FIELDS = frozenset({"prompt_id", "prompt", "model", "response", "kind", "category", "language"}) | {
    "gold",
    "expected_behavior",
    "source",
    "family",
    "maker",
    "truncated",
}


@dataclass(frozen=True, slots=True)
class BadRow:
    """One row that cannot be used. ``field`` is ``None`` where it is the row as a whole."""

    where: str
    field: str | None
    problem: str
    #: Whether nothing after it could be read.
    last: bool = False


def answer_rows(path: Path, *, most: int) -> Iterator[tuple[str, Answer] | BadRow]:
    """Every row of a plain file (JSON Lines, a JSON list, CSV or Parquet), good or bad, by its place.

    What a file is, its first bytes say. Compressed files are not read: how much is in them is not
    known before they are unpacked. Reading ends where the rows have more than ``most`` bytes of text.
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
    """What an error says of a row: its place, its field, what is wrong."""
    place, problem = _plain(where), str(error)
    found, colon, rest = problem.partition(": ")
    if colon and (found == _NAME or found.startswith(f"{_NAME}, ")):
        place, problem = _plain(found), rest
    return BadRow(place, problem_field(problem), problem, last)


def _records(file: InputFile, most: int) -> Iterator[tuple[str, dict[str, Any] | InputError]]:
    with translate_read_errors(file.name), file.open() as stream:
        start = stream.read(4096)
    if start.startswith(_PACKED):
        raise UnreadableFile(f"{_NAME}: it is compressed; unpack it first")
    if start.startswith(b"PAR1"):
        return _parquet_rows(file, most)
    start = start.removeprefix(_BOM).lstrip(b" \t\r\n")
    if start.startswith(b"["):
        return JsonListRecords.opened(file).records()
    if not start:
        raise UnreadableFile(f"{_NAME}: there is nothing in it; expected answers")
    return _json_lines(file) if start.startswith(b"{") else _csv_rows(file)


def _json_lines(file: InputFile) -> Iterator[tuple[str, dict[str, Any] | InputError]]:
    with translate_read_errors(file.name), file.open() as stream:
        for number, raw in enumerate(stream, start=1):
            line = raw.removeprefix(_BOM) if number == 1 else raw
            if line and not line.isspace():
                where = f"{_NAME}, line {number}"
                yield where, _caught(lambda line=line, where=where: _object(where, line))  # type: ignore[misc]


def _parquet_rows(file: InputFile, most: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Row by row. Values that repeat stay codes until their row has its turn."""
    opened, number = ParquetRecords.opened(file), 0
    if opened.unpacked() > most:
        raise _unfolding(most)
    columns = [name for name in opened.columns if name in _FIELDS]
    for batch in opened.batches(columns, _BATCH_ROWS, columns):
        for k in range(batch.num_rows):
            number += 1
            where = f"{_NAME}, row {number}"
            with translate_read_errors(where):
                (row,) = batch.slice(k, 1).to_pylist()
            yield where, {name: value for name, value in row.items() if value is not None}


def _csv_rows(file: InputFile) -> Iterator[tuple[str, dict[str, Any] | InputError]]:
    opened = CsvRecords.opened(file)
    for where, values in opened.lines(_NAME):
        yield where, _csv_row(where, opened.columns, values)


def _csv_row(where: str, columns: tuple[str, ...], values: list[str]) -> dict[str, Any] | InputError:
    if len(values) != len(columns):
        return UnreadableFile(
            f"{where}: {len(values)} fields where the header has {len(columns)}; "
            "quote a field that contains the delimiter"
        )
    return {name: text for name, text in zip(columns, values, strict=True) if text != ""}


def _object(where: str, line: bytes) -> dict[str, Any]:
    value = parse_json(where, line)
    if not isinstance(value, dict):
        raise UnreadableFile(f"{where}: not a JSON object; expected one object per line")
    return value


def _caught(read: Callable[[], dict[str, Any]]) -> dict[str, Any] | InputError:
    try:
        return read()
    except InputError as error:
        return error


def _answer(where: str, record: dict[str, Any] | InputError) -> tuple[str, Answer] | BadRow:
    if isinstance(record, InputError):
        return bad_row(where, record)
    try:
        return _plain(where), Answer.from_dict(record, where)
    except InputError as error:
        return bad_row(where, error)


def _size(record: dict[str, Any] | InputError) -> int:
    """Bytes of a row's texts."""
    if isinstance(record, InputError):
        return 0
    return sum(len(text.encode(errors="surrogatepass")) for text in record.values() if isinstance(text, str))


def _unfolding(most: int) -> UnreadableFile:
    return UnreadableFile(
        f"{_NAME}: it unfolds to more than {most} bytes; split it, or give it to tiltyard serve"
    )


def _plain(where: str) -> str:
    return where.removeprefix(f"{_NAME}, ")


def problem_field(problem: str) -> str | None:
    """Messages about a row begin with the field that they speak of."""
    word = problem.removeprefix("the ").partition(" ")[0]
    if word in _FIELDS:
        return word
    return "response" if problem.startswith("these bytes") else None
