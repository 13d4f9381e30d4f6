"""JSON documents and JSON Lines files, serialized deterministically."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tiltyard.errors import UnreadableFile
from tiltyard.files.json_values import FINITE_DECODER, parse_json_text
from tiltyard.files.read_limits import bounded_lines
from tiltyard.foundation.local_files import atomic_write, open_regular


def json_bytes(document: Mapping[str, object]) -> bytes:
    """Serialize a document, indented; raises for numbers that JSON cannot represent."""
    return _encoded(document, indent=2)


def json_line(row: Mapping[str, object]) -> bytes:
    """Serialize a row on one line."""
    return _encoded(row, indent=None)


def _encoded(value: Mapping[str, object], *, indent: int | None) -> bytes:
    try:
        text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        # A model may emit a lone surrogate, which UTF-8 cannot encode; JSON escapes preserve it.
        return json.dumps(value, indent=indent, ensure_ascii=True, allow_nan=False).encode() + b"\n"


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically."""
    with atomic_write(str(path)) as file:
        file.write(data)


def write_lines(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Write one row per line; the folder is created if missing."""
    path.parent.mkdir(exist_ok=True)
    with atomic_write(str(path)) as file:
        file.writelines(map(json_line, rows))


def read_lines(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    """Each line's location and row; raises if a line is not a JSON object."""
    try:
        with open_regular(path) as file:
            for number, line in enumerate(bounded_lines(path.name, file), start=1):
                where = f"{path.name}, line {number}"
                row = parse_document(where, line)
                if not isinstance(row, dict):
                    raise UnreadableFile(f"{where}: not a JSON object")
                yield where, row
    except OSError as error:
        raise UnreadableFile(f"{path}: {error.strerror}") from None


def parse_document(where: str, data: bytes) -> Any:
    """Parse JSON; duplicate keys, about which readers disagree, and NaN are errors."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableFile(f"{where}: not JSON (not UTF-8 text)") from None
    return parse_json_text(where, text, FINITE_DECODER)
