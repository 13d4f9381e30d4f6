"""Places for turns in all processes, and the line before them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from uuid import uuid4

import pytest

from tiltyard.arena.live import turn_slots
from tiltyard.arena.live.turn_slots import TurnSlots, count_slots
from tiltyard.errors import BadOption, Busy
from tiltyard.postgres.connections import connect, open_pool

HERE, THERE, LOST = 11, 12, 13
Scene = Callable[[TurnSlots, TurnSlots], Awaitable[None]]


@pytest.fixture
def play(database: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[Scene], None]:
    """Runs a scene with two places and two processes."""
    monkeypatch.setattr(turn_slots, "_STOPPED_SECONDS", 0.2)

    async def playing(scene: Scene) -> None:
        async with open_pool(database, most=8) as pool:
            await scene(TurnSlots(pool, HERE, 2), TurnSlots(pool, THERE, 2))

    with connect(database) as connection:
        for process in (HERE, THERE):
            connection.execute(
                "INSERT INTO processes VALUES (%s, 'web', now() + interval '1 day')", (process,)
            )
    return lambda scene: asyncio.run(playing(scene))


def sql(database: str, text: str, *values: object) -> None:
    with connect(database) as connection:
        connection.execute(text, values)


async def take(slots: TurnSlots, session: int) -> bool:
    """Take a place for a turn, which begins."""
    async with slots.taken(1, session):
        return True


async def wait(slots: TurnSlots, session: int) -> str:
    with pytest.raises(Busy) as refusal:
        await take(slots, session)
    assert refusal.value.retry_after > 0
    return str(refusal.value)


def test_places_are_given_in_the_order_of_the_line(database: str, play: Callable[[Scene], None]) -> None:
    async def scene(here: TurnSlots, there: TurnSlots) -> None:
        assert await take(here, 1)
        assert await take(there, 2)
        assert "are number 1" in await wait(there, 3)
        assert "are number 2" in await wait(here, 4)
        assert "are number 1" in await wait(here, 3)
        with connect(database) as connection:
            assert count_slots(connection) == (2, 2)
        await here.release(1, 1)
        assert "number 2 in line" in await wait(there, 4)
        assert "number 3 in line" in await wait(there, 5)
        assert await take(there, 3)
        await here.release(1, 2)
        assert "number 1 in line" in await wait(here, 4), "a place belongs to the process that took it"
        await there.release(1, 2)
        assert await take(here, 4)

    play(scene)


def test_one_voter_has_one_turn_whichever_process_is_asked(play: Callable[[Scene], None]) -> None:
    async def scene(here: TurnSlots, there: TurnSlots) -> None:
        taken = await asyncio.gather(*(take(slots, 1) for slots in (here, there) * 4), return_exceptions=True)
        assert taken.count(True) == 1
        assert sum(isinstance(one, Busy) for one in taken) == 7
        await asyncio.gather(here.release(1, 1), there.release(1, 1))
        assert await take(there, 1)

    play(scene)


def test_a_place_is_free_if_no_turn_begins_or_its_process_is_lost(
    database: str, play: Callable[[Scene], None]
) -> None:
    async def scene(here: TurnSlots, there: TurnSlots) -> None:
        with contextlib.suppress(ZeroDivisionError):
            async with here.taken(1, 1):
                raise ZeroDivisionError
        assert await take(there, 1)
        sql(database, "UPDATE live_slots SET process = %s, matchup = %s", LOST, uuid4())
        assert await take(here, 1)
        sql(database, "UPDATE live_slots SET asked_at = now() - interval '61 seconds'")
        assert await take(there, 1), "its process never began it"
        sql(database, "UPDATE live_slots SET matchup = %s, asked_at = now() - interval '61 seconds'", uuid4())
        await wait(here, 1)

    play(scene)


def test_who_does_not_ask_again_loses_the_place_and_the_line_has_an_end(
    database: str, play: Callable[[Scene], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_slots, "_WAITING_LIMIT", 2)

    async def scene(here: TurnSlots, there: TurnSlots) -> None:
        assert await take(here, 1)
        assert await take(here, 2)
        await wait(here, 3)
        await wait(there, 4)
        assert "many people wait" in await wait(there, 5)
        sql(database, "UPDATE live_slots SET asked_at = now() - interval '21 seconds' WHERE session = 3")
        assert "number 1 in line" in await wait(there, 4)

    play(scene)


def test_the_estimate_comes_from_the_last_turns(play: Callable[[Scene], None]) -> None:
    async def scene(here: TurnSlots, _: TurnSlots) -> None:
        for _ in range(60):
            here.note_duration(8.0)
        assert (here.estimated_seconds(1), here.estimated_seconds(3)) == (4.0, 12.0)

    play(scene)


@pytest.mark.parametrize("limit", [0, -1])
def test_there_is_at_least_one_place(limit: int) -> None:
    with pytest.raises(BadOption):
        TurnSlots(None, HERE, limit)  # type: ignore[arg-type]
