"""Rows of arenas: pages join without gaps, searches by time are right, nothing is found by a broken name."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_arenas import make_arena
from tiltyard.errors import Conflict, NotFound
from tiltyard.settings.arena import ArenaSettings
from tiltyard.store.arenas import (
    add_arena,
    find_arena,
    find_model,
    find_prompt,
    list_arenas,
    list_models,
    list_prompts,
    open_matchups_with,
    prompt_text,
    prompts_of,
    read_filters,
    read_policy,
    reserve_arena,
)
from tiltyard.store.connecting import connect, connect_async
from tiltyard.store.exclusions import _position
from tiltyard.store.statements import statement

START = datetime(2026, 1, 1, tzinfo=UTC)


def on(url, scene):
    """Run something on a connection of its own."""

    async def running():
        connection = await connect_async(url)
        async with connection:
            return await scene(connection)

    return asyncio.run(running())


@pytest.fixture
def arena(database):
    return asyncio.run(make_arena(database, 3, 7))


def test_pages_of_prompts_join_without_gaps(database, arena):
    async def scene(connection):
        whole = await list_prompts(connection, arena.arena)
        pages, after = [], -1
        while page := await list_prompts(connection, arena.arena, after=after, limit=3):
            pages += page
            after = page[-1].prompt
        assert pages == whole
        assert [one.responses for one in whole] == [3] * 7

    on(database, scene)


def test_names_lead_to_numbers_and_broken_ones_to_nothing(database, arena):
    async def scene(connection):
        assert await find_model(connection, arena.arena, "model-2") == (2, True)
        assert await find_prompt(connection, arena.arena, "prompt-6") == (6, False)
        assert await prompt_text(connection, arena.arena, 6) == "What about 6?"
        with pytest.raises(NotFound):
            await prompt_text(connection, arena.arena, 7)
        for name in ("", "nobody", "model-2 ", "a\0b", "\ud800", "' OR 1=1 --", "%", "\n"):
            for find in (find_model, find_prompt):
                with pytest.raises(NotFound):
                    await find(connection, arena.arena, name)
            with pytest.raises(NotFound):
                await find_arena(connection, name)
        with pytest.raises(NotFound):
            await find_model(connection, 99, "model-2")
        with pytest.raises(NotFound, match="no policy"):
            await read_policy(connection, 99)

    on(database, scene)


def test_filters_narrow_the_prompts(database, arena):
    with connect(database) as connection:
        connection.execute("UPDATE prompts SET category = 'maths' WHERE prompt < 4")
        connection.execute("UPDATE prompts SET language = 'de' WHERE prompt % 2 = 0")

    async def scene(connection):
        assert await read_filters(connection, arena.arena) == (["maths"], ["de"])
        for category, language, numbers in (
            (None, None, range(7)),
            ("maths", None, range(4)),
            (None, "de", range(0, 7, 2)),
            ("maths", "de", (0, 2)),
            ("art", None, ()),
        ):
            assert list(await prompts_of(connection, arena.arena, category, language)) == list(numbers)

    on(database, scene)


def test_a_name_is_given_once_and_a_refused_arena_leaves_nothing(database, arena):
    async def scene(connection):
        number = await reserve_arena(connection)
        with pytest.raises(Conflict):
            async with connection.transaction():
                await add_arena(connection, number, "arena", "Again", ArenaSettings())
        assert [one.name for one in await list_arenas(connection)] == ["arena"]
        assert [one.enabled for one in await list_models(connection, arena.arena)] == [True] * 3

    on(database, scene)
    with connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM raters").fetchone() == (1,)


@given(st.lists(st.integers(0, 6), max_size=25), st.lists(st.integers(-1, 40), min_size=1, max_size=8))
def test_searching_by_time_finds_the_first_that_is_not_earlier(steps, moments):
    """The search against a scan: times never fall, and may stand still."""
    times, now = [], 0
    for step in steps:
        now += step
        times.append(now)
    found = on(SEARCHED["url"], lambda connection: searched(connection, times, moments))
    for moment, (serial, position) in zip(moments, found, strict=True):
        first = next((k for k, at in enumerate(times) if at >= moment), len(times))
        assert serial == first
        assert position == first + 1


SEARCHED = {}


@pytest.fixture(autouse=True, scope="module")
def _searched(server, template):
    from postgres import fresh_database

    with fresh_database(server, template) as url:
        asyncio.run(make_arena(url, 2, 1))
        SEARCHED["url"] = url
        yield


async def searched(connection, times, moments):
    """Serials and positions found by the statements, in a transaction that is taken back."""
    found = []
    async with connection.transaction(force_rollback=True):
        await connection.execute("DELETE FROM events")
        for k, at in enumerate(times):
            moment = START + timedelta(seconds=at)
            await connection.execute(
                "INSERT INTO events (arena, position, at, kind) VALUES (1, %s, %s, 0)", (k + 1, moment)
            )
            await connection.execute(
                "INSERT INTO matchups VALUES (1, 0, %s, gen_random_uuid(), %s, 1, 0, 1, 0, 1, 2, 0, 0, '', 1, 0, %s, %s)",
                (k, k + 1, moment, moment),
            )
        for each in moments:
            moment = START + timedelta(seconds=each)
            values = {"arena": 1, "source": 0, "at": moment}
            row = await (await connection.execute(statement("arenas_serial_since"), values)).fetchone()
            found.append((row[0], await _position(connection, 1, moment)))
        shown = await open_matchups_with(connection, 1, [2], START - timedelta(days=1))
        assert [one.serial for one in shown] == list(range(len(times)))
    return found
