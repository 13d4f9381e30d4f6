"""The audit log and voters' complaints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tiltyard.arena.accounts import write_audit_entry
from tiltyard.arena.log.buckets import find_statement
from tiltyard.errors import NotFound
from tiltyard.postgres.connections import Connection, ConnectionPool, connect_from_pool, translate_errors
from tiltyard.postgres.statements import statement
from tiltyard.wire.moderation import AuditEntry, Complaint


async def read_audit(
    connection: Connection, arena: int, *, before: int | None = None, limit: int = 100
) -> list[AuditEntry]:
    """A page of an arena's audit log, newest first."""
    first = 2**63 - 1 if before is None else before
    values = {"arena": arena, "before": first, "limit": limit}
    rows = await _rows(connection, "oversight_audit", values)
    return [AuditEntry(*row) for row in rows]


async def list_complaints(
    connection: Connection, arena: int, *, after: int = 0, limit: int = 100, settled: bool = False
) -> list[Complaint]:
    """Complaints, oldest first; with ``settled`` the settled ones too."""
    values = {"arena": arena, "after": after, "limit": limit, "all": settled}
    rows = await _rows(connection, "oversight_complaints", values)
    return [Complaint(*row) for row in rows]


async def settle_complaint(connection: Connection, arena: int, complaint: int, *, actor: str) -> None:
    """Mark a complaint as settled; `NotFound` if there is none with this number."""
    values = {"arena": arena, "complaint": complaint}
    with translate_errors("settle a complaint"):
        async with connection.transaction():
            row = await (await connection.execute(statement("oversight_settle"), values)).fetchone()
            if row is None:
                raise NotFound(f"this arena has no complaint {complaint}")
            about = {"complaint": complaint, "settled": [row[0], True]}
            await write_audit_entry(connection, actor, "settle complaint", about, arena=arena)


async def note_export(
    pool: ConnectionPool, arena: int, action: str, about: Mapping[str, object], *, actor: str
) -> None:
    """Write to the audit log that somebody takes out data by which voters can be recognised."""
    with translate_errors("write to the audit log"):
        async with connect_from_pool(pool) as connection, connection.transaction():
            await write_audit_entry(connection, actor, action, about, arena=arena)


async def _rows(connection: Connection, named: str, values: Mapping[str, object]) -> list[Any]:
    with translate_errors("read what was changed and complained of"):
        text = await find_statement(connection, named, values)
        return await (await connection.execute(text, values)).fetchall()
