"""The audit log and voters' complaints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tiltyard.arena.accounts import write_audit_entry
from tiltyard.errors import NotFound
from tiltyard.postgres.connection_pool import Connection
from tiltyard.postgres.connections import translate_errors
from tiltyard.postgres.statements import statement

__all__ = ["AuditRow", "ComplaintRow", "list_complaints", "read_audit", "settle_complaint"]


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One change and who made it."""

    entry: int
    at: datetime
    actor: str
    action: str
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ComplaintRow:
    """A voter's complaint about a matchup."""

    complaint: int
    reason: str
    note: str | None
    made_at: datetime
    settled_at: datetime | None
    model_a: str | None
    model_b: str | None
    prompt: str | None


async def read_audit(
    connection: Connection, arena: int, *, before: int | None = None, limit: int = 100
) -> list[AuditRow]:
    """Changes of an arena, newest first, a page of them."""
    first = 2**63 - 1 if before is None else before
    values = {"arena": arena, "before": first, "limit": limit}
    rows = await _rows(connection, "oversight_audit", values)
    return [AuditRow(*row) for row in rows]


async def list_complaints(
    connection: Connection, arena: int, *, after: int = 0, limit: int = 100, settled: bool = False
) -> list[ComplaintRow]:
    """Complaints, oldest first; with ``settled`` the settled ones too."""
    values = {"arena": arena, "after": after, "limit": limit, "all": settled}
    rows = await _rows(connection, "oversight_complaints", values)
    return [ComplaintRow(*row) for row in rows]


async def settle_complaint(connection: Connection, arena: int, complaint: int, *, actor: str) -> None:
    """A complaint was looked at; `NotFound` if there is none of this number."""
    values = {"arena": arena, "complaint": complaint}
    with translate_errors("settle a complaint"):
        async with connection.transaction():
            found = await connection.execute(statement("oversight_settle"), values)
            if not found.rowcount:
                raise NotFound(f"there is no complaint {complaint} in this arena")
            await write_audit_entry(
                connection, actor, "settle complaint", {"complaint": complaint}, arena=arena
            )


async def _rows(connection: Connection, named: str, values: Mapping[str, Any]) -> list[Any]:
    with translate_errors("read what was changed and complained of"):
        return await (await connection.execute(statement(named), values)).fetchall()
