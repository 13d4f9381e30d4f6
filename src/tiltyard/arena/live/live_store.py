"""Live battles in the database: battles, turns, calls, entrants, and what they cost.

A turn begins in one transaction: its row, both calls and their reserves. So what is generated is always accounted, and
a process that dies leaves a turn that the next one finds (`void_lost_turns`).

A reservation is made under one lock for each arena, in the transaction that stores the call. What is counted is what
calls cost, and the reserve of every call whose cost is not known: those that run, and those that were lost. So the sum
never exceeds a budget, whichever process dies when. Days are those of UTC.

A voter has several accounts: the session, and what does not go with its cookie (the invitation by which the voter came
in, or else the network). All are counted, and the one with the most decides: who deletes cookies gains nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from psycopg import AsyncCursor, AsyncPipeline
from psycopg.types.json import Jsonb

from tiltyard.arena.live.live_records import (
    AnswerFigures,
    BattleState,
    BudgetLimits,
    CallEnd,
    CallPlan,
    LiveBattle,
    LiveTurn,
    StoredEntrant,
    TurnEnd,
    TurnOutcome,
    TurnPlan,
)
from tiltyard.arena.log.buckets import fetch_one, fetch_row, fetch_rows, find_statement, run_statement
from tiltyard.arena.log.event_log import LogKind, matchup_not_found_error
from tiltyard.core.live.prompt_texts import hash_prompt
from tiltyard.errors import Closed, OutOfBudget
from tiltyard.postgres.connections import Connection, ConnectionPool, pipelined_transaction
from tiltyard.postgres.statements import statement
from tiltyard.settings.arena_settings import ArenaSettings

#: Why a battle is void whose process was lost.
LOST_PROBLEM = "the process that generated the answers was lost"

_ENDINGS: dict[int, BattleState] = {
    LogKind.VOTE: "voted",
    LogKind.SKIP: "skipped",
    LogKind.EXPIRE: "expired",
    LogKind.RELEASED: "expired",
}


async def number_prompt(pool: ConnectionPool, arena: int, text: str) -> int:
    """The number of a distinct prompt in this arena, from 1; a new prompt gets the next one."""
    values = {"arena": arena, "sha256": hash_prompt(text)}
    async with pool.connection() as connection:
        async with _locked(connection, arena):
            added = await connection.execute(find_statement("live_add_prompt", values), values)
        known = await added.fetchone()
    assert known is not None
    return int(known[0])


async def begin_battle(
    pool: ConnectionPool,
    arena: int,
    matchup: UUID,
    session: int,
    category: int,
    free_prompt: int,
    payers: Sequence[int] = (),
) -> tuple[datetime, tuple[int, int]]:
    """Store a battle that was served, once only; return when it began, and the models on the left and on the right.

    ``payers``: accounts on which it is counted besides the session.
    """
    values = {
        "arena": arena,
        "matchup": matchup,
        "session": session,
        "category": category,
        "free_prompt": free_prompt,
        "payers": list(payers),
    }
    began_at, (left, right) = await fetch_one(pool, "live_add_battle", values)
    return began_at, (left, right)


async def begin_turn(
    pool: ConnectionPool, arena: int, matchup: UUID, plan: TurnPlan, limits: BudgetLimits
) -> tuple[int, int]:
    """Store a turn and reserve the money for both calls, or raise `OutOfBudget`; return the numbers of the calls.

    `Closed` if the battle has ended or is void, or if its last turn or another of its voter has not ended. All of it is
    one transaction.
    """
    key: dict[str, Any] = {"arena": arena, "matchup": matchup, "turn": plan.turn}
    async with pool.connection() as connection, _locked(connection, arena) as pipeline:
        begun = await connection.execute(find_statement("live_begin", key), key)
        ended = await connection.execute(find_statement("live_has_ended", key), key)
        battle = await begun.fetchone()
        if battle is None or await ended.fetchone() == (True,):
            raise Closed("this battle has ended; begin a new one")
        key |= {"session": battle[0], "payers": battle[1], "process": plan.process}
        added = await connection.execute(statement("live_add_turn"), key | {"prompt": plan.prompt})
        placed = await connection.execute(statement("slots_begin"), key)
        await pipeline.sync()
        if not added.rowcount:
            raise Closed("the last turn of this battle has not ended; wait for both answers, or stop them")
        if not placed.rowcount:
            raise Closed("another turn of yours is running; wait for its answers, or stop them")
        added = await _add_calls(connection, key, (0, 1), plan.calls, limits)
    (left,), (right,) = await added.fetchall()
    return int(left), int(right)


async def retry_call(
    pool: ConnectionPool, arena: int, failed: int, plan: CallPlan, limits: BudgetLimits
) -> int:
    """Reserve the money for a further call in place of one that has ended; return its number."""
    async with pool.connection() as connection, _locked(connection, arena):
        row = await fetch_row(connection, "live_find_call", {"arena": arena, "call": failed})
        if row is None:
            raise Closed("this call runs, or its turn has ended; it cannot be repeated")
        matchup, turn, side, session, payers = row
        key = {"arena": arena, "matchup": matchup, "turn": turn, "session": session, "payers": payers}
        added = await _add_calls(connection, key, (side,), (plan,), limits)
    ((number,),) = await added.fetchall()
    return int(number)


async def finish_call(pool: ConnectionPool, arena: int, call: int, end: CallEnd) -> None:
    """Store how a call ended, and count its cost instead of its reserve. A call ends once; repeating is harmless.

    Without a cost the reserve stays counted.
    """
    values = {
        "arena": arena,
        "call": call,
        "state": end.state,
        "cost": end.cost,
        "input_tokens": end.input_tokens,
        "output_tokens": end.output_tokens,
        "first_token_seconds": end.first_token_seconds,
        "seconds": end.seconds,
        "problem": end.problem,
    }
    async with pool.connection() as connection, _locked(connection, arena):
        row = await fetch_row(connection, "live_end_call", values)
        if row is not None and row[0]:
            amount, session, payers, day = row
            accounts = accounts_of(session, payers)
            counted = {"arena": arena, "payers": accounts, "day": day, "amount": amount}
            await run_statement(connection, "live_count", counted)


async def finish_turn(pool: ConnectionPool, arena: int, matchup: UUID, turn: int, end: TurnEnd) -> None:
    """Store how a turn ended. From then on the battle can be voted on, unless a side is empty; or it is void.

    A turn ends once: whatever comes later, such as the end of a generation whose turn was declared lost, is ignored.
    """
    key = {"arena": arena, "matchup": matchup, "turn": turn}
    texts = dict(zip(("answer_a", "answer_b"), end.texts, strict=True))
    thinking = dict(zip(("thinking_a", "thinking_b"), (one or None for one in end.thinking), strict=True))
    about = {
        "votable": end.state != "void" and all(end.texts),
        "void": (end.problem or "an answer failed") if end.state == "void" else None,
        "language": end.flags.get("language"),
        "identity_talk": bool(end.flags.get("identity")),
    }
    async with pool.connection() as connection, _locked(connection, arena):
        values = {**key, **texts, **thinking, "state": end.state, "flags": Jsonb(dict(end.flags))}
        if await fetch_row(connection, "live_end_turn", values) is not None:
            await run_statement(connection, "live_end_battle_turn", key | about)
            await run_statement(connection, "live_free_slot", key)


async def void_lost_turns(pool: ConnectionPool, arena: int, process: int) -> list[UUID]:
    """Declare void the turns that run neither here nor in a living process; return the matchups of their battles.

    What their calls cost is unknown: the reserves stay counted. The caller ends the matchups; see
    `list_open_void_battles` for those whose caller died before.
    """
    values = {"arena": arena, "process": process, "problem": LOST_PROBLEM}
    async with pool.connection() as connection, _locked(connection, arena):
        found = await fetch_rows(connection, "live_void_lost", values)
        return [matchup for (matchup,) in found]


async def list_open_void_battles(pool: ConnectionPool, arena: int) -> dict[UUID, str]:
    """Battles that are void, with the reason, whose matchups have not ended."""
    rows = await fetch_rows(pool, "live_void_without_ending", {"arena": arena})
    return dict(rows)


async def arenas_with_running_turns(pool: ConnectionPool) -> list[int]:
    """The arenas in which turns run, or were left by a process that is gone."""
    rows = await fetch_rows(pool, "live_running_arenas", {})
    return [arena for (arena,) in rows]


async def read_battle(
    pool: ConnectionPool, arena: int, matchup: UUID, *, session: int | None = None
) -> LiveBattle | None:
    """A battle with its turns, the last one as far as its process has shown it; with ``session``, only this voter's."""
    values = {"arena": arena, "matchups": [matchup]}
    async with pool.connection() as connection, connection.pipeline() as pipeline:
        which = _battle_values(arena, matchup=matchup, session=session)
        found = await connection.execute(find_statement("live_battles", which), which)
        turns = await connection.execute(find_statement("live_turns", values), values)
        await pipeline.sync()
        row = await found.fetchone()
        known = tuple(LiveTurn(*turn) for _, *turn in await turns.fetchall())
    return None if row is None else _battle(row, known)


async def list_battles(pool: ConnectionPool, arena: int, session: int, limit: int = 50) -> list[LiveBattle]:
    """A voter's battles with their turns, newest first."""
    async with pool.connection() as connection:
        rows = await fetch_rows(
            connection, "live_battles", _battle_values(arena, session=session, limit=limit)
        )
        turns: dict[UUID, list[LiveTurn]] = {row[0]: [] for row in rows}
        values = {"arena": arena, "matchups": list(turns)}
        for matchup, *turn in await fetch_rows(connection, "live_turns", values):
            turns[matchup].append(LiveTurn(*turn))
    return [_battle(row, tuple(turns[row[0]])) for row in rows]


async def open_battle_of(pool: ConnectionPool, arena: int, session: int) -> UUID | None:
    """The voter's battle that is neither void nor voted on, skipped or expired; ``None`` if there is none."""
    row = await fetch_row(pool, "live_open_battle", {"arena": arena, "session": session})
    return None if row is None else row[0]


async def read_sides(pool: ConnectionPool, arena: int, matchup: UUID) -> tuple[int, int]:
    """The numbers of the models on the left and on the right. No voter may see them before the vote."""
    row = await fetch_row(pool, "live_sides", {"arena": arena, "matchup": matchup})
    if row is None:
        raise matchup_not_found_error()
    return int(row[0]), int(row[1])


async def record_turn_vote(
    pool: ConnectionPool, arena: int, matchup: UUID, turn: int, outcome: TurnOutcome
) -> None:
    """Store the verdict on one turn, instead of an earlier one; `Closed` if the turn is not complete or void."""
    values = {"arena": arena, "matchup": matchup, "turn": turn, "outcome": outcome}
    if not await run_statement(pool, "live_turn_vote", values):
        raise Closed("this turn has no two complete answers; there is nothing to compare")


async def read_live_categories(pool: ConnectionPool, arena: int) -> tuple[str, ...]:
    """The categories in which a prompt can be asked."""
    rows = await fetch_rows(pool, "live_categories", {"arena": arena})
    return tuple(name for (name,) in rows)


async def read_answer_figures(
    pool: ConnectionPool, arena: int, matchup: UUID
) -> tuple[AnswerFigures, AnswerFigures]:
    """What both sides of a battle took and cost. Nobody may see it before the vote is final."""
    rows = await fetch_rows(pool, "live_answer_figures", {"arena": arena, "matchup": matchup})
    figures = {side: AnswerFigures(*values) for side, *values in rows}
    return figures.get(0, AnswerFigures()), figures.get(1, AnswerFigures())


async def list_entrants(pool: ConnectionPool, arena: int) -> list[StoredEntrant]:
    """All versions of all entrants, ordered by model; those that are not served any more are not ``enabled``."""
    rows = await fetch_rows(pool, "live_entrants", {"arena": arena})
    return [StoredEntrant(*row) for row in rows]


async def _add_calls(
    connection: Connection,
    key: dict[str, Any],
    sides: Sequence[int],
    plans: tuple[CallPlan, ...],
    limits: BudgetLimits,
) -> AsyncCursor[Any]:
    """Reserve the money and store the calls; their numbers can be read once the transaction has ended."""
    accounts = accounts_of(key["session"], key["payers"])
    day = await reserve_calls(connection, key["arena"], accounts, plans, limits)
    values = {
        **key,
        "day": day,
        "side": list(sides),
        "model": [plan.model for plan in plans],
        "max_tokens": [plan.max_tokens for plan in plans],
        "reserve": [plan.reserve for plan in plans],
    }
    return await connection.execute(find_statement("live_add_calls", values), values)


def _battle_values(
    arena: int,
    *,
    matchup: UUID | None = None,
    session: int | None = None,
    limit: int = 1,
) -> dict[str, Any]:
    """Which battles are read."""
    return {
        "arena": arena,
        "matchup": matchup,
        "session": session,
        "limit": limit,
        "turn_limit": ArenaSettings().live_turns,
    }


def _battle(row: Sequence[Any], turns: tuple[LiveTurn, ...]) -> LiveBattle:
    matchup, arena, category, began_at, is_void, ballot, is_late, ended, turn_limit = row
    state: BattleState = "expired" if is_late else "open"
    if ended is not None:
        state = _ENDINGS[ended]
    if is_void:
        state = "void"
    complete = bool(turns) and turns[-1].state in ("done", "stopped")
    return LiveBattle(
        matchup=matchup,
        arena=arena,
        category=category,
        state=state,
        turns=turns,
        began_at=began_at,
        ballot=ballot,
        can_continue=state == "open" and complete and len(turns) < turn_limit,
    )


@asynccontextmanager
async def _locked(connection: Connection, arena: int) -> AsyncIterator[AsyncPipeline]:
    """A transaction under the arena's lock: one at a time, so that none waits for another in a circle.

    Statements are sent together until the answer to one is read.
    """
    async with pipelined_transaction(connection) as pipeline:
        await lock_spending(connection, arena)
        yield pipeline


class LiveSpending(NamedTuple):
    """What is counted against the budgets of an arena, in millionths of a dollar."""

    total: int
    day: int
    #: Of one voter on this day, on the account with the most.
    voter_day: int
    today: date


async def lock_spending(connection: Connection, arena: int) -> None:
    """Let nobody else reserve or settle in this arena until the transaction ends."""
    await connection.execute(statement("live_lock"), {"arena": arena})


def accounts_of(session: int, payers: Sequence[int]) -> list[int]:
    """The accounts of a voter: the session, the network, and the networks around it."""
    return [session, *payers]


async def read_spending(connection: Connection, arena: int, accounts: Sequence[int] = ()) -> LiveSpending:
    """What is counted now; of a voter, if the accounts are given. Without the lock it may change at once."""
    row = await fetch_one(connection, "live_spending", {"arena": arena, "payers": list(accounts)})
    return LiveSpending(*row)


async def reserve_calls(
    connection: Connection,
    arena: int,
    accounts: Sequence[int],
    calls: tuple[CallPlan, ...],
    limits: BudgetLimits,
) -> date:
    """Count the most that these calls can cost, or raise `OutOfBudget`; return the day of the account.

    Call it in a transaction under `lock_spending`.
    """
    spending = await read_spending(connection, arena, accounts)
    amount = check_budget(spending, calls, limits)
    if amount:
        values = {"arena": arena, "payers": list(accounts), "day": spending.today, "amount": amount}
        await connection.execute(statement("live_count"), values)
    return spending.today


def check_budget(spending: LiveSpending, calls: tuple[CallPlan, ...], limits: BudgetLimits) -> int:
    """The sum that these calls reserve; `OutOfBudget` if it does not fit in each budget."""
    bounds = (
        ("total", spending.total, limits.total, "the budget of this arena does not pay for another battle"),
        (
            "day",
            spending.day,
            limits.day,
            "what this arena may spend today does not pay for another battle; come back tomorrow (UTC)",
        ),
        (
            "voter",
            spending.voter_day,
            limits.voter_day,
            "your share of this arena's budget for today does not pay for another battle; come back tomorrow (UTC)",
        ),
    )
    is_limited = any(limit is not None for _, _, limit, _ in bounds)
    if is_limited and any(call.reserve is None for call in calls):
        raise OutOfBudget(
            "a model of this arena has no known price, and the arena has a budget: its operator must state the price"
            " in the models file",
            scope="price",
        )
    amount = sum(call.reserve or 0 for call in calls)
    for scope, counted, limit, problem in bounds:
        if limit is not None and counted + amount > limit:
            raise OutOfBudget(problem, scope=scope)
    return amount


#: Calls of so many days are counted.
OVERVIEW_DAYS: Final = 30
_FAILURE_KIND_LIMIT = 20


@dataclass(frozen=True, slots=True)
class EntrantUse:
    """One version of an entrant. Money is in millionths of a dollar; what is not known yet counts as reserved."""

    model: str
    version: str
    enabled: bool
    paused: bool
    calls: int
    failed: int
    #: Seconds to the first token, the median; ``None`` without an answer.
    first_token_seconds: float | None
    spent_today: int
    spent: int
    #: When it answered last, and what has failed since.
    answered_at: datetime | None
    failed_since: int
    problem: str | None


@dataclass(frozen=True, slots=True)
class FailureCount:
    """How often calls of a model failed for one reason."""

    model: str
    problem: str
    count: int


@dataclass(frozen=True, slots=True)
class LiveOverview:
    """The state of a live arena."""

    spending: LiveSpending
    entrants: tuple[EntrantUse, ...]
    failures: tuple[FailureCount, ...]
    #: Battles of the same days, and how many of them are void.
    battles: int
    void: int


async def read_live_overview(pool: ConnectionPool, arena: int) -> LiveOverview:
    """Who answers, how well, and what it costs, by the calls of the last days."""
    values = {"arena": arena, "days": OVERVIEW_DAYS, "limit": _FAILURE_KIND_LIMIT}
    async with pool.connection() as connection:
        spending = await read_spending(connection, arena)
        entrants = await fetch_rows(connection, "live_entrant_use", values)
        failures = await fetch_rows(connection, "live_failures", values)
        battles = await fetch_one(connection, "live_battle_counts", values)
    return LiveOverview(
        spending,
        tuple(EntrantUse(*row) for row in entrants),
        tuple(FailureCount(*row) for row in failures),
        *battles,
    )
