"""Import an answers file in two steps: preview with errors, then import."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

from tiltyard.arena.content.answer_import import (
    ImportPreview,
    ResponseWarning,
    WarningFinder,
    import_checked_answers,
    plan_import,
)
from tiltyard.arena.content.answer_rows import CheckedAnswer, check_upload_rows
from tiltyard.arena.content.arenas import Arena, list_models
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.name_mentions import Mention, MentionFinder
from tiltyard.arena.log.buckets import fetch_row, fetch_rows
from tiltyard.errors import Conflict, InputError, NotFound
from tiltyard.files.answer_formats.answer_columns import ColumnChoice, TableColumns
from tiltyard.files.upload_process import rows_from_process
from tiltyard.files.upload_reader import BadRow, UploadReader, has_native_format, problem_field
from tiltyard.postgres.connections import Connection, ConnectionPool
from tiltyard.postgres.statements import statement
from tiltyard.wire.arenas import Imported

#: How long an upload is kept, and its maximum size.
UPLOAD_LIFETIME = timedelta(hours=1)
MAX_UPLOAD_BYTES = 64 * 1024 * 1024
#: Files of one actor in one arena that are kept at the same time; the oldest is deleted first.
_WAITING_UPLOAD_LIMIT = 4


async def _find(connection: Connection, arena: int, actor: str, upload: UUID) -> tuple[str, bytes]:
    """A file of this arena, for the operator who uploaded it; `NotFound` for everyone else and after it has expired."""
    values = {"upload": upload, "arena": arena, "actor": actor, "life": UPLOAD_LIFETIME}
    row = await fetch_row(connection, "uploads_find", values)
    if row is None:
        raise NotFound("no such upload; uploads are kept for an hour: send the file again")
    return str(row[0]), bytes(row[1])


@dataclass(frozen=True, slots=True)
class WaitingUpload:
    """A file that was uploaded and is not, or not wholly, imported."""

    upload: UUID
    name: str
    size: int
    made_at: datetime


async def list_uploads(pool: ConnectionPool, arena: Arena, *, actor: str) -> list[WaitingUpload]:
    """The files that an operator uploaded to an arena within the last hour, newest first."""
    values = {"arena": arena.arena, "actor": actor, "life": UPLOAD_LIFETIME}
    return [WaitingUpload(*row) for row in await fetch_rows(pool, "uploads_list", values)]


async def _remove(connection: Connection, upload: UUID) -> None:
    await connection.execute(statement("uploads_remove"), {"upload": upload})


#: Rows and errors that a preview shows.
SHOWN_ROWS = 10
SHOWN_ERROR_LIMIT = 100
#: Maximum decompressed size: Parquet files can expand a lot.
MAX_UNPACKED_BYTES = 4 * MAX_UPLOAD_BYTES
#: Characters of a text that a preview shows.
_EXCERPT_CHARACTERS = 400
_MAX_FILE_NAME_CHARACTERS = 120


@dataclass(frozen=True, slots=True)
class UploadSample:
    """A valid row in a preview."""

    where: str
    model: str
    prompt: str
    text: str
    category: str | None
    language: str | None
    kind: str
    size: int
    #: The start of a text response.
    excerpt: str | None


@dataclass(frozen=True, slots=True)
class UploadPreview:
    """What an upload would add, and its errors."""

    upload: UUID
    name: str
    size: int
    planned: ImportPreview
    samples: tuple[UploadSample, ...]
    #: Rows that can be imported, including those already present.
    good: int
    #: Rows that cannot be imported; the first ones are listed.
    bad: int
    errors: tuple[BadRow, ...]
    #: Whether reading stopped before the end.
    cut_short: bool
    #: Valid rows whose responses name a model, a family or a maker; the first ones are listed.
    mentioned: int
    mentions: tuple[Mention, ...]
    #: Valid rows whose responses are empty or look cut off; the first ones are listed.
    suspect: int = 0
    suspects: tuple[ResponseWarning, ...] = ()
    #: The tool that wrote the file, what was left out of it, and what the columns of a table hold.
    format: str = ""
    left_out: tuple[tuple[str, int], ...] = ()
    columns: TableColumns | None = None


@dataclass(frozen=True, slots=True)
class UploadDecision:
    """The operator's decision on how to import an upload."""

    #: The number of valid rows in the preview.
    expected: int
    #: Whether to import the valid rows if others are invalid.
    partly: bool = False
    #: Whether new models are enabled.
    enable: bool = True
    #: What the columns hold, as in the preview.
    columns: ColumnChoice | None = None


async def store_upload(pool: ConnectionPool, arena: Arena, name: str, data: bytes, *, actor: str) -> UUID:
    """Store a file for one hour, for the operator who uploaded it."""
    if not data:
        raise InputError("the file is empty; choose one with answers in it")
    if len(data) > MAX_UPLOAD_BYTES:
        raise InputError(
            f"the file has more than {MAX_UPLOAD_BYTES} bytes; import it by tiltyard serve or through the API"
        )
    # A printable form of the name, which the browser chose.
    kept = "".join(one if one.isprintable() else "�" for one in name[:_MAX_FILE_NAME_CHARACTERS])
    upload = uuid4()
    values = {"upload": upload, "arena": arena.arena, "actor": actor, "name": kept.strip() or "answers"}
    async with pool.connection() as connection, connection.transaction():
        await connection.execute(statement("uploads_forget"), {"life": UPLOAD_LIFETIME})
        await connection.execute(statement("uploads_add"), {**values, "bytes": data})
        await connection.execute(statement("uploads_trim"), {**values, "kept": _WAITING_UPLOAD_LIMIT})
    return upload


async def preview_upload(
    pool: ConnectionPool, arena: Arena, upload: UUID, *, actor: str, choice: ColumnChoice | None = None
) -> UploadPreview:
    """What the file would add now, if its columns hold what ``choice`` says. Changes nothing."""
    async with pool.connection() as connection:
        name, data = await _find(connection, arena.arena, actor, upload)
        read, good, planned = await _read_planned(connection, arena, name, data, choice)
        known = [model.name for model in await list_models(connection, arena.arena)]
    bad = [row for row in read.rows if isinstance(row, BadRow)]
    errors = bad + [
        BadRow(good[k].where, problem_field(problem) or "response", problem)
        for k, problem in planned.conflicts.items()
    ]
    fit = [row for k, row in enumerate(good) if k not in planned.conflicts]
    finder = await asyncio.to_thread(_find_mentions, known, fit)
    warnings = WarningFinder()
    for row in fit:
        warnings.look(row)
    return UploadPreview(
        upload=upload,
        name=name,
        size=len(data),
        planned=planned,
        samples=tuple(_sample(row) for row in fit[:SHOWN_ROWS]),
        good=len(fit),
        bad=len(errors),
        errors=tuple(sorted(errors, key=_place)[:SHOWN_ERROR_LIMIT]),
        cut_short=any(row.last for row in bad),
        mentioned=finder.count,
        mentions=tuple(finder.first),
        suspect=warnings.count,
        suspects=tuple(warnings.first),
        format=read.format,
        left_out=read.left_out,
        columns=read.columns,
    )


async def import_upload(
    pool: ConnectionPool,
    blobs: BlobStore,
    arena: Arena,
    upload: UUID,
    decision: UploadDecision,
    *,
    actor: str,
) -> Imported:
    """Import the valid rows of an upload that was previewed, and delete the upload.

    An import that was interrupted can be repeated until the upload expires.

    Raises `Conflict` and changes nothing if the number of valid rows has changed since the preview, or if some rows
    are invalid and the decision does not allow a partial import.
    """
    async with pool.connection() as connection:
        name, data = await _find(connection, arena.arena, actor, upload)
        read, good, planned = await _read_planned(connection, arena, name, data, decision.columns)
    if read.columns is not None and read.columns.asks:
        raise Conflict("it is not clear what the columns hold; say it first")
    fit = [row for k, row in enumerate(good) if k not in planned.conflicts]
    if len(fit) != decision.expected:
        raise Conflict("the arena has changed since the preview; check the file again, and then import it")
    if len(fit) != len(read.rows) and not decision.partly:
        raise Conflict("some rows are invalid; correct them, or import the valid rows only")
    brought = await import_checked_answers(
        pool, blobs, arena.name, iter(fit), enable=decision.enable, actor=actor
    )
    async with pool.connection() as connection:
        await _remove(connection, upload)
    return brought


async def discard_upload(pool: ConnectionPool, arena: Arena, upload: UUID, *, actor: str) -> None:
    """Discard a file without importing it."""
    async with pool.connection() as connection:
        await _find(connection, arena.arena, actor, upload)
        await _remove(connection, upload)


async def _read_planned(
    connection: Connection, arena: Arena, name: str, data: bytes, choice: ColumnChoice | None
) -> tuple[UploadedRows, list[CheckedAnswer], ImportPreview]:
    """The rows of a file, the valid ones, and what these would add."""
    read = await asyncio.to_thread(read_uploaded_file, name, data, most=MAX_UNPACKED_BYTES, choice=choice)
    good = [row for row in read.rows if isinstance(row, CheckedAnswer)]
    return read, good, await plan_import(connection, arena.arena, good)


def _find_mentions(known: Sequence[str], rows: Sequence[CheckedAnswer]) -> MentionFinder:
    stated: dict[str, set[str]] = {}
    for row in rows:
        stated.setdefault(row.model, set()).update(row.stated)
    finder = MentionFinder([*known, *stated], stated)
    for row in rows:
        finder.look(row)
    return finder


def _sample(row: CheckedAnswer) -> UploadSample:
    return UploadSample(
        where=row.where,
        model=row.model,
        prompt=row.prompt,
        text=row.text[:_EXCERPT_CHARACTERS],
        category=row.category,
        language=row.language,
        kind=row.kind,
        size=len(row.data),
        excerpt=row.shown_text(_EXCERPT_CHARACTERS) if row.kind == "text" else None,
    )


def _place(row: BadRow) -> int:
    """The number of a row, in ``line 12`` and ``row 12``; what is said of a whole file comes first."""
    last = row.where.rpartition(" ")[2]
    return int(last) if last.isdigit() else 0


_SAFE_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


@dataclass(frozen=True, slots=True)
class UploadedRows:
    """The rows of a file, valid and invalid; its format, and what was left out of it."""

    format: str
    rows: tuple[CheckedAnswer | BadRow, ...]
    #: Reasons why records were left out, with how many.
    left_out: tuple[tuple[str, int], ...] = ()
    columns: TableColumns | None = None


def read_uploaded_file(
    name: str, data: bytes, *, most: int, choice: ColumnChoice | None = None
) -> UploadedRows:
    """Read an upload. Errors are rows; none is raised. ``most`` limits the bytes that it may unpack to.

    What native code must read is read in a process of its own. What comes of it is checked here.
    """
    with tempfile.TemporaryDirectory(prefix="tiltyard-") as name_of_folder:
        # Links that lead out of it are recognised by the real path.
        folder = Path(name_of_folder).resolve()
        # As far as the name is harmless: some formats take the model's name from it. Other names here are ours.
        kept = "".join(one if one in _SAFE_CHARACTERS else "_" for one in name[-100:])
        path = folder / ("upload-" * (name == "read") + (kept.lstrip(".") or "answers"))
        path.write_bytes(data)
        room = folder / "read"
        room.mkdir()
        reader = UploadReader(path, room, most, choice)
        rows = rows_from_process(reader) if has_native_format(data) else reader.rows()
        found = tuple(check_upload_rows(rows, lambda: reader.beside, most=most))
        return UploadedRows(reader.format, found, tuple(reader.left_out), reader.columns)
