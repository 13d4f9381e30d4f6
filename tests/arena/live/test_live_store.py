"""Battles, turns and calls as they are stored."""

import asyncio
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest

from support.folded_votes import rows
from support.live_arenas import new_voting_queue
from tiltyard.arena.live.live_records import BudgetLimits, CallEnd, CallPlan, TurnEnd, TurnPlan
from tiltyard.arena.live.live_store import (
    LOST_PROBLEM,
    begin_battle,
    begin_turn,
    finish_call,
    finish_turn,
    list_battles,
    list_open_void_battles,
    number_prompt,
    open_battle_of,
    read_battle,
    read_sides,
    record_turn_vote,
    retry_call,
    void_lost_turns,
)
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.errors import Closed, NotFound, OutOfBudget
from tiltyard.postgres.connections import connect, open_pool

ANN = Voter(1)
HERE, GONE = 11, 12
NO_LIMITS = BudgetLimits()
CALLS = (CallPlan(0, 100, 50), CallPlan(1, 200, 50))
DONE = CallEnd("done", input_tokens=3, output_tokens=4, cost=70, first_token_seconds=0.5, seconds=2.0)


def plan(turn=1, process=HERE, calls=CALLS):
    return TurnPlan(turn, f"prompt {turn}", calls, process)


async def served_battle(pool, queue, arena, voter=ANN):
    """A battle whose matchup is open."""
    number = await number_prompt(pool, arena, "What is this?")
    offered = await queue.next_matchup(voter)
    await begin_battle(pool, arena, offered.matchup, voter.session, offered.prompt, number)
    return offered.matchup


@asynccontextmanager
async def an_arena(database):
    async with open_pool(database, most=4) as pool, new_voting_queue(database) as queue:
        yield pool, queue, queue.arena


async def test_prompts_are_numbered_densely_by_what_they_say(database):
    async with an_arena(database) as (pool, _queue, arena):
        assert [
            await number_prompt(pool, arena, text) for text in ("One?", "two", " one ", "Three", "TWO!")
        ] == [
            1,
            2,
            1,
            3,
            2,
        ]
        together = await asyncio.gather(*(number_prompt(pool, arena, f"text {k % 5}") for k in range(20)))
        assert sorted(set(together)) == [4, 5, 6, 7, 8]


async def test_a_battle_goes_from_its_first_turn_to_its_vote(database):
    async with an_arena(database) as (pool, queue, arena):
        assert await open_battle_of(pool, arena, 1) is None
        matchup = await served_battle(pool, queue, arena)
        assert await open_battle_of(pool, arena, 1) == matchup
        assert await open_battle_of(pool, arena, 2) is None
        calls = await begin_turn(pool, arena, matchup, plan(), NO_LIMITS)
        battle = await read_battle(pool, arena, matchup)
        assert [(turn.prompt, turn.state) for turn in battle.turns] == [("prompt 1", "waiting")]
        assert not battle.can_continue
        with pytest.raises(Closed, match="not ended"):
            await begin_turn(pool, arena, matchup, plan(2), NO_LIMITS)
        for call in calls:
            await finish_call(pool, arena, call, DONE)
        await finish_turn(
            pool, arena, matchup, 1, TurnEnd("done", ("left", "right"), flags={"language": "en"})
        )
        battle = await read_battle(pool, arena, matchup, session=1)
        assert (battle.turns[0].a, battle.turns[0].b, battle.state) == ("left", "right", "open")
        assert battle.can_continue
        assert battle.arena == "arena"
        assert battle.category.startswith("prompt-")
        assert await read_battle(pool, arena, matchup, session=2) is None
        await begin_turn(pool, arena, matchup, plan(2), NO_LIMITS)
        await finish_turn(pool, arena, matchup, 2, TurnEnd("stopped", ("le", "ri"), thinking=("hm", "")))
        await queue.vote(ANN, matchup, Kind.WIN_A)
        with pytest.raises(Closed, match="ended"):
            await begin_turn(pool, arena, matchup, plan(3), NO_LIMITS)
        battle = await read_battle(pool, arena, matchup)
        assert (battle.state, battle.can_continue) == ("voted", False)
        assert [one.matchup for one in await list_battles(pool, arena, 1)] == [matchup]
        assert await list_battles(pool, arena, 2) == []
        assert await open_battle_of(pool, arena, 1) is None
    assert rows(database, "SELECT thinking_a, thinking_b, flags FROM live_turns ORDER BY turn") == [
        (None, None, {"language": "en"}),
        ("hm", None, {}),
    ]


async def test_a_battle_can_be_voted_on_while_no_turn_runs_and_one_has_both_answers(database):
    async with an_arena(database) as (pool, queue, arena):
        matchup = await served_battle(pool, queue, arena)
        seen = []
        for turn, texts in ((1, ("a", "")), (2, ("a", "b")), (3, ("a", ""))):
            await begin_turn(pool, arena, matchup, plan(turn), NO_LIMITS)
            seen += rows(database, "SELECT votable FROM live_battles")
            await finish_turn(pool, arena, matchup, turn, TurnEnd("stopped", texts))
            seen += rows(database, "SELECT votable FROM live_battles")
        assert seen == [(False,), (False,), (False,), (True,), (False,), (True,)]


async def test_verdicts_on_turns_are_kept_beside_them(database):
    async with an_arena(database) as (pool, queue, arena):
        matchup = await served_battle(pool, queue, arena)
        await begin_turn(pool, arena, matchup, plan(), NO_LIMITS)
        with pytest.raises(Closed):
            await record_turn_vote(pool, arena, matchup, 1, "a")
        await finish_turn(pool, arena, matchup, 1, TurnEnd("done", ("left", "right")))
        await record_turn_vote(pool, arena, matchup, 1, "a")
        await record_turn_vote(pool, arena, matchup, 1, "both_bad")
        assert (await read_battle(pool, arena, matchup)).turns[0].outcome == "both_bad"


async def test_models_of_a_battle_are_those_of_its_matchup(database):
    async with an_arena(database) as (pool, queue, arena):
        matchup = await served_battle(pool, queue, arena)
        opened = queue.state.open[matchup]
        assert await read_sides(pool, arena, matchup) == (opened.a, opened.b)
        with pytest.raises(NotFound):
            await read_sides(pool, arena, uuid4())


async def test_a_failed_call_may_be_repeated_while_its_turn_runs_and_both_are_counted(database):
    async with an_arena(database) as (pool, queue, arena):
        matchup = await served_battle(pool, queue, arena)
        left, right = await begin_turn(pool, arena, matchup, plan(), NO_LIMITS)
        with pytest.raises(Closed):
            await retry_call(pool, arena, left, CALLS[0], NO_LIMITS)
        await finish_call(pool, arena, left, CallEnd("failed", problem="timeout"))
        again = await retry_call(pool, arena, left, CALLS[0], NO_LIMITS)
        await finish_call(pool, arena, again, DONE)
        await finish_call(pool, arena, again, CallEnd("failed"))
        await finish_call(pool, arena, right, CallEnd("done", cost=0))
        await finish_turn(pool, arena, matchup, 1, TurnEnd("done", ("left", "right")))
        with pytest.raises(Closed):
            await retry_call(pool, arena, left, CALLS[0], NO_LIMITS)
    assert rows(database, "SELECT side, state, cost, reserve FROM live_calls ORDER BY call") == [
        (0, "failed", None, 100),
        (1, "done", 0, 200),
        (0, "done", 70, 100),
    ]
    assert rows(database, "SELECT session, counted FROM live_spending ORDER BY session") == [
        (0, 170),
        (1, 170),
    ]


async def test_turns_of_a_lost_process_are_void_and_their_reserves_stay_counted(database):
    async with an_arena(database) as (pool, queue, arena):
        matchup = await served_battle(pool, queue, arena)
        left, _ = await begin_turn(pool, arena, matchup, plan(process=GONE), NO_LIMITS)
        await finish_call(pool, arena, left, DONE)
        with connect(database) as connection:
            connection.execute("INSERT INTO processes VALUES (%s, 'web', now() + interval '1 hour')", (GONE,))
            assert await void_lost_turns(pool, arena, HERE) == []
            connection.execute("UPDATE processes SET expires_at = now()")
        assert await void_lost_turns(pool, arena, GONE) == [], "it runs here"
        assert await void_lost_turns(pool, arena, HERE) == [matchup]
        assert await void_lost_turns(pool, arena, HERE) == []
        assert await list_open_void_battles(pool, arena) == {matchup: LOST_PROBLEM}
        # What the lost process still wrote has no effect.
        await finish_turn(pool, arena, matchup, 1, TurnEnd("done", ("left", "right")))
        assert (await read_battle(pool, arena, matchup)).state == "void"
        assert await open_battle_of(pool, arena, 1) is None
        with pytest.raises(Closed):
            await begin_turn(pool, arena, matchup, plan(2), NO_LIMITS)
        with pytest.raises(Closed):
            await record_turn_vote(pool, arena, matchup, 1, "a")
        await queue.skip(ANN, matchup)
        assert await list_open_void_battles(pool, arena) == {}
    assert rows(
        database, "SELECT state, votable FROM live_turns JOIN live_battles USING (arena, matchup)"
    ) == [("void", False)]
    assert rows(database, "SELECT state, cost FROM live_calls ORDER BY call") == [
        ("done", 70),
        ("unknown", None),
    ]
    assert rows(database, "SELECT counted FROM live_spending WHERE session = 0") == [(270,)]


@pytest.mark.parametrize(
    ("limits", "scope"),
    [
        (BudgetLimits(total=299), "total"),
        (BudgetLimits(total=300, day=299), "day"),
        (BudgetLimits(voter_day=299), "voter"),
    ],
)
async def test_a_turn_that_does_not_fit_in_a_budget_leaves_no_trace(database, limits, scope):
    async with an_arena(database) as (pool, queue, arena):
        matchup = await served_battle(pool, queue, arena)
        with pytest.raises(OutOfBudget) as refusal:
            await begin_turn(pool, arena, matchup, plan(), limits)
        assert refusal.value.scope == scope
        assert (await read_battle(pool, arena, matchup)).turns == ()
        await begin_turn(pool, arena, matchup, plan(), BudgetLimits(300, 300, 300))


async def test_a_model_without_a_price_is_not_asked_while_there_is_a_budget(database):
    unpriced = (CallPlan(0, None, 50), CallPlan(1, 200, 50))
    async with an_arena(database) as (pool, queue, arena):
        matchup = await served_battle(pool, queue, arena)
        with pytest.raises(OutOfBudget, match="no known price"):
            await begin_turn(pool, arena, matchup, plan(calls=unpriced), BudgetLimits(day=10_000))
        left, _ = await begin_turn(pool, arena, matchup, plan(calls=unpriced), NO_LIMITS)
        await finish_call(pool, arena, left, CallEnd("done", cost=33))
    assert rows(database, "SELECT counted FROM live_spending WHERE session = 0") == [(233,)]
