"""Live battles in the voting queue: served for a prompt, voted on when complete, void when an answer fails."""

from contextlib import asynccontextmanager
from uuid import UUID, uuid4

import pytest

from support.folded_votes import rows
from support.live_arenas import new_voting_queue
from tiltyard.arena.live.live_records import BudgetLimits, CallPlan, TurnEnd, TurnPlan
from tiltyard.arena.live.live_store import begin_battle, begin_turn, finish_turn, number_prompt, read_battle
from tiltyard.arena.log.event_log import LogKind
from tiltyard.arena.log.log_columns import read_columns
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.errors import BadOption, Closed, Conflict, NoMatchup, OpenBattle
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.arena_settings import ArenaSettings

ANN, BOB = Voter(1), Voter(2)
LIVE = ArenaSettings(kind="live", undo_seconds=10.0)
PLAN = TurnPlan(1, "What?", (CallPlan(0, 1, 10), CallPlan(1, 1, 10)), 7)


@asynccontextmanager
async def live_queue(database, *, models=4, categories=2):
    async with (
        open_pool(database, most=4) as pool,
        new_voting_queue(database, models, categories, settings=LIVE) as queue,
    ):
        yield pool, queue


async def answered(pool, queue, voter=ANN, *, text="What?", state="done", category=0):
    """A battle with one complete turn."""
    number = await number_prompt(pool, queue.arena, text)
    offered = await queue.begin_live(voter, category, number)
    await begin_battle(pool, queue.arena, offered.matchup, voter.session, category, number)
    await begin_turn(pool, queue.arena, offered.matchup, PLAN, BudgetLimits())
    await finish_turn(pool, queue.arena, offered.matchup, 1, TurnEnd(state, ("left", "right")))
    return offered.matchup


async def test_a_battle_is_served_in_its_category_with_the_number_of_its_prompt(database):
    async with live_queue(database) as (pool, queue):
        number = await number_prompt(pool, queue.arena, "Why?")
        offered = await queue.begin_live(ANN, 1, number)
        assert offered.new
        assert offered.prompt == 1
        assert queue.state.open[offered.matchup].free_prompt == number
        # It is still so after a restart.
        await queue.unload()
        with pytest.raises(OpenBattle) as refusal:
            await queue.begin_live(ANN, 0, number)
        assert UUID(refusal.value.matchup) == offered.matchup
        assert queue.state.open[offered.matchup].free_prompt == number
        await queue.skip(ANN, offered.matchup)
        await queue.begin_live(ANN, 0, number)
    assert rows(database, "SELECT free_prompt, prompt FROM matchups ORDER BY serial") == [(1, 1), (1, 0)]
    assert rows(database, "SELECT free_prompt FROM events WHERE kind = 0 ORDER BY position") == [(1,), (1,)]


async def test_only_prompts_begin_battles_and_only_in_live_arenas(database):
    async with live_queue(database) as (_pool, queue):
        for ask in (queue.next_matchup(ANN), queue.look_ahead(ANN, None)):
            with pytest.raises(Conflict, match="write the prompts"):
                await ask
        for category, number in ((2, 1), (0, 0)):
            with pytest.raises(BadOption):
                await queue.begin_live(ANN, category, number)
    async with new_voting_queue(database, name="cached") as queue:
        with pytest.raises(Conflict, match="stored responses"):
            await queue.begin_live(ANN, 0, 1)


async def test_models_that_rest_are_passed_over_and_the_log_says_so(database):
    async with live_queue(database) as (_pool, queue):
        for session in range(1, 30):
            offered = await queue.begin_live(Voter(session), 0, 1, resting=(0, 3, 99))
            opened = queue.state.open[offered.matchup]
            assert {opened.a, opened.b} == {1, 2}
        with pytest.raises(NoMatchup, match="at present"):
            await queue.begin_live(Voter(50), 0, 1, resting=(0, 1, 3))
        assert (await queue.begin_live(Voter(50), 0, 1)).new
    assert rows(database, "SELECT detail FROM events WHERE kind = 0 ORDER BY position LIMIT 1") == [
        ({"resting": [0, 3, 99]},)
    ]


async def test_a_vote_waits_for_both_answers(database):
    async with live_queue(database) as (pool, queue):
        number = await number_prompt(pool, queue.arena, "Why?")
        offered = await queue.begin_live(ANN, 0, number)
        vote = (ANN, offered.matchup, Kind.WIN_A)
        with pytest.raises(Closed, match="complete"):
            await queue.vote(*vote)
        await begin_battle(pool, queue.arena, offered.matchup, 1, 0, number)
        await begin_turn(pool, queue.arena, offered.matchup, PLAN, BudgetLimits())
        with pytest.raises(Closed, match="complete"):
            await queue.vote(*vote)
        await finish_turn(pool, queue.arena, offered.matchup, 1, TurnEnd("done", ("left", "right")))
        voted = await queue.vote(*vote)
        assert (await queue.vote(*vote)).position == voted.position
        await queue.undo(ANN, offered.matchup)
        assert (await read_battle(pool, queue.arena, offered.matchup)).state == "open"
        await queue.vote(ANN, offered.matchup, Kind.WIN_B, ballot=1)
    assert rows(database, "SELECT free_prompt FROM events WHERE kind = 1 ORDER BY position") == [(1,), (1,)]


async def test_names_told_after_a_vote_make_no_later_battle_less_blind(database):
    async with live_queue(database, models=2) as (pool, queue):
        for k in range(6):
            matchup = await answered(pool, queue, text=f"prompt {k}")
            assert (await queue.vote(ANN, matchup, Kind.TIE, reveal=True)).blind
            told = await queue.reveal(ANN, matchup)
            assert told.model_a != told.model_b
    assert rows(database, "SELECT count(*) FROM told_responses") == [(0,)]
    assert rows(
        database,
        "SELECT bool_or(given_up > 3), bool_and(blind) FROM matchups JOIN endings USING (arena, serial)",
    ) == [(False, True)]


async def test_a_void_battle_expires_and_frees_its_voter(database):
    async with live_queue(database) as (pool, queue):
        matchup = await answered(pool, queue, state="void")
        with pytest.raises(Closed, match="void"):
            await queue.vote(ANN, matchup, Kind.WIN_A)
        assert await queue.end_void(matchup, "an answer stalled")
        assert not await queue.end_void(matchup, "an answer stalled")
        assert not await queue.end_void(uuid4(), "nothing")
        await queue.begin_live(ANN, 0, 1)
    assert rows(database, "SELECT detail FROM events WHERE kind = 3") == [({"void": "an answer stalled"},)]


async def test_the_fold_has_the_free_prompts_of_votes(database):
    async with live_queue(database) as (pool, queue):
        for text in ("one", "two", "One?"):
            matchup = await answered(pool, queue, text=text)
            await queue.vote(ANN, matchup, Kind.WIN_A)
    with connect(database) as connection:
        columns = read_columns(connection, 1, 0)
    events = columns.events(0)
    assert events.free_prompt[events.event == LogKind.VOTE].tolist() == [1, 2, 1]
    assert not events.free_prompt[events.event != LogKind.VOTE].any()
