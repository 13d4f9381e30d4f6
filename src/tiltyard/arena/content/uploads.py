"""Uploaded answers files, stored for at most one hour until an operator imports or discards them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from tiltyard.arena.log.buckets import fetch_row
from tiltyard.errors import NotFound
from tiltyard.postgres.connections import Connection, translate_errors
from tiltyard.postgres.statements import statement

#: How long an upload is kept, and its maximum size.
UPLOAD_LIFETIME = timedelta(hours=1)
MAX_UPLOAD_BYTES = 64 * 1024 * 1024
#: Files of one actor in one arena that are kept at the same time; the oldest is deleted first.
_WAITING_UPLOAD_LIMIT = 4


@dataclass(frozen=True, slots=True)
class Upload:
    """An uploaded file."""

    upload: UUID
    name: str
    data: bytes
    made_at: datetime


async def add_upload(connection: Connection, arena: int, actor: str, name: str, data: bytes) -> UUID:
    """Store a file for an hour; delete files that have expired."""
    upload = uuid4()
    values = {"upload": upload, "arena": arena, "actor": actor, "name": name, "bytes": data}
    with translate_errors("keep an upload"):
        async with connection.transaction():
            await connection.execute(statement("uploads_forget"), {"life": UPLOAD_LIFETIME})
            await connection.execute(statement("uploads_add"), values)
            await connection.execute(
                statement("uploads_trim"), {"arena": arena, "actor": actor, "kept": _WAITING_UPLOAD_LIMIT}
            )
    return upload


async def find_upload(connection: Connection, arena: int, actor: str, upload: UUID) -> Upload:
    """A file of this arena, for the operator who uploaded it; `NotFound` for everyone else and after it has expired."""
    values = {"upload": upload, "arena": arena, "actor": actor, "life": UPLOAD_LIFETIME}
    with translate_errors("read an upload"):
        row = await fetch_row(connection, "uploads_find", values)
    if row is None:
        raise NotFound("no such upload; uploads are kept for an hour: send the file again")
    return Upload(upload, str(row[0]), bytes(row[1]), row[2])


async def remove_upload(connection: Connection, upload: UUID) -> None:
    """Delete a file. Deleting it again has no effect."""
    with translate_errors("remove an upload"):
        await connection.execute(statement("uploads_remove"), {"upload": upload})
