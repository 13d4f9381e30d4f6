"""Erases what a voter wrote, where the law requires it. The votes stay: they have numbers only."""

from __future__ import annotations

from dataclasses import dataclass

from tiltyard.arena.content.arenas import find_arena
from tiltyard.arena.live.text_retention import forget_unwritten_prompts
from tiltyard.arena.log.buckets import find_statement
from tiltyard.arena.log.rewrite_permits import permit_rewriting
from tiltyard.errors import Conflict, InputError
from tiltyard.postgres.connection_pool import ConnectionPool, connect_from_pool
from tiltyard.postgres.connections import translate_errors
from tiltyard.postgres.statements import statement

__all__ = ["ErasedTexts", "erase_all_sessions", "erase_session"]

#: Statements that erase, in the order of the fields of `ErasedTexts`.
_ERASURES = ("erasure_remarks", "erasure_complaints", "erasure_details", "erasure_live_turns")


@dataclass(frozen=True, slots=True)
class ErasedTexts:
    """How many remarks, notes of complaints, details of votes and turns of live battles were erased."""

    remarks: int
    complaints: int
    details: int
    live_turns: int = 0


async def erase_session(
    pool: ConnectionPool, arena: str, session: int, *, reason: str, actor: str
) -> ErasedTexts:
    """Erase the texts of one session in an arena: remarks, complaints, details of votes, prompts and answers of live
    battles; and its name, if it has one.

    The audit log keeps who asked for it and why; the reason should not repeat what is erased.
    """
    return await _erase(pool, arena, session, reason, actor)


async def erase_all_sessions(pool: ConnectionPool, arena: str, *, reason: str, actor: str) -> ErasedTexts:
    """The same for everybody who ever voted in the arena."""
    return await _erase(pool, arena, None, reason, actor)


async def _erase(
    pool: ConnectionPool, arena: str, session: int | None, reason: str, actor: str
) -> ErasedTexts:
    if not reason.strip():
        raise InputError("an erasure needs a reason: it is kept in the audit log")
    async with connect_from_pool(pool) as connection:
        found = await find_arena(connection, arena)
        values = {"arena": found.arena, "session": session}
        with translate_errors("erase a voter's texts"):
            async with connection.transaction():
                if await (await connection.execute(statement("erasure_lock"), values)).fetchone() is None:
                    raise Conflict(
                        f"the arena {arena} is being moved, and a copy would keep the texts; finish it with"
                        f" tiltyard arena move {arena}"
                    )
                detail = {"session": "all" if session is None else str(session), "reason": reason}
                await permit_rewriting(connection, found.arena, actor, "erase session", detail)
                counts = []
                for name in _ERASURES:
                    done = await connection.execute(await find_statement(connection, name, values), values)
                    counts.append(done.rowcount)
                await connection.execute(statement("erasure_live_payers"), values)
                await forget_unwritten_prompts(connection, found.arena)
                await connection.execute(statement("people_erase"), values)
    return ErasedTexts(*counts)
