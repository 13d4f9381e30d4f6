"""Live battles on a real database, with models that answer by scripts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from support.faults.cutting_proxy import cutting_proxy
from support.folded_votes import rows
from support.live_worlds import ScriptedModels, live_registries, make_live_arena, read_frames
from support.scripted_streams import ScriptedChat, StreamScript
from tiltyard.arena.live.live_battles import LiveBattles
from tiltyard.arena.live.live_records import FrameMark
from tiltyard.arena.registry import ArenaRegistry
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.errors import (
    BadOption,
    Closed,
    OpenBattle,
    ProviderFault,
)
from tiltyard.postgres.connections import connect

ANN, BOB = Voter(1), Voter(2)
_FAULT = ProviderFault("https://secret-model.example: 500", status=500, retryable=True)
LONG = StreamScript([(0.05, "word ")] * 200)


@asynccontextmanager
async def live_arena(
    database: str, models: ScriptedModels | None = None, **settings: Any
) -> AsyncIterator[tuple[ArenaRegistry, LiveBattles]]:
    settings.setdefault("live_pace", "as-it-comes")
    await make_live_arena(database, **settings)
    async with live_registries(database, models or ScriptedModels()) as (registry,):
        yield registry, await registry.live_battles("arena")


async def test_a_battle_from_the_prompt_to_the_vote_and_the_names(database: str) -> None:
    models = ScriptedModels()
    async with live_arena(database, models) as (registry, battles):
        battle = await battles.ask(ANN, "Why is the sky blue?")
        assert (battle.state, battle.category, len(battle.turns)) == ("open", "prompt-0", 1)
        queue = await registry.voting_queue("arena")
        with pytest.raises(Closed, match="complete"):
            await queue.vote(ANN, battle.matchup, Kind.WIN_A)
        with pytest.raises(OpenBattle) as refusal:
            await battles.ask(ANN, "Another?")
        assert refusal.value.matchup == str(battle.matchup)
        frames = await read_frames(battles, ANN, battle.matchup)
        assert frames[-1].state == "done"
        assert "".join(frame.a for frame in frames) == "Hello there."
        battle = await battles.battle(ANN, battle.matchup)
        assert (battle.turns[0].a, battle.turns[0].b, battle.can_continue) == ("Hello there.",) * 2 + (True,)
        battle = await battles.follow_up(ANN, battle.matchup, "And at night?")
        assert [turn.prompt for turn in battle.turns] == ["Why is the sky blue?", "And at night?"]
        frames = await read_frames(battles, ANN, battle.matchup, FrameMark(1, 12, 12))
        assert frames[-1].mark.turn == 2
        ended = await queue.vote(ANN, battle.matchup, Kind.WIN_B, reveal=True)
        assert ended.revealed
        names = await queue.reveal(ANN, battle.matchup)
        assert {names.model_a, names.model_b} < {"model-0", "model-1", "model-2", "model-3"}
        with pytest.raises(Closed):
            await battles.follow_up(ANN, battle.matchup, "More?")
        assert (await battles.battle(ANN, battle.matchup)).state == "voted"
        await battles.ask(ANN, "Another?")
    asked = [chat.asked for chat in models.chats.values() if len(chat.asked) > 1]
    second = next(requests[1] for requests in asked)
    assert [(turn.role, turn.text) for turn in second.turns][-3:-1] == [
        ("user", "Why is the sky blue?"),
        ("assistant", "Hello there."),
    ] or len(asked) == 2
    assert rows(database, "SELECT count(*) FROM live_calls WHERE state = 'done' AND cost > 0")[0][0] >= 4


async def test_a_battle_begins_with_few_round_trips_to_the_database(database: str) -> None:
    """Each costs its time on the way to the database, under the lock of the arena's budget too."""
    models = ScriptedModels()
    models.script(LONG)
    with cutting_proxy(urlsplit(database).port or 0) as wire:
        async with live_arena(
            wire.url(database), models, live_day_dollars=1000.0, live_voter_day_dollars=1000.0
        ) as (_, battles):
            found = []
            for voter in range(1, 7):
                before = wire.round_trips
                battle = await battles.ask(Voter(voter), f"Why {voter}?")
                found.append(wire.round_trips - before)
                await battles.stop(Voter(voter), battle.matchup)
    assert min(found) <= 17, found


async def test_stop_and_what_follows(database: str) -> None:
    models = ScriptedModels()
    models.script(LONG)
    async with live_arena(database, models) as (registry, battles):
        battle = await battles.ask(ANN, "Why?")
        await read_frames(battles, ANN, battle.matchup, until=20)
        battle = await battles.stop(ANN, battle.matchup)
        (turn,) = battle.turns
        assert turn.state == "stopped"
        assert turn.a.startswith("word word")
        assert battle.can_continue
        assert await battles.stop(ANN, battle.matchup) == battle
        await (await registry.voting_queue("arena")).vote(ANN, battle.matchup, Kind.TIE)


async def test_again_is_a_new_battle_with_the_same_prompt(database: str) -> None:
    models = ScriptedModels()
    models.script(LONG)
    async with live_arena(database, models) as (_, battles):
        battle = await battles.ask(ANN, "Why?")
        second = await battles.again(ANN, battle.matchup)
        assert second.matchup != battle.matchup
        assert second.turns[0].prompt == "Why?"
        assert (await battles.battle(ANN, battle.matchup)).state == "skipped"
        await battles.stop(ANN, second.matchup)
    assert rows(database, "SELECT DISTINCT free_prompt FROM matchups") == [(1,)]


async def test_a_model_that_fails_voids_the_battle_and_rests(database: str) -> None:
    models = ScriptedModels()
    for model in range(4):
        models.chats[model] = ScriptedChat([StreamScript([(0.02, "fine")])])
    models.chats[0] = ScriptedChat([StreamScript([], fault=_FAULT)])
    async with live_arena(database, models) as (_, battles):
        void = 0
        for number in range(40):
            voter = Voter(10 + number)
            battle = await battles.ask(voter, f"Question {number}")
            frames = await read_frames(battles, voter, battle.matchup)
            if frames[-1].state == "void":
                void += 1
                ended = await battles.battle(voter, battle.matchup)
                assert (ended.state, ended.can_continue) == ("void", False)
                again = await battles.again(voter, battle.matchup)
                await read_frames(battles, voter, again.matchup)
                await asyncio.gather(*(trial for _, trial in battles.entrants._trials.values()))
        assert 1 <= void <= 3, "three calls fail, and then a question of our own"
    voided = rows(database, "SELECT detail FROM events WHERE detail ? 'void'")
    assert voided
    assert all("model 0" in detail["void"] for (detail,) in voided)
    served = rows(database, "SELECT count(*) FROM events WHERE kind = 0 AND detail -> 'resting' = '[0]'")
    assert served[0][0] > 15


@pytest.mark.parametrize("text", ["", " \n", "x" * 101, "nul\0"])
async def test_prompts_that_cannot_be_sent(database: str, text: str) -> None:
    async with live_arena(database, live_prompt_characters=100) as (_, battles):
        with pytest.raises(BadOption, match="prompt"):
            await battles.ask(ANN, text)
        with pytest.raises(BadOption, match="category"):
            await battles.ask(ANN, "fine", "no such category")
    assert rows(database, "SELECT count(*) FROM matchups") == [(0,)]


async def test_the_turns_of_a_battle_are_limited(database: str) -> None:
    async with live_arena(database, live_turns=2) as (_, battles):
        battle = await battles.ask(ANN, "Why?")
        with pytest.raises(Closed, match="not ended"):
            await battles.follow_up(ANN, battle.matchup, "More?")
        await read_frames(battles, ANN, battle.matchup)
        await battles.follow_up(ANN, battle.matchup, "More?")
        await read_frames(battles, ANN, battle.matchup, FrameMark(2))
        with pytest.raises(Closed, match="at most 2 turns"):
            await battles.follow_up(ANN, battle.matchup, "More?")


async def test_a_clean_stop_ends_all_turns(database: str) -> None:
    models = ScriptedModels()
    models.script(StreamScript([(0.05, "word ")], hangs=True))
    async with live_arena(database, models) as (_, battles):
        await battles.ask(ANN, "Why?")
    assert rows(database, "SELECT state, process FROM live_turns") == [("void", None)]
    assert rows(database, "SELECT DISTINCT state FROM live_calls") == [("stopped",)]
    assert rows(database, "SELECT detail FROM events WHERE kind = 3") == [({"void": "the server stopped"},)]


async def test_what_a_lost_process_left_is_void(database: str) -> None:
    """The process is not asked to stop: its tasks just end, and its lease is gone."""
    models = ScriptedModels()
    models.script(StreamScript([(0.05, "word ")], hangs=True))

    await make_live_arena(database)
    async with live_registries(database, models) as (registry,):
        battles = await registry.live_battles("arena")
        battle = await battles.ask(ANN, "Why?")
        # As if killed: what it stored at its end is taken back.
        tasks = [running.task for running in battles._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        registry._live.clear()
        with connect(database) as connection:
            connection.execute("UPDATE live_turns SET state = 'waiting', ended_at = NULL, process = 5")
            connection.execute("UPDATE live_calls SET state = 'running'")
    async with live_registries(database, models) as (registry,):
        battles = await registry.live_battles("arena")
        frames = await read_frames(battles, ANN, battle.matchup)
        assert frames[-1].state == "void"
        assert (await battles.battle(ANN, battle.matchup)).state == "void"
        await battles.ask(ANN, "Again?")
    assert ("unknown", None) in rows(database, "SELECT state, cost FROM live_calls")


async def test_a_battle_that_is_skipped_while_it_runs_frees_its_place_at_once(database: str) -> None:
    models = ScriptedModels()
    models.script(LONG)
    async with live_arena(database, models) as (registry, battles):
        battle = await battles.ask(ANN, "Why?")
        await read_frames(battles, ANN, battle.matchup, until=10)
        queue = await registry.voting_queue("arena")
        await queue.skip(ANN, battle.matchup)
        second = await battles.ask(ANN, "Why not?")
        assert second.matchup != battle.matchup
        async with asyncio.timeout(30):
            while (await battles.battle(ANN, battle.matchup)).turns[0].state != "stopped":  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert (await battles.battle(ANN, battle.matchup)).state == "skipped"
        assert len(battles._running) == 1
        await battles.stop(ANN, second.matchup)
    assert {state for (state,) in rows(database, "SELECT state FROM live_calls")} == {"stopped"}


async def test_battles_that_nobody_asks_for_are_unloaded(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = ScriptedModels()
    models.script(LONG)
    async with live_arena(database, models) as (registry, battles):
        battle = await battles.ask(ANN, "Why?")
        monkeypatch.setattr("tiltyard.arena.registry._UNLOAD_SECONDS", 0.0)
        await registry._unload_idle()
        assert battles.idle_seconds == 0.0
        assert await registry.live_battles("arena") is battles
        await battles.stop(ANN, battle.matchup)
        async with asyncio.timeout(30):
            while battles.idle_seconds == 0.0:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await registry._unload_idle()
        monkeypatch.undo()
        again = await registry.live_battles("arena")
        assert again is not battles
        assert (await again.battle(ANN, battle.matchup)).turns[0].state == "stopped"
        await (await registry.voting_queue("arena")).skip(ANN, battle.matchup)
        await again.ask(ANN, "Another?")
