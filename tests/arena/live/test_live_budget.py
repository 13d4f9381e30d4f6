"""The law of budgets: what is spent and reserved never exceeds a budget, whatever fails and whoever dies."""

import asyncio
import contextlib
import gc
import random
from collections import Counter
from types import SimpleNamespace
from uuid import UUID

import pytest

from support.bare_arenas import make_arena
from support.sizes import sized
from tiltyard.arena.live.live_records import BudgetLimits, CallEnd, CallPlan, TurnEnd, TurnPlan
from tiltyard.arena.live.live_store import (
    LiveSpending,
    accounts_of,
    begin_turn,
    check_budget,
    finish_call,
    finish_turn,
    lock_spending,
    read_spending,
    reserve_calls,
    retry_call,
    void_lost_turns,
)
from tiltyard.arena.processes.shared_limits import wider_networks
from tiltyard.errors import Closed, OutOfBudget
from tiltyard.postgres.connections import connect, open_pool

SCHEDULES = sized(6, 200)
VOTERS, BATTLES, WORKERS = 3, 6, 4


def battle_id(arena, number):
    return UUID(int=(arena << 96) + number)


def lay_battles(connection, arena):
    """Battles of three voters, which may begin turns."""
    connection.execute("INSERT INTO live_prompts VALUES (%s, 1, '')", (arena,))
    for number in range(BATTLES):
        connection.execute(
            "INSERT INTO live_battles (arena, matchup, session, category, free_prompt) VALUES (%s, %s, %s, 0, 1)",
            (arena, battle_id(arena, number), 1 + number % VOTERS),
        )


def check_law(connection, arena, limits):
    """Nothing exceeds a budget, and what is kept as the sum is the sum."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        rows = connection.execute(
            "SELECT session, day, sum(coalesce(cost, reserve, 0))::bigint FROM live_calls"
            " WHERE arena = %s GROUP BY 1, 2",
            (arena,),
        ).fetchall()
        sums = connection.execute(
            "SELECT session, day, counted FROM live_spending WHERE arena = %s AND counted <> 0", (arena,)
        ).fetchall()
    days, kept = Counter(), {}
    for session, day, counted in rows:
        days[day] += counted
        kept[session, day] = counted
        assert limits.voter_day is None or counted <= limits.voter_day
    assert limits.day is None or all(counted <= limits.day for counted in days.values())
    assert limits.total is None or days.total() <= limits.total
    told = {(session, day): counted for session, day, counted in sums}
    expected = kept | {(0, day): counted for day, counted in days.items()}
    assert told == {key: counted for key, counted in expected.items() if counted}


async def ask(pool, schedule, chance):
    """One worker: turns whose calls end well, fail, are repeated, or are never heard of again."""
    arena, limits, seen = schedule.arena, schedule.limits, schedule.seen
    for _ in range(5):
        matchup = battle_id(arena, chance.randrange(BATTLES))
        turn = schedule.turns[matchup] + chance.choice([1, 1, 1, 2])
        calls = tuple(CallPlan(model, chance.randint(0, 400), 10) for model in (0, 1))
        beginning = begin_turn(pool, arena, matchup, TurnPlan(turn, "?", calls, chance.randint(1, 3)), limits)
        try:
            # Some processes die, wherever they are.
            seconds = chance.uniform(0.0, 0.02) if chance.random() < 0.15 else None
            numbers = await asyncio.wait_for(beginning, seconds)
        except TimeoutError:
            seen["killed"] += 1
            return
        except (OutOfBudget, Closed) as refusal:
            seen[type(refusal).__name__] += 1
            continue
        seen["begun"] += 1
        for number, call in zip(numbers, calls, strict=True):
            await end_call(pool, schedule, chance, number, call)
        if chance.random() < 0.8:
            state = chance.choice(["done", "stopped", "void"])
            await finish_turn(pool, arena, matchup, turn, TurnEnd(state, ("a", "b")))
            schedule.turns[matchup] = turn


async def end_call(pool, schedule, chance, number, call):
    arena, limits, seen = schedule.arena, schedule.limits, schedule.seen
    fate = chance.random()
    if fate < 0.2:
        seen["lost"] += 1
        return
    if fate < 0.5:
        await finish_call(pool, arena, number, CallEnd("failed", cost=chance.choice([None, 0])))
        with contextlib.suppress(OutOfBudget, Closed):
            again = await retry_call(pool, arena, number, call, limits)
            seen["repeated"] += 1
            await finish_call(pool, arena, again, CallEnd("done", cost=chance.randint(0, call.reserve)))
        return
    cost = chance.choice([None, chance.randint(0, call.reserve)])
    await finish_call(pool, arena, number, CallEnd("done", cost=cost))
    await finish_call(pool, arena, number, CallEnd("done", cost=0))


async def one_schedule(pool, checker, arena, seed, seen):
    chance = random.Random(seed)
    most = (None, chance.randint(0, 4000))
    limits = BudgetLimits(*(chance.choice(most) for _ in range(3)))
    schedule = SimpleNamespace(arena=arena, limits=limits, seen=seen, turns=Counter())
    lay_battles(checker, arena)
    workers = [
        asyncio.create_task(ask(pool, schedule, random.Random(seed * 100 + k))) for k in range(WORKERS)
    ]
    while not all(worker.done() for worker in workers):
        await asyncio.wait(workers, timeout=0.02, return_when=asyncio.FIRST_COMPLETED)
        check_law(checker, arena, limits)
    for worker in workers:
        await worker
    check_law(checker, arena, limits)
    await void_lost_turns(pool, arena, chance.randint(0, 3))
    check_law(checker, arena, limits)
    running = checker.execute(
        "SELECT count(*) FROM live_calls JOIN live_turns USING (arena, matchup, turn)"
        " WHERE arena = %s AND live_calls.state = 'running' AND live_turns.state = 'void' AND process IS NOT NULL",
        (arena,),
    ).fetchone()
    assert running == (0,)


# psycopg's generator that leaves a pipeline, cut off there, flushes when it is collected: its connection is closed by then.
@pytest.mark.filterwarnings("ignore:Exception ignored in. <generator object BasePipeline")
def test_no_schedule_of_faults_exceeds_a_budget(database):
    seen = Counter()
    arenas = [make_arena(database, f"arena-{k}") for k in range(SCHEDULES)]

    async def scene():
        async with open_pool(database, most=8) as pool:
            for seed, arena in enumerate(arenas):
                await one_schedule(pool, checker, arena, seed, seen)

    with connect(database) as checker:
        asyncio.run(scene())
    gc.collect()
    for kind in ("begun", "OutOfBudget", "Closed", "lost", "repeated", "killed"):
        assert seen[kind] > SCHEDULES // 10, seen


@pytest.mark.parametrize("scope", ["total", "day", "voter_day"])
def test_a_budget_is_used_to_the_last_millionth(database, scope):
    arena = make_arena(database, "exact")

    async def scene():
        async with open_pool(database, most=2) as pool:
            with connect(database) as connection:
                lay_battles(connection, arena)
            limits = BudgetLimits(**{scope: 1000})
            one = battle_id(arena, 0)
            calls = (CallPlan(0, 600, 1), CallPlan(1, 401, 1))
            with pytest.raises(OutOfBudget):
                await begin_turn(pool, arena, one, TurnPlan(1, "?", calls, 1), limits)
            fits = (calls[0], CallPlan(1, 400, 1))
            left, _ = await begin_turn(pool, arena, one, TurnPlan(1, "?", fits, 1), limits)
            await finish_turn(pool, arena, one, 1, TurnEnd("done", ("a", "b")))
            other = battle_id(arena, 3)
            with pytest.raises(OutOfBudget):
                await begin_turn(
                    pool, arena, other, TurnPlan(1, "?", (CallPlan(0, 1, 1), CallPlan(1, 0, 1)), 1), limits
                )
            await finish_call(pool, arena, left, CallEnd("done", cost=599))
            await begin_turn(
                pool, arena, other, TurnPlan(1, "?", (CallPlan(0, 1, 1), CallPlan(1, 0, 1)), 1), limits
            )
            async with pool.connection() as connection:
                spent = await read_spending(connection, arena, [1])
            assert spent[:3] == (1000, 1000, 1000)

    asyncio.run(scene())


def test_yesterday_counts_in_the_total_alone(database):
    arena = make_arena(database, "days")
    with connect(database) as connection:
        connection.execute(
            "INSERT INTO live_spending VALUES (%(arena)s, 0, current_date - 2, 500), (%(arena)s, 7, current_date - 2, 500)",
            {"arena": arena},
        )

    async def scene():
        async with open_pool(database, most=2) as pool, pool.connection() as connection:
            return await read_spending(connection, arena, [7])

    spending = asyncio.run(scene())
    assert spending[:3] == (500, 0, 0)
    assert check_budget(spending, (CallPlan(0, 100, 1),), BudgetLimits(600, 100, 100)) == 100
    with pytest.raises(OutOfBudget, match="does not pay"):
        check_budget(LiveSpending(501, 0, 0, spending.today), (CallPlan(0, 100, 1),), BudgetLimits(600))


def test_accounts_that_two_sessions_share_are_one_voters(database):
    """Whoever deletes a cookie has a new session and the same invitation, or network."""
    arena = make_arena(database, "shared")
    calls = (CallPlan(0, 300, 1), CallPlan(1, 300, 1))

    async def scene():
        async with open_pool(database, most=2) as pool:
            with connect(database) as connection:
                lay_battles(connection, arena)
                connection.execute("UPDATE live_battles SET payers = '{77}' WHERE session IN (1, 2)")

            async def spent(*accounts):
                async with pool.connection() as connection:
                    return (await read_spending(connection, arena, accounts)).voter_day

            limits = BudgetLimits(voter_day=1000)
            left, right = await begin_turn(
                pool, arena, battle_id(arena, 0), TurnPlan(1, "?", calls, 1), limits
            )
            with pytest.raises(OutOfBudget) as refusal:
                await begin_turn(pool, arena, battle_id(arena, 1), TurnPlan(1, "?", calls, 1), limits)
            assert refusal.value.scope == "voter"
            await begin_turn(pool, arena, battle_id(arena, 2), TurnPlan(1, "?", calls, 1), limits)
            assert (await spent(1), await spent(2), await spent(77), await spent(2, 77)) == (600, 0, 600, 600)
            await finish_call(pool, arena, left, CallEnd("failed", cost=0))
            await finish_call(pool, arena, right, CallEnd("failed", cost=100))
            await retry_call(pool, arena, right, CallPlan(1, 50, 1), limits)
            assert (await spent(1), await spent(77)) == (150, 150)
            await begin_turn(pool, arena, battle_id(arena, 1), TurnPlan(1, "?", calls, 1), limits)
            assert (await spent(1), await spent(2), await spent(77)) == (150, 600, 750)
            async with pool.connection() as connection:
                assert (await read_spending(connection, arena)).total == 1350

    asyncio.run(scene())


def test_wider_networks_have_a_larger_share(database):
    """A /48 has four times what a /64 has, however many of its /64 it uses."""
    arena, limits = make_arena(database, "wide"), BudgetLimits(voter_day=1000)
    assert wider_networks("203.0.113.7") == wider_networks("somewhere") == {}
    numbers = {}

    async def spend(connection, session, network):
        around = (network, *wider_networks(network).values())
        payers = [1000 + numbers.setdefault(one, len(numbers)) for one in around]
        calls = (CallPlan(0, 50, 1), CallPlan(1, 40, 1))
        for turn in range(50):
            try:
                async with connection.transaction():
                    await lock_spending(connection, arena)
                    await reserve_calls(connection, arena, accounts_of(session, payers), calls, limits)
            except OutOfBudget:
                return 90 * turn
        raise AssertionError("it spends without end")

    async def scene():
        async with open_pool(database, most=2) as pool, pool.connection() as connection:
            near = [await spend(connection, k, f"2001:db8:1:{k:x}::/64") for k in range(1, 6)]
            far = [await spend(connection, k, f"2001:db8:2:{k:02x}00::/64") for k in range(6, 16)]
        return near, far

    near, far = asyncio.run(scene())
    assert near[0] == far[0] == 990
    assert 1800 < sum(near) <= 2000
    assert 3600 < sum(far) <= 4000
