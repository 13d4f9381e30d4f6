"""Operators' changes to what is said about models, each with its audit entry."""

from __future__ import annotations

from collections.abc import Mapping

from tiltyard.arena.accounts import write_audit_entry
from tiltyard.arena.content.arenas import find_arena
from tiltyard.arena.content.model_details import write_model_details
from tiltyard.postgres.connections import ConnectionPool, connect_from_pool


async def describe_models(
    pool: ConnectionPool, arena: str, texts: Mapping[str, Mapping[str, str]], *, actor: str
) -> int:
    """Change what is said about models, all or none; return how many changed.

    ``texts`` has the fields to change by model. Models are locked in the order of their names, so that two operators
    who import at once do not wait for each other in a circle.
    """
    changes = 0
    async with connect_from_pool(pool) as connection, connection.transaction():
        found = await find_arena(connection, arena)
        for model in sorted(texts):
            changed = await write_model_details(connection, found.arena, model, texts[model])
            if changed:
                changes += 1
                about = {"model": model, "changed": changed}
                await write_audit_entry(connection, actor, "describe model", about, arena=found.arena)
    return changes
