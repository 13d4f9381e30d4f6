"""Reads an uploaded file of any format that tournaments read, or a zip archive of answers with images and audio."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tiltyard.arena.content.answer_rows import CheckedAnswer, check_upload_rows
from tiltyard.files.upload_process import rows_from_process
from tiltyard.files.upload_reader import BadRow, UploadReader, has_native_format

_SAFE_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


@dataclass(frozen=True, slots=True)
class UploadedRows:
    """The rows of a file, valid and invalid; its format, and what was left out of it."""

    format: str
    rows: tuple[CheckedAnswer | BadRow, ...]
    #: Reasons why records were left out, with how many.
    left_out: tuple[tuple[str, int], ...] = ()


def read_uploaded_file(name: str, data: bytes, *, most: int) -> UploadedRows:
    """Read an upload. Errors are rows; none is raised. ``most`` limits the bytes that it may unpack to.

    What native code must read is read in a process of its own. What comes of it is checked here.
    """
    with tempfile.TemporaryDirectory(prefix="tiltyard-") as name_of_folder:
        # Links that lead out of it are recognised by the real path.
        folder = Path(name_of_folder).resolve()
        path = folder / _safe_name(name)
        path.write_bytes(data)
        room = folder / "read"
        room.mkdir()
        reader = UploadReader(path, room, most)
        rows = rows_from_process(reader) if has_native_format(data) else reader.rows()
        found = tuple(check_upload_rows(rows, lambda: reader.beside, most=most))
        return UploadedRows(reader.format, found, tuple(reader.left_out))


def _safe_name(name: str) -> str:
    """The name of the file as far as it is harmless: some formats take the model's name from it."""
    kept: Iterator[str] = (one if one in _SAFE_CHARACTERS else "_" for one in name[-100:])
    # Other names in the folder are ours.
    return "upload-" * (name == "read") + ("".join(kept).lstrip(".") or "answers")
