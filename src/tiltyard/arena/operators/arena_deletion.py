"""Deletes arenas whose time to be restored has passed: their texts, files and invitations.

What stays is what nobody can read anything from: the log with its numbers, names of models and prompts, hashes, boards
and the audit log. Nothing of it is served any more, and the name of the arena stays taken.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from tiltyard.arena.accounts import write_audit_entry
from tiltyard.arena.content.arenas import change_arena, find_arena, list_prompts, lock_arena
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.log.buckets import fetch_rows
from tiltyard.arena.operators.arena_changes import withdraw
from tiltyard.arena.operators.session_erasure import erase_all_sessions
from tiltyard.postgres.connections import ConnectionPool, connect_from_pool, translate_errors
from tiltyard.postgres.statements import statement

_ACTOR = "schedule"
_REASON = "the arena was deleted"
#: Prompts that are read at once.
_PAGE_ROWS = 1000


async def delete_due_arenas(pool: ConnectionPool, blobs: BlobStore, now: datetime) -> list[str]:
    """Delete every arena that is due; return their names. After a failure, the next run goes on."""
    async with connect_from_pool(pool) as connection:
        with translate_errors("read which arenas are to be deleted"):
            rows = await fetch_rows(connection, "stages_due_deletions", {"now": now})
    names = [str(name) for (name,) in rows]
    for name in names:
        await _delete(pool, blobs, name)
    return names


async def _delete(pool: ConnectionPool, blobs: BlobStore, name: str) -> None:
    withdrawn = await _withdraw_everything(pool, blobs, name)
    erased = await erase_all_sessions(pool, name, reason=_REASON, actor=_ACTOR)
    async with connect_from_pool(pool) as connection, connection.transaction():
        found = await lock_arena(connection, name)
        with translate_errors("delete an arena"):
            for one in (
                "stages_revoke_invitations",
                "stages_clear_texts",
                "stages_clear_entrants",
                "stages_deletion_done",
            ):
                await connection.execute(statement(one), {"arena": found.arena})
        settings = replace(found.settings, stage="deleted")
        await change_arena(connection, found.arena, found.title, settings)
        about = {
            "stage": [found.settings.stage, "deleted"],
            "prompts": withdrawn,
            "remarks": erased.remarks,
            "complaints": erased.complaints,
        }
        await write_audit_entry(connection, _ACTOR, "delete arena", about, arena=found.arena)


async def _withdraw_everything(pool: ConnectionPool, blobs: BlobStore, name: str) -> int:
    """Withdraw all prompts with all responses; return how many prompts there were."""
    withdrawn, after = 0, -1
    async with connect_from_pool(pool) as connection:
        number = (await find_arena(connection, name)).arena
    while True:
        async with connect_from_pool(pool) as connection:
            prompts = await list_prompts(connection, number, after=after, limit=_PAGE_ROWS)
        if not prompts:
            return withdrawn
        for prompt in prompts:
            if prompt.withdrawn_at is None:
                await withdraw(pool, blobs, name, prompt.name, reason=_REASON, actor=_ACTOR)
                withdrawn += 1
        after = prompts[-1].prompt
