"""Live battles in a service of several processes: one runs them, all answer, and what a lost one leaves is void."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.live_worlds import ScriptedModels, live_registries, make_live_arena, read_frames
from support.scripted_streams import StreamScript, steady
from tiltyard.arena.live.live_records import FrameMark
from tiltyard.arena.registry import ArenaRegistry
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.errors import NotFound, OpenBattle
from tiltyard.postgres.connections import connect

ANN = Voter(1)


def by_ownership(registries: list[ArenaRegistry], arena: int) -> tuple[ArenaRegistry, ArenaRegistry]:
    """The registry that owns an arena, and another."""
    owner = next(one for one in registries if one.ownership is not None and one.ownership.ring.owns(arena))
    return owner, next(one for one in registries if one is not owner)


def rows(url: str, query: str) -> list[Any]:
    with connect(url) as connection:
        return list(connection.execute(query).fetchall())


def test_another_process_forwards_everything(database: str) -> None:
    models = ScriptedModels()
    models.script(steady("abcde" * 20, rate=200))

    async def scene() -> None:
        arena = await make_live_arena(database)
        async with live_registries(database, models, 2) as registries:
            owner, other = by_ownership(registries, arena.arena)
            battles = await other.live_battles("arena")
            battle = await battles.ask(ANN, "Why?")
            assert (battles.running, (await owner.live_battles("arena")).running) == (0, 1)
            with pytest.raises(OpenBattle) as refusal:
                await battles.ask(ANN, "Another?")
            assert refusal.value.matchup == str(battle.matchup)
            both = await asyncio.gather(
                read_frames(battles, ANN, battle.matchup),
                read_frames(await owner.live_battles("arena"), ANN, battle.matchup),
            )
            for frames in both:
                assert "".join(frame.b for frame in frames) == "abcde" * 20
            await battles.follow_up(ANN, battle.matchup, "More?")
            shown = await battles.battle(ANN, battle.matchup)
            assert shown.turns[-1].state in {"waiting", "streaming"}
            stopped = await battles.stop(ANN, battle.matchup)
            assert stopped.turns[-1].state == "stopped"
            with pytest.raises(NotFound):
                await battles.frames(Voter(2), battle.matchup, FrameMark())
            again = await battles.again(ANN, battle.matchup)
            await read_frames(battles, ANN, again.matchup)
            await (await other.voting_queue("arena")).vote(ANN, again.matchup, Kind.TIE)

    asyncio.run(scene())


def test_a_turn_is_read_and_stopped_where_it_runs_when_the_owner_changes(database: str) -> None:
    models = ScriptedModels()
    models.script(steady("abcde" * 400, rate=100))

    async def scene() -> None:
        arena = await make_live_arena(database)
        async with live_registries(database, models, 2) as registries:
            owner, other = by_ownership(registries, arena.arena)
            battles, foreign = await owner.live_battles("arena"), await other.live_battles("arena")
            battle = await battles.ask(ANN, "Why?")
            for registry in registries:
                assert registry.ownership is not None
                # From now on both say that the other one owns the arena.
                new = other.ownership
                assert new is not None
                registry.ownership.ring._owners[arena.arena] = new.ring.own
            assert new.ring.owns(arena.arena)
            frames = await read_frames(foreign, ANN, battle.matchup, until=20)
            assert "".join(frame.a for frame in frames).startswith("abcde" * 4)
            shown = await foreign.battle(ANN, battle.matchup)
            assert shown.turns[-1].a.startswith("abcde" * 4)
            stopped = await battles.stop(ANN, battle.matchup)
            assert stopped.turns[-1].state == "stopped"

    asyncio.run(scene())


def test_a_lost_owner_leaves_void_battles_that_the_next_one_finds(database: str) -> None:
    """Nobody asks for the arena: the process that is left looks by itself, once the lease has expired."""
    models = ScriptedModels()
    models.script(StreamScript([(0.05, "word ")], hangs=True))

    async def scene() -> None:
        arena = await make_live_arena(database)
        async with live_registries(database, models, 2) as registries:
            owner, other = by_ownership(registries, arena.arena)
            battles, left = await owner.live_battles("arena"), await other.live_battles("arena")
            battle = await left.ask(ANN, "Why?")
            # As when it is killed: it answers no more, stores no more, and its lease runs out.
            assert owner.ownership is not None
            assert owner.ownership._lease is not None
            assert owner.ownership._lease._task is not None
            owner.ownership._lease._task.cancel()
            await owner.ownership._server.stop()
            for running in list(battles._running.values()):
                running.generation._recorder = _Silent()  # type: ignore[assignment]
            async with asyncio.timeout(40):
                while rows(database, "SELECT state FROM live_turns") != [("void",)]:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            frames = await read_frames(left, ANN, battle.matchup)
            assert frames[-1].state == "void"
            async with asyncio.timeout(20):
                while rows(database, "SELECT count(*) FROM events WHERE detail ? 'void'") != [(1,)]:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            models.script(StreamScript())
            models.chats.clear()
            again = await left.again(ANN, battle.matchup)
            assert again.matchup != battle.matchup

    asyncio.run(scene())
    calls = rows(database, "SELECT state, cost, reserve > 0 FROM live_calls ORDER BY call LIMIT 2")
    assert calls == [("unknown", None, True)] * 2


class _Silent:
    """A recorder that stores nothing any more."""

    def __getattr__(self, name: str) -> Any:
        async def nothing(*_: object) -> None:
            return None

        return nothing if name != "note_stopped" and name != "note_health" else (lambda *_: None)
