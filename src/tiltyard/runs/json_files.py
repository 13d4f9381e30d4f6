"""Files of JSON: documents, and rows one to a line, written the same way every time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tiltyard.errors import UnreadableFile
from tiltyard.files.battle_writer import atomic_write

__all__ = ["json_bytes", "json_line", "parse_document", "read_lines", "write_bytes", "write_lines"]


def json_bytes(document: Mapping[str, Any]) -> bytes:
    """A document, indented; a number that JSON does not have is an error."""
    return _encoded(document, indent=2)


def json_line(row: Mapping[str, Any]) -> bytes:
    """A row, on one line."""
    return _encoded(row, indent=None)


def _encoded(value: Mapping[str, Any], *, indent: int | None) -> bytes:
    try:
        text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        # Half of a surrogate pair, as a model may emit, has no UTF-8; JSON's escapes keep it.
        return json.dumps(value, indent=indent, ensure_ascii=True, allow_nan=False).encode() + b"\n"


def write_bytes(path: Path, data: bytes) -> None:
    """A whole file, or none."""
    with atomic_write(str(path)) as file:
        file.write(data)


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """One row to a line; the folder is made where it is missing."""
    path.parent.mkdir(exist_ok=True)
    with atomic_write(str(path)) as file:
        file.writelines(map(json_line, rows))


def read_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each line's place and row; what is no JSON object on a line of its own raises."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                where = f"{path.name}, line {number}"
                row = parse_document(where, line)
                if not isinstance(row, dict):
                    raise UnreadableFile(f"{where}: not a JSON object")
                yield where, row
    except OSError as error:
        raise UnreadableFile(f"{path}: {error.strerror}") from None


def parse_document(where: str, data: bytes) -> Any:
    """JSON in which no key stands twice: of two equal ones, readers disagree which counts."""
    try:
        return json.loads(data, object_pairs_hook=_distinct)
    except RecursionError:
        raise UnreadableFile(f"{where}: nested too deeply to be read") from None
    except ValueError as error:
        raise UnreadableFile(f"{where}: not JSON ({error})") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice")
    return found
