"""Erases a voter: what they wrote, and the number that connects their votes with them.

By a setting of the arena their votes stay, as those of a number that nobody has, or are removed. Either way the log is
folded again from their first event on, by the mechanism of exclusions.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from tiltyard.arena.accounts import new_session_number
from tiltyard.arena.content.arenas import Arena, find_arena, read_log_head
from tiltyard.arena.log.buckets import find_statement
from tiltyard.arena.log.event_log import HUMAN, LogBatch, LogKind, append_batch
from tiltyard.arena.log.rewrite_permits import permit_rewriting
from tiltyard.arena.operators.arena_changes import validate_reason
from tiltyard.arena.operators.data_retention import forget_unwritten_prompts
from tiltyard.errors import Conflict, NotFound
from tiltyard.postgres.connection_pool import Connection, ConnectionPool, connect_from_pool
from tiltyard.postgres.connections import translate_errors
from tiltyard.postgres.statements import bucket_statement, statement

__all__ = [
    "ErasedTexts",
    "erase_all_sessions",
    "erase_session",
    "erase_voter",
    "find_arenas_of_voter",
    "require_voter",
]

#: The reason of the exclusion by which the log is folded again.
_REASON = "a voter's data were deleted"
_GENERATION_LIMIT = 2**63 - 1
#: Statements that erase texts, in the order of the fields of `ErasedTexts`.
_TEXTS = ("erasure_remarks", "erasure_complaints", "erasure_live_turns")
#: Statements that give what stays another number.
_RENAMES = (
    "erasure_rename_matchups",
    "erasure_rename_complaints",
    "erasure_rename_battles",
    "erasure_rename_calls",
    "erasure_rename_spending",
    "erasure_rename_changes",
    "erasure_rename_rater",
)


@dataclass(frozen=True, slots=True)
class ErasedTexts:
    """How many remarks, notes of complaints, turns of live battles, details of votes and votes were erased."""

    remarks: int
    complaints: int
    live_turns: int = 0
    details: int = 0
    #: Votes that were removed; 0 if they stay.
    votes: int = 0


@dataclass(slots=True)
class _FoundEvents:
    """A person's events in the log up to a position."""

    upto: int = 0
    positions: list[int] = field(default_factory=list)
    #: Positions of votes that were undone, and of events that list sessions.
    undone: list[int] = field(default_factory=list)
    named: list[int] = field(default_factory=list)


async def erase_voter(
    pool: ConnectionPool, session: int, *, reason: str, actor: str
) -> dict[str, ErasedTexts]:
    """Erase a person in every arena, and who they are if they signed in; return what was erased by arena."""
    validate_reason(reason)
    erased = {}
    for arena in await find_arenas_of_voter(pool, session):
        # What somebody else erased in the meantime is gone.
        with suppress(NotFound):
            erased[arena] = await _erase_in_arena(pool, arena, session, (reason, actor))
    await _erase_account(pool, session)
    return erased


async def find_arenas_of_voter(pool: ConnectionPool, session: int) -> list[str]:
    """Names of the arenas that have something of a person."""
    async with connect_from_pool(pool) as connection:
        with translate_errors("look for a voter"):
            buckets = await (await connection.execute(statement("raters_buckets"))).fetchall()
            names: list[str] = []
            for (bucket,) in sorted(buckets):
                values = {"bucket": bucket, "session": session}
                found = await connection.execute(bucket_statement("erasure_arenas", bucket), values)
                names += [str(name) for (name,) in await found.fetchall()]
    return names


async def erase_session(
    pool: ConnectionPool, arena: str, session: int, *, reason: str, actor: str
) -> ErasedTexts:
    """Erase one person's session in an arena: remarks, complaints, details of votes, prompts and answers of live
    battles, and its number. Its votes stay under another number, or are removed, as the arena's settings say.

    If no arena has anything of the person after that, who they are is erased as well. The audit log keeps who asked for
    it and why, but not the number; the reason should not repeat what is erased. Raise `NotFound`, and change nothing,
    if the arena has nothing of the person.
    """
    validate_reason(reason)
    erased = await _erase_in_arena(pool, arena, session, (reason, actor))
    if not await find_arenas_of_voter(pool, session):
        await _erase_account(pool, session)
    return erased


async def require_voter(connection: Connection, arena: Arena, session: int) -> None:
    """Raise `NotFound` if an arena has nothing of a person that could be erased."""
    values = {"arena": arena.arena, "session": session}
    ((known,),) = await _rows(connection, "erasure_presence", values)
    if not known:
        raise NotFound(
            f"{arena.name} has nothing of voter {session}; check the number, or it was erased before"
        )


async def _erase_account(pool: ConnectionPool, session: int) -> None:
    """Erase what is held of a person outside the arenas."""
    async with connect_from_pool(pool) as connection, connection.transaction():
        with translate_errors("erase a voter"):
            for name in ("erasure_audit", "erasure_person", "erasure_sessions"):
                await connection.execute(statement(name), {"session": session})


async def _erase_in_arena(
    pool: ConnectionPool, arena: str, session: int, why: tuple[str, str]
) -> ErasedTexts:
    """Erase a person in one arena, for a reason, on behalf of somebody."""
    async with connect_from_pool(pool) as connection:
        found = await find_arena(connection, arena)
        events = _FoundEvents()
        with translate_errors("erase a voter"):
            await _follow(connection, found.arena, session, events)
            await connection.execute(statement("log_begin"))
        async with append_batch(connection, found.arena) as batch:
            await _require_one_copy(connection, found)
            await require_voter(connection, found, session)
            await _follow(connection, found.arena, session, events, batch.head)
            return await _rewrite(batch, found, session, events, why)


async def erase_all_sessions(pool: ConnectionPool, arena: str, *, reason: str, actor: str) -> ErasedTexts:
    """Erase the texts of everybody who ever voted in the arena. Votes and numbers stay."""
    validate_reason(reason)
    async with connect_from_pool(pool) as connection:
        found = await find_arena(connection, arena)
        with translate_errors("erase texts"):
            async with connection.transaction():
                await _require_one_copy(connection, found)
                detail = {"reason": reason, "texts": ["all", None]}
                await permit_rewriting(connection, found.arena, actor, "erase texts", detail)
                values = {"arena": found.arena, "session": None}
                texts = await _erase_texts(connection, values)
                return replace(texts, details=await _count(connection, "erasure_details", values))


async def _rewrite(
    batch: LogBatch, arena: Arena, session: int, events: _FoundEvents, why: tuple[str, str]
) -> ErasedTexts:
    """Erase a person, under the arena's lock."""
    connection = batch.connection
    reason, actor = why
    removed = arena.settings.erased_votes == "removed"
    about = {"reason": reason, "votes": ["a person's", "removed" if removed else "anonymous"]}
    await permit_rewriting(connection, arena.arena, actor, "erase voter", about)
    number = new_session_number()
    values: dict[str, object] = {"arena": arena.arena, "session": session, "number": number}
    texts = await _erase_texts(connection, values)
    await connection.execute(statement("erasure_told"), values)
    if events.positions:
        values |= {"positions": events.positions, "undone": events.undone, "first": events.positions[0]}
        values["exclusion"] = await _append(batch, values, number)
        details = await _count(connection, "erasure_rename_events", values)
        texts = replace(texts, details=details)
        if removed:
            texts = replace(texts, votes=await _count(connection, "erasure_votes", values))
            for name in ("erasure_remove_endings", "erasure_remove_events"):
                await connection.execute(await find_statement(connection, name, values), values)
        named = values | {"positions": events.named}
        await connection.execute(await find_statement(connection, "erasure_rename_named", named), named)
        await connection.execute(statement("checkpoints_forget"), values | {"generation": _GENERATION_LIMIT})
        await connection.execute(statement("erasure_report_sums"), values)
    await _rename(connection, values)
    return texts


async def _append(batch: LogBatch, values: Mapping[str, object], number: int) -> int:
    """End a person's open matchups, and begin a generation; return the number of the exclusion."""
    connection, about = batch.connection, {**values, "horizon": batch.horizon}
    fresh = [serial for (serial,) in await _rows(connection, "erasure_fresh", about)]
    for serial, ballot, unseen in await _rows(connection, "erasure_open", about):
        kind = LogKind.RELEASED if unseen else LogKind.EXPIRE
        batch.end(kind, HUMAN, serial, session=number, ballot=ballot)
    about |= {"reason": _REASON, "position": batch.head + 1, "at": batch.now}
    exclusion = await _count(connection, "erasure_begin", about)
    batch.add(LogKind.EXCLUDE, detail={"exclusion": exclusion, "erased": fresh})
    return exclusion


async def _rename(connection: Connection, values: Mapping[str, object]) -> None:
    """Give what stays of a person another number, outside the events."""
    for name in _RENAMES:
        await connection.execute(await find_statement(connection, name, values), values)


async def _erase_texts(connection: Connection, values: Mapping[str, Any]) -> ErasedTexts:
    """Erase the texts of a session, or of all; return how many of each kind."""
    remarks, complaints, turns = [await _count(connection, name, values) for name in _TEXTS]
    await connection.execute(statement("erasure_live_payers"), values)
    await forget_unwritten_prompts(connection, values["arena"])
    return ErasedTexts(remarks, complaints, turns)


async def _follow(
    connection: Connection, arena: int, session: int, events: _FoundEvents, upto: int | None = None
) -> None:
    """Find a person's events up to a position, by default to the end: without the lock first, so that it is held shortly."""
    head = await read_log_head(connection, arena) if upto is None else upto
    values = {"arena": arena, "session": session, "after": events.upto, "upto": head}
    for position, _, undone in await _rows(connection, "erasure_events", values):
        events.positions.append(position)
        if undone is not None:
            events.undone.append(undone)
    events.named += [position for (position,) in await _rows(connection, "erasure_named", values)]
    events.upto = head


async def _require_one_copy(connection: Connection, arena: Arena) -> None:
    """Keep the arena where it is; raise `Conflict` if it is being moved."""
    values = {"arena": arena.arena}
    if await (await connection.execute(statement("erasure_lock"), values)).fetchone() is None:
        raise Conflict(
            f"the arena {arena.name} is being moved, and a copy would keep what is erased; finish it with"
            f" tiltyard arena move {arena.name}"
        )


async def _rows(connection: Connection, name: str, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
    text = await find_statement(connection, name, values)
    return await (await connection.execute(text, values)).fetchall()


async def _count(connection: Connection, name: str, values: Mapping[str, object]) -> int:
    """The number that a statement returns."""
    ((number,),) = await _rows(connection, name, values)
    return int(number)
