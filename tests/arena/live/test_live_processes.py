"""Live battles in a service of several processes: what a lost one leaves is void."""

from __future__ import annotations

import asyncio
from typing import Any

from support.live_worlds import ScriptedModels, live_registries, make_live_arena, read_frames
from support.scripted_streams import StreamScript
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.postgres.connections import connect

ANN = Voter(1)


def rows(url: str, query: str) -> list[Any]:
    with connect(url) as connection:
        return list(connection.execute(query).fetchall())


def test_a_lost_process_leaves_void_battles_that_the_next_one_finds(database: str) -> None:
    """Nobody asks for the arena: the process that is left looks by itself, once the lease has expired."""
    models = ScriptedModels()
    models.script(StreamScript([(0.05, "word ")], hangs=True))

    async def scene() -> None:
        await make_live_arena(database)
        async with live_registries(database, models, 2) as (lost, other):
            battles, left = await lost.live_battles("arena"), await other.live_battles("arena")
            battle = await battles.ask(ANN, "Why?")
            # As when it is killed: it stores no more, and its lease runs out.
            assert lost.lease._task is not None
            lost.lease._task.cancel()
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
