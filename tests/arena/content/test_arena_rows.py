"""Rows of arenas: pages join without gaps, takedowns find what is open, nothing is found by a broken name."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.live_arenas import make_arena
from support.pool_work import asked
from tiltyard.arena.content.arenas import (
    add_arena,
    find_arena,
    find_model,
    find_prompt,
    list_arenas,
    list_models,
    list_prompt_names,
    list_prompts,
    prompt_text,
    read_policy,
    read_prompt_filters,
    reserve_arena_number,
)
from tiltyard.arena.content.prompt_browser import read_prompt_words
from tiltyard.arena.log.buckets import SHARED_BUCKET_COUNT, shared_bucket
from tiltyard.arena.operators.arena_changes import find_open_matchups, open_matchups_with
from tiltyard.errors import Conflict, NotFound
from tiltyard.postgres.connections import connect, connect_async
from tiltyard.settings.arena_settings import ArenaSettings


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


async def test_pages_of_prompts_join_without_gaps(database, arena):
    async with await connect_async(database) as connection:
        whole = await list_prompts(connection, arena.arena)
        pages, after = [], -1
        while page := await list_prompts(connection, arena.arena, after=after, limit=3):
            pages += page
            after = page[-1].number
        assert pages == whole
        assert [one.responses for one in whole] == [3] * 7


async def test_names_lead_to_numbers_and_broken_ones_to_nothing(database, arena):
    async with await connect_async(database) as connection:
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
        bare = arena.arena + SHARED_BUCKET_COUNT
        with pytest.raises(NotFound):
            await find_model(connection, bare, "model-2")
        await connection.execute(
            "INSERT INTO arenas (arena, name, title, settings, bucket) OVERRIDING SYSTEM VALUE"
            " VALUES (%(arena)s, 'bare', '', '{}', %(bucket)s)",
            {"arena": bare, "bucket": shared_bucket(bare)},
        )
        with pytest.raises(NotFound, match="no policy"):
            await read_policy(connection, bare)


def test_filters_narrow_the_prompts(database, arena):
    with connect(database) as connection:
        connection.execute("UPDATE prompts SET category = 'maths' WHERE prompt < 4")
        connection.execute("UPDATE prompts SET language = 'de' WHERE prompt % 2 = 0")

    async def scene(connection):
        for category, language, numbers in (
            (None, None, range(7)),
            ("maths", None, range(4)),
            (None, "de", range(0, 7, 2)),
            ("maths", "de", (0, 2)),
            ("art", None, ()),
        ):
            assert list(await list_prompt_names(connection, arena.arena, category, language)) == list(numbers)

    on(database, scene)

    assert asked(database, lambda pool: read_prompt_filters(pool, arena)) == (["maths"], ["de"])


async def test_a_name_is_given_once_and_a_refused_arena_leaves_nothing(database, arena):
    async with await connect_async(database) as connection:
        number = await reserve_arena_number(connection)
        with pytest.raises(Conflict):
            async with connection.transaction():
                await add_arena(connection, number, "arena", "Again", ArenaSettings())
        assert [one.name for one in await list_arenas(connection)] == ["arena"]
        assert [one.enabled for one in await list_models(connection, arena.arena)] == [True] * 3
    with connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM raters").fetchone() == (1,)


#: Of a matchup: the prompt, its responses, how many seconds it has left, and whether it has ended.
MATCHUPS = st.lists(
    st.tuples(
        st.integers(0, 1), st.integers(1, 3), st.integers(1, 3), st.sampled_from([-60, 3600]), st.booleans()
    ),
    max_size=12,
)


@given(MATCHUPS, MATCHUPS, st.lists(st.integers(1, 3), unique=True), st.data())
def test_a_takedown_finds_every_open_matchup_that_shows_it(before, after, responses, data):
    """What is seen without the lock, ended or served since: the same as one look at everything."""
    late = data.draw(st.sets(st.integers(0, len(before))))
    found = on(SEARCHED["url"], lambda connection: looked(connection, before, after, responses, late))
    assert found == [
        serial
        for serial, (prompt, a, b, left, ended) in enumerate(before + after)
        if prompt == 0 and {a, b} & set(responses) and left > 0 and not ended and serial not in late
    ]


async def looked(connection, before, after, responses, late):
    """Serials found, in a transaction that is taken back: some end between the two looks."""
    now = datetime.now(tz=UTC)
    serials = iter(range(len(before) + len(after)))

    async def end(serial):
        await connection.execute(
            "INSERT INTO endings_b1 (arena, source, serial, position, at, kind) VALUES (1, 0, %s, 9999, %s, 2)",
            (serial, now),
        )

    async def serve(matchups):
        for prompt, a, b, left, ended in matchups:
            serial = next(serials)
            # Whatever shows a response is on its prompt.
            shown = (a + 10 * prompt, b + 10 * prompt)
            await connection.execute(
                "INSERT INTO matchups_b1 VALUES "
                "(1, 0, %s, gen_random_uuid(), %s, 1, 0, 1, %s, %s, %s, 0, 0, '', 1, 0, %s, %s)",
                (serial, serial + 1, prompt, *shown, now, now + timedelta(seconds=left)),
            )
            await connection.execute(
                "INSERT INTO events_b1 (arena, position, at, kind, source, serial) VALUES (1, %s, %s, 0, 0, %s)",
                (serial + 1, now, serial),
            )
            if ended:
                await end(serial)

    async with connection.transaction(force_rollback=True):
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute("DELETE FROM events")
        await serve(before)
        seen = await find_open_matchups(connection, 1, 0, None)
        for serial in late:
            if serial < len(before) and not before[serial][4]:
                await end(serial)
        await serve(after)
        if len(before) in late and after and not after[0][4]:
            await end(len(before))
        return [one.serial for one in await open_matchups_with(connection, 1, responses, seen, now)]


SEARCHED = {}


@pytest.fixture(autouse=True, scope="module")
def _searched(server, template):
    from support.postgres_servers import fresh_database

    with fresh_database(server, template) as url:
        asyncio.run(make_arena(url, 2, 1))
        SEARCHED["url"] = url
        yield


def test_prompts_are_called_by_their_first_words(database):
    made = asyncio.run(make_arena(database, 2, 3))
    with connect(database) as connection:
        connection.execute("UPDATE prompts SET text = E'  Why\n\tso? ' || repeat('x', 200) WHERE prompt = 0")
        connection.execute("UPDATE prompts SET text = NULL, withdrawn_at = now() WHERE prompt = 1")
        connection.execute("UPDATE prompts SET text = ' ' WHERE prompt = 2")
        names = [name for (name,) in connection.execute("SELECT name FROM prompts ORDER BY prompt")]
    words = asked(database, lambda pool: read_prompt_words(pool, made, [*names, None, "no such"]))
    assert words.pop(names[0]) == f"Why so? {'x' * 71}…"
    assert words == {name: name for name in names[1:]}
