"""The budgets of a live arena: in total, by day, and by voter and day.

A reservation is made under one lock for each arena, in the transaction that stores the call. What is counted is what
calls cost, and the reserve of every call whose cost is not known: those that run, and those that were lost. So the sum
never exceeds a budget, whichever process dies when. Days are those of UTC.

A voter has several accounts: the session, and what does not go with its cookie (the invitation by which the voter came
in, or else the network). All are counted, and the one with the most decides: who deletes cookies gains nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

from tiltyard.arena.live.live_records import BudgetLimits, CallPlan
from tiltyard.arena.log.buckets import fetch_one
from tiltyard.errors import OutOfBudget
from tiltyard.postgres.connections import Connection
from tiltyard.postgres.statements import statement


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
    """The accounts of a voter: each once."""
    return sorted({session, *payers})


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
