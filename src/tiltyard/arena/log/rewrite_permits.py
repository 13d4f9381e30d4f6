"""The one way to change or delete rows of logs, which the database otherwise refuses."""

from __future__ import annotations

from collections.abc import Mapping

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from tiltyard.postgres.statements import statement


async def permit_rewriting(
    connection: AsyncConnection, arena: int, actor: str, action: str, detail: Mapping[str, object]
) -> None:
    """Write an audit entry, and let the current transaction rewrite logs. Call it in a transaction."""
    values = {"arena": arena, "actor": actor, "action": action, "detail": Jsonb(dict(detail))}
    await connection.execute(statement("rewriting_permit"), values)
