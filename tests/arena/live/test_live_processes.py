"""Live battles in a service of several processes: any of them reads and stops a turn, and what a lost one leaves is void."""

from __future__ import annotations

import asyncio

import pytest

from support.folded_votes import rows
from support.live_worlds import ScriptedModels, live_registries, make_live_arena, read_frames
from support.scripted_streams import StreamScript, steady
from tiltyard.arena.live.live_records import FrameMark
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.errors import Busy, NotFound, OpenBattle, ProviderFault
from tiltyard.settings.arena_settings import ArenaSettings

ANN = Voter(1)


async def test_another_process_reads_and_stops_a_turn(database: str) -> None:
    models = ScriptedModels()
    models.script(steady("abcde" * 20, rate=200))

    await make_live_arena(database)
    async with live_registries(database, models, 2) as (one, other):
        battles, foreign = await one.live_battles("arena"), await other.live_battles("arena")
        battle = await battles.ask(ANN, "Why?")
        with pytest.raises(OpenBattle) as refusal:
            await foreign.ask(ANN, "Another?")
        assert refusal.value.matchup == str(battle.matchup)
        read = await asyncio.gather(
            *(read_frames(which, ANN, battle.matchup) for which in (battles, foreign, foreign))
        )
        for frames in read:
            assert "".join(frame.b for frame in frames) == "abcde" * 20
            assert frames[-1].state == "done"
        assert len(read[0]) > len(read[1]) >= 2, "four times a second elsewhere"
        for model in models.chats.values():
            model.scripts = [steady("abcde" * 400, rate=100)]
        await foreign.follow_up(ANN, battle.matchup, "More?")
        assert (len(battles._running), len(foreign._running)) == (0, 1)
        await read_frames(battles, ANN, battle.matchup, FrameMark(2), until=20)
        shown = await battles.battle(ANN, battle.matchup)
        assert shown.turns[-1].state == "streaming"
        assert shown.turns[-1].a.startswith("abcde" * 4)
        with pytest.raises(NotFound):
            await battles.frames(Voter(2), battle.matchup, FrameMark())
        stopped = await battles.stop(ANN, battle.matchup)
        assert stopped.turns[-1].state == "stopped"
        await (await one.voting_queue("arena")).vote(ANN, battle.matchup, Kind.TIE)
    assert rows(database, "SELECT count(*) FROM live_slots") == [(0,)]


async def test_a_battle_that_is_skipped_elsewhere_stops_and_a_model_that_rests_does_so_everywhere(
    database: str,
) -> None:
    models = ScriptedModels()
    models.script(steady("abcde" * 400, rate=100))

    await make_live_arena(database, 3)
    async with live_registries(database, models, 2) as (one, other):
        battles, foreign = await one.live_battles("arena"), await other.live_battles("arena")
        battle = await battles.ask(ANN, "Why?")
        await (await other.voting_queue("arena")).skip(ANN, battle.matchup)
        again = await foreign.ask(ANN, "And now?")
        assert (await foreign.battle(ANN, battle.matchup)).turns[0].state == "stopped"
        await foreign.stop(ANN, again.matchup)
        entrant = foreign.entrants.of(2)
        await foreign.entrants.note_health(
            entrant, ProviderFault("no key", status=401, fatal=True), ArenaSettings()
        )
        await battles.entrants.refresh()
        assert list(battles.entrants.resting()) == [2]
        await battles.entrants.note_health(entrant, None, ArenaSettings())
        await foreign.entrants.refresh()
        assert list(foreign.entrants.resting()) == []


async def test_one_voter_who_begins_twice_at_once_pays_once(database: str) -> None:
    models = ScriptedModels()
    models.script(StreamScript())

    await make_live_arena(database)
    async with live_registries(database, models, 2) as registries:
        both = [await registry.live_battles("arena") for registry in registries]
        begun = await asyncio.gather(
            *(battles.ask(ANN, "Why?") for battles in both * 3), return_exceptions=True
        )
        assert sum(not isinstance(one, BaseException) for one in begun) == 1
        assert all(isinstance(one, Busy | OpenBattle) for one in begun if isinstance(one, BaseException))
    assert rows(database, "SELECT count(*), count(DISTINCT matchup) FROM live_calls") == [(2, 1)]
    assert sum(len(chat.asked) for chat in models.chats.values()) == 2
