"""Voters' data: what is held about a voter, erasure of voters, and deletion of what arenas do not keep any longer.

By a setting of the arena the votes of somebody who asks for it stay, as those of a number that nobody has, or are
removed. By another setting, voters who stay away for long are erased as well; their votes stay. Either way the log is
folded again from their first event on, by the mechanism of exclusions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any

from tiltyard.arena.accounts import GateResult, new_session_number, validate_reason
from tiltyard.arena.content.arenas import Arena, connect_to_arena, find_arena, find_arenas, read_log_head
from tiltyard.arena.log.buckets import fetch_one, fetch_rows, run_statement
from tiltyard.arena.log.event_log import HUMAN, LogBatch, LogKind, append_batch
from tiltyard.arena.log.rewrite_permits import permit_rewriting
from tiltyard.arena.processes.shared_limits import delete_network_keys
from tiltyard.arena.voting.sent_responses import delete_old_sent
from tiltyard.core.battles import Kind
from tiltyard.errors import Conflict, NotFound, TiltyardError
from tiltyard.postgres.connections import Connection, ConnectionPool
from tiltyard.postgres.statements import bucket_statement, statement


@dataclass(frozen=True, slots=True)
class HeldAccount:
    """What is held of a person outside the arenas. Without a row in the tables all is ``None``."""

    since: datetime | None
    gate: str | None
    #: The number of the invitation by which they came in.
    invitation: int | None
    #: The name that the operator gave them with it.
    invited_as: str | None
    #: If they signed in.
    name: str | None
    groups: list[str] | None
    first_sign_in: datetime | None
    last_sign_in: datetime | None
    sign_ins: int


@dataclass(frozen=True, slots=True)
class HeldInArena:
    """How much one arena holds of a person."""

    arena: Arena
    votes: int
    #: Matchups that were skipped, expired or are open.
    others: int
    remarks: int
    reports: int
    prompts: int
    consents: int
    first_at: datetime | None
    last_at: datetime | None


@dataclass(frozen=True, slots=True)
class HeldOfVoter:
    """What is held of a person: outside the arenas, and how much in each."""

    session: int
    account: HeldAccount
    arenas: list[HeldInArena]


async def read_held_summary(pool: ConnectionPool, session: int) -> HeldOfVoter:
    """What is held of a person: outside the arenas, and how much in each."""
    arenas = await find_arenas_of_voter(pool, session)
    async with pool.connection() as connection:
        held = [await _held_in(connection, arena, session) for arena in arenas]
        return HeldOfVoter(session, await _account(connection, session), held)


async def read_held_in_arena(pool: ConnectionPool, arena: Arena, session: int) -> HeldInArena:
    """How much one arena holds of a person; `NotFound` if it is nothing."""
    async with pool.connection() as connection:
        await require_voter(connection, arena, session)
        return await _held_in(connection, arena, session)


async def read_held_data(pool: ConnectionPool, session: int) -> dict[str, object]:
    """Everything that is held of a person, as plain values."""
    arenas = await find_arenas_of_voter(pool, session)
    async with pool.connection() as connection:
        account = await _account(connection, session)
        held = [await _arena_data(connection, arena, session) for arena in arenas]
    return {
        "session": str(session),
        "account": {
            name: _text(value) if isinstance(value, datetime) else value
            for name, value in asdict(account).items()
        },
        "arenas": held,
    }


async def _held_in(connection: Connection, arena: Arena, session: int) -> HeldInArena:
    values = {"arena": arena.arena, "session": session}
    row = await fetch_one(connection, "voter_data_counts", values)
    return HeldInArena(arena, *row)


async def _account(connection: Connection, session: int) -> HeldAccount:
    row = await fetch_one(connection, "voter_data_account", {"arena": 0, "session": session})
    since, gate, *person = row
    return HeldAccount(since, None if gate is None else GateResult(gate).name.lower(), *person)


async def _arena_data(connection: Connection, arena: Arena, session: int) -> dict[str, object]:
    async def rows(name: str) -> list[tuple[Any, ...]]:
        values = {"arena": arena.arena, "session": session}
        return await fetch_rows(connection, f"voter_data_{name}", values)

    return {
        "arena": arena.name,
        "title": arena.title,
        "matchups": [_matchup(*row) for row in await rows("matchups")],
        "remarks": [
            {"matchup": str(matchup), "at": _text(at), "tags": tags, "comment": comment}
            for matchup, at, tags, comment in await rows("remarks")
        ],
        "reports": [
            {"matchup": str(matchup), "at": _text(at), "reason": reason, "note": note}
            for matchup, at, reason, note in await rows("reports")
        ],
        "live_prompts": [_turn(*row) for row in await rows("turns")],
        "consents": [
            {"sha256": bytes(sha256).hex(), "at": _text(at)} for sha256, at in await rows("consents")
        ],
    }


def _matchup(*row: Any) -> dict[str, object]:
    matchup, served_at, prompt, a, b, kind, outcome, at, revealed_at, served, ended = row
    served_detail: Mapping[str, object] = served or {}
    ended_detail: Mapping[str, object] = ended or {}
    return {
        "matchup": str(matchup),
        "served_at": _text(served_at),
        "prompt": prompt,
        "model_a": a,
        "model_b": b,
        "ended": None if kind is None else LogKind(kind).name.lower(),
        "outcome": None if outcome is None else Kind(outcome).name.lower(),
        "at": _text(at),
        "names_shown_at": _text(revealed_at),
        "languages": served_detail.get("languages"),
        "categories": served_detail.get("categories"),
        "seconds_on_screen": ended_detail.get("shown"),
        "reason": ended_detail.get("reason"),
        "recognized": ended_detail.get("recognized"),
    }


def _turn(*row: Any) -> dict[str, object]:
    matchup, turn, at, prompt, answer_a, answer_b, outcome, language, payers = row
    return {
        "matchup": str(matchup),
        "turn": turn,
        "at": _text(at),
        "prompt": prompt,
        "answer_a": answer_a,
        "answer_b": answer_b,
        "outcome": outcome,
        "language": language,
        "accounts": [str(payer) for payer in payers],
    }


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


#: The reason of the exclusion by which the log is folded again.
_REASON = "a voter's data were deleted"
#: Absent voters of an arena that are erased at a time, and their events: meanwhile its votes wait.
_ABSENT_VOTERS_LIMIT = 500
_ABSENT_EVENTS_LIMIT = 10_000
#: How often that is done in one arena and run.
_ABSENT_BATCH_LIMIT = 20
_GENERATION_LIMIT = 2**63 - 1
#: Statements that erase texts, in the order of the fields of `ErasedTexts`.
_TEXTS = ("erasure_remarks", "erasure_complaints", "erasure_live_turns")
#: Statements that give what stays another number.
_RENAMES = (
    "erasure_rename_matchups",
    "erasure_rename_complaints",
    "erasure_rename_battles",
    "erasure_rename_calls",
    "erasure_rename_slots",
    "erasure_rename_spending",
    "erasure_rename_changes",
    "erasure_rename_rater",
)


@dataclass(frozen=True, slots=True)
class ErasedTexts:
    """How many remarks, notes of complaints, turns of live battles and details of votes were erased."""

    remarks: int
    complaints: int
    live_turns: int = 0
    details: int = 0


@dataclass(slots=True)
class _Erasure:
    """Whom to erase, why and for whom, and their events in the log up to a position. The votes stay, as nobody's."""

    sessions: Sequence[int]
    reason: str
    actor: str
    #: For absent people: the end of the log when they were found to be, and up to where that was looked for.
    absent_at: int | None = None
    forgotten_upto: int = 0
    upto: int = 0
    positions: list[int] = field(default_factory=list)
    #: Positions of events that list sessions.
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
            erased[arena.name] = await _erase_in_arena(pool, arena, _Erasure([session], reason, actor))
    # Whoever was invited alone would otherwise come again as somebody who has seen and voted nothing.
    await run_statement(pool, "invitations_sole", {"session": session})
    await _erase_accounts(pool, [session])
    return erased


async def find_arenas_of_voter(pool: ConnectionPool, session: int) -> list[Arena]:
    """The arenas that have something of a person, those that were deleted lately as well."""
    numbers = [arena for arena, _ in await _find_arenas(pool, [session])]
    async with pool.connection() as connection:
        return sorted(await find_arenas(connection, numbers), key=lambda one: one.arena)


async def _find_arenas(pool: ConnectionPool, sessions: Sequence[int]) -> list[tuple[int, int]]:
    async with pool.connection() as connection:
        buckets = await fetch_rows(connection, "raters_buckets", {})
        found: list[tuple[int, int]] = []
        for (bucket,) in sorted(buckets):
            values = {"bucket": bucket, "sessions": sessions}
            rows = await connection.execute(bucket_statement("erasure_arenas", bucket), values)
            found += [(int(arena), int(session)) for arena, session in await rows.fetchall()]
    return found


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
    found = await find_arena(pool, arena)
    erased = await _erase_in_arena(pool, found, _Erasure([session], reason, actor))
    await _erase_accounts_without_arenas(pool, [session])
    return erased


async def require_voter(connection: Connection, arena: Arena, session: int) -> None:
    """Raise `NotFound` if an arena has nothing of a person that could be erased."""
    values = {"arena": arena.arena, "session": session}
    if not await _count(connection, "erasure_presence", values):
        raise NotFound(
            f"{arena.name} has nothing of voter {session}; check the number, or it was erased before"
        )


async def erase_absent_voters(pool: ConnectionPool, moment: datetime) -> int:
    """Erase voters who stayed away for longer than their arenas keep them; return how many. Their votes stay.

    One arena that cannot be changed at present does not keep the others from it.
    """
    arenas = await fetch_rows(pool, "erasure_keeping", {})
    count, failure = 0, None
    for number, days, after in arenas:
        try:
            count += await _erase_absent(pool, number, moment, days, after)
        except TiltyardError as error:
            failure = error
    if failure is not None:
        raise failure
    return count


async def _erase_absent(pool: ConnectionPool, arena: int, moment: datetime, days: int, after: int) -> int:
    count, reason = 0, f"voters are kept for {days} days"
    values = {"arena": arena, "absent_since": moment - timedelta(days=days), "limit": _ABSENT_VOTERS_LIMIT}
    for _ in range(_ABSENT_BATCH_LIMIT):
        async with pool.connection() as connection:
            (found,) = await find_arenas(connection, [arena])
            head = await read_log_head(connection, arena)
            absent = await fetch_rows(connection, "erasure_absent", values | {"after": after})
        total = accumulate(events for _, _, events in absent)
        taken = [row for row, events in zip(absent, total, strict=True) if events <= _ABSENT_EVENTS_LIMIT]
        taken = taken or absent[:1]
        if not taken:
            break
        sessions, after = [int(session) for session, _, _ in taken], taken[-1][1]
        erasure = _Erasure(sessions, reason, "retention", absent_at=head, forgotten_upto=after)
        await _erase_in_arena(pool, found, erasure)
        rows = await fetch_rows(pool, "erasure_revoked", {"sessions": sessions})
        # Whoever stays away long enough must not come back by it.
        revoked = {session for (session,) in rows}
        await _erase_accounts_without_arenas(pool, [one for one in sessions if one not in revoked])
        count += len(sessions)
    return count


async def _erase_accounts_without_arenas(pool: ConnectionPool, sessions: Sequence[int]) -> None:
    elsewhere = {session for _, session in await _find_arenas(pool, sessions)}
    await _erase_accounts(pool, [session for session in sessions if session not in elsewhere])


async def _erase_accounts(pool: ConnectionPool, sessions: Sequence[int]) -> None:
    async with pool.connection() as connection, connection.transaction():
        for name in ("erasure_audit", "erasure_person", "erasure_sessions"):
            await connection.execute(statement(name), {"sessions": sessions})


async def _erase_in_arena(pool: ConnectionPool, arena: Arena, erasure: _Erasure) -> ErasedTexts:
    async with pool.connection() as connection:
        await _follow(connection, arena.arena, erasure)
        await connection.execute(statement("log_begin"))
        async with append_batch(connection, arena.arena) as batch:
            if erasure.absent_at is None:
                for session in erasure.sessions:
                    await require_voter(connection, arena, session)
            else:
                values = {
                    "arena": arena.arena,
                    "after": erasure.absent_at,
                    "sessions": list(erasure.sessions),
                }
                if await _count(connection, "erasure_returned", values):
                    raise Conflict(
                        "a voter who was to be deleted has come back; the others are deleted tomorrow"
                    )
                # Up to here, absent people are forgotten.
                forgotten = {"arena": arena.arena, "upto": erasure.forgotten_upto}
                await connection.execute(statement("erasure_forgotten"), forgotten)
            await _follow(connection, arena.arena, erasure, batch.head)
            return await _rewrite(batch, arena, erasure)


async def erase_all_sessions(pool: ConnectionPool, arena: str, *, reason: str, actor: str) -> ErasedTexts:
    """Erase the texts of everybody who ever voted in the arena. Votes and numbers stay."""
    validate_reason(reason)
    async with connect_to_arena(pool, arena) as (connection, found), connection.transaction():
        detail = {"reason": reason, "texts": ["all", None]}
        await permit_rewriting(connection, found.arena, actor, "erase texts", detail)
        values = {"arena": found.arena, "sessions": None}
        texts = await _erase_texts(connection, values)
        return replace(texts, details=await _count(connection, "erasure_details", values))


async def _rewrite(batch: LogBatch, arena: Arena, erasure: _Erasure) -> ErasedTexts:
    connection, sessions = batch.connection, list(erasure.sessions)
    about = {"reason": erasure.reason, "people": [len(sessions), 0]}
    await permit_rewriting(connection, arena.arena, erasure.actor, "erase voter", about)
    numbers = [new_session_number() for _ in sessions]
    values: dict[str, object] = {"arena": arena.arena, "sessions": sessions, "numbers": numbers}
    texts = await _erase_texts(connection, values)
    await connection.execute(statement("erasure_told"), values)
    if erasure.positions:
        values |= {"positions": erasure.positions, "first": erasure.positions[0]}
        await _append(batch, values)
        details = await _count(connection, "erasure_rename_events", values)
        texts = replace(texts, details=details)
        named = values | {"positions": erasure.named}
        await run_statement(connection, "erasure_rename_named", named)
        await connection.execute(statement("checkpoints_forget"), values | {"generation": _GENERATION_LIMIT})
        await connection.execute(statement("erasure_report_sums"), values)
    for name in _RENAMES:
        await run_statement(connection, name, values)
    return texts


async def _append(batch: LogBatch, values: Mapping[str, object]) -> None:
    """End people's open matchups, and begin a generation."""
    connection, about = batch.connection, {**values, "horizon": batch.horizon}
    fresh = [serial for (serial,) in await fetch_rows(connection, "erasure_fresh", about)]
    for serial, ballot, unseen, number in await fetch_rows(connection, "erasure_open", about):
        kind = LogKind.RELEASED if unseen else LogKind.EXPIRE
        batch.end(kind, HUMAN, serial, session=number, ballot=ballot)
    about |= {"reason": _REASON, "position": batch.head + 1, "at": batch.now}
    exclusion = await _count(connection, "erasure_begin", about)
    batch.add(LogKind.EXCLUDE, detail={"exclusion": exclusion, "erased": fresh})


async def _erase_texts(connection: Connection, values: Mapping[str, Any]) -> ErasedTexts:
    remarks, complaints, turns = [await _count(connection, name, values) for name in _TEXTS]
    await connection.execute(statement("erasure_live_payers"), values)
    await forget_unwritten_prompts(connection, values["arena"])
    return ErasedTexts(remarks, complaints, turns)


async def _follow(connection: Connection, arena: int, erasure: _Erasure, upto: int | None = None) -> None:
    """Find people's events up to a position, by default to the end: without the lock first, so that it is held shortly."""
    head = await read_log_head(connection, arena) if upto is None else upto
    values = {"arena": arena, "sessions": list(erasure.sessions), "after": erasure.upto, "upto": head}
    erasure.positions += [position for (position,) in await fetch_rows(connection, "erasure_events", values)]
    erasure.named += [position for (position,) in await fetch_rows(connection, "erasure_named", values)]
    erasure.upto = head


async def _count(connection: Connection, name: str, values: Mapping[str, object]) -> int:
    row = await fetch_one(connection, name, values)
    return int(row[0])


#: For so long accounts of live battles are kept: calls that began before midnight are counted after it.
_ACCOUNT_DURATION = timedelta(days=2)
#: For so long it is kept which network a session came from, as some bits of a keyed hash.
_NETWORK_DURATION = timedelta(days=30)


async def delete_old_texts(pool: ConnectionPool, moment: datetime) -> int:
    """Delete the texts that are older than their arenas keep them; return the number of turns."""
    async with pool.connection() as connection, connection.transaction():
        await connection.execute(statement("retention_remarks"), {"moment": moment})
        await connection.execute(statement("retention_notes"), {"moment": moment})
        found = await fetch_rows(connection, "retention_delete", {"moment": moment})
        arenas = [int(arena) for (arena,) in found]
        for arena in sorted(set(arenas)):
            await forget_unwritten_prompts(connection, arena)
    return len(arenas)


async def delete_old_accounts(pool: ConnectionPool, moment: datetime) -> None:
    """Delete the accounts of earlier days, which are hashes of networks and invitations, and the keys of these hashes;
    from which networks sessions of the month before came; and which responses were sent days ago."""
    before = (moment - _ACCOUNT_DURATION).astimezone(UTC).date()
    async with pool.connection() as connection, connection.transaction():
        await connection.execute(statement("retention_networks"), {"until": moment - _NETWORK_DURATION})
        for name in ("retention_payers", "retention_spending"):
            await connection.execute(statement(name), {"before": before})
        await delete_network_keys(connection, before)
        await delete_old_sent(connection)


async def forget_unwritten_prompts(connection: Connection, arena: int) -> None:
    """Delete the hashes of prompts whose texts are deleted everywhere. Their numbers stay: votes have them."""
    await connection.execute(statement("retention_forget"), {"arena": arena})
