"""Reads an uploaded file of any format that tournaments read, or a zip archive of answers with images and audio."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tiltyard.arena.content.answer_rows import BadRow, CheckedAnswer, check_answers, read_upload_rows
from tiltyard.errors import InputError, UnreadableFile
from tiltyard.files.answer_file_rows import bad_row
from tiltyard.files.answers import (
    LOG_FORMATS,
    OWN_FORMAT,
    AnswerSource,
    answer_columns,
    open_answers,
)
from tiltyard.files.input_file import InputFile
from tiltyard.files.zip_members import ZipMembers, open_zip

__all__ = ["UploadedRows", "read_uploaded_file"]

_NAME = "the file"
_ZIP = b"PK\x03\x04"
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
#: Files of an archive that can be its answers.
_ANSWER_SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
#: What some programs add to archives.
_IGNORED_PREFIX = "__MACOSX/"
_ARCHIVED_FILE_LIMIT = 20_000
_MAX_PATH_CHARACTERS = 400
_SAFE_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


@dataclass(frozen=True, slots=True)
class UploadedRows:
    """The rows of a file, valid and invalid; its format, and what was left out of it."""

    format: str
    rows: tuple[CheckedAnswer | BadRow, ...]
    #: Reasons why records were left out, with how many.
    left_out: tuple[tuple[str, int], ...] = ()


def read_uploaded_file(name: str, data: bytes, *, most: int) -> UploadedRows:
    """Read an upload. Errors are rows; none is raised. ``most`` limits the bytes that it may unpack to."""
    with tempfile.TemporaryDirectory(prefix="tiltyard-") as folder:
        path = Path(folder) / _safe_name(name)
        path.write_bytes(data)
        try:
            return _read(path, data[:4], most)
        except InputError as error:
            return UploadedRows(OWN_FORMAT, (_bad(path, error),))


def _read(path: Path, start: bytes, most: int) -> UploadedRows:
    if start == _ZIP and _is_answers_archive(path):
        return _read_archive(path, most)
    source = None if start.startswith(_PACKED) else _foreign_source(path)
    if source is None:
        return UploadedRows(OWN_FORMAT, tuple(read_upload_rows(path, most=most)))
    return _read_foreign(path, source, most)


def _foreign_source(path: Path) -> AnswerSource | None:
    """The answers of another tool's file; ``None`` for our own, also if it lacks columns or cannot be read."""
    try:
        source = open_answers(path)
        if source.format == OWN_FORMAT:
            return None
        return source if source.format in LOG_FORMATS or "prompt_id" not in answer_columns(path) else None
    except InputError:
        return None


def _read_foreign(path: Path, source: AnswerSource, most: int) -> UploadedRows:
    rows: list[CheckedAnswer | BadRow] = []
    skipped = size = 0
    try:
        for row in check_answers(source.answers()):
            if row is None:
                skipped += 1
                continue
            size += 0 if isinstance(row, BadRow) else len(row.data) + len(row.text)
            if size > most:
                raise UnreadableFile(f"{_NAME}: it has more than {most} bytes of answers; split it")
            rows.append(row)
    except InputError as error:
        rows.append(_bad(path, error))
    notes = [*source.notes]
    if skipped:
        notes.append(("repetitions, and answers with scores only", skipped))
    return UploadedRows(source.format, tuple(rows), tuple(notes))


def _is_answers_archive(path: Path) -> bool:
    """Whether a zip archive has a file of answers; a log of Inspect and an Excel workbook have their own readers."""
    try:
        open_answers(path)
    except InputError:
        return True
    return False


def _read_archive(path: Path, most: int) -> UploadedRows:
    """Unpack an archive and read its answers; responses that are not text are files beside them."""
    with tempfile.TemporaryDirectory(prefix="tiltyard-") as name:
        folder = Path(name).resolve()
        with open_zip(InputFile(_NAME, path, None)) as archive:
            members = [one for one in archive.names if not one.endswith("/") and not _is_ignored(one)]
            answers = _answers_member(members)
            _unpack(archive, members, folder, most)
        rows = tuple(read_upload_rows(folder / answers, most=most, files_beside=True))
    return UploadedRows("zip", rows)


def _answers_member(members: list[str]) -> str:
    """The one file of answers, which lies nearest to the root."""
    found = [one for one in members if one.lower().endswith(_ANSWER_SUFFIXES)]
    depth = min((one.count("/") for one in found), default=0)
    nearest = [one for one in found if one.count("/") == depth]
    if len(nearest) != 1:
        listed = ", ".join(repr(one[:100]) for one in nearest[:5]) or "none"
        raise UnreadableFile(
            f"{_NAME}: an archive needs one file of answers (JSON Lines, CSV or Parquet) beside its images and audio; "
            f"there are: {listed}"
        )
    return nearest[0]


def _unpack(archive: ZipMembers, members: list[str], folder: Path, most: int) -> None:
    if len(members) > _ARCHIVED_FILE_LIMIT:
        raise UnreadableFile(f"{_NAME}: it has more than {_ARCHIVED_FILE_LIMIT} files; split it")
    if sum(map(archive.stated_size, members)) > most:
        raise UnreadableFile(f"{_NAME}: it expands to more than {most} bytes; split it")
    for member in members:
        place = folder / _checked_path(member)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(archive.read(member))
        except OSError as error:
            raise UnreadableFile(
                f"{_NAME}: {member[:100]!r} cannot be unpacked: {error.strerror or 'wrong name'}"
            ) from None


def _checked_path(member: str) -> PurePosixPath:
    path = PurePosixPath(member)
    wrong = path.is_absolute() or ".." in path.parts or "\\" in member or not member.isprintable()
    if wrong or len(member) > _MAX_PATH_CHARACTERS:
        raise UnreadableFile(f"{_NAME}: {member[:100]!r} is no name of a file below the archive; rename it")
    return path


def _is_ignored(member: str) -> bool:
    return member.startswith(_IGNORED_PREFIX) or PurePosixPath(member).name.startswith(".")


def _bad(path: Path, error: InputError) -> BadRow:
    """An error of the whole file, without the name under which it was stored."""
    return bad_row(_NAME, InputError(str(error).replace(str(path), _NAME)), last=True)


def _safe_name(name: str) -> str:
    """The name of the file as far as it is harmless: some formats take the model's name from it."""
    kept: Iterator[str] = (one if one in _SAFE_CHARACTERS else "_" for one in name[-100:])
    return "".join(kept).lstrip(".") or "answers"
