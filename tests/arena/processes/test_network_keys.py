"""Hashes of addresses: the same in all processes for a day, and never again."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from support.live_arenas import make_arena
from tiltyard.arena.operators.voter_data import delete_old_accounts, delete_old_texts
from tiltyard.arena.processes.shared_limits import NetworkKeys
from tiltyard.postgres.connections import connect, open_pool

NOW = datetime.now(UTC)


@pytest.fixture
def arena(database):
    return asyncio.run(make_arena(database, 2, 2))


def hashed(database, *keys):
    async def scene():
        async with open_pool(database, most=1) as pool:
            return [await one.hash_of(pool, "network 1 203.0.113.7") for one in keys]

    return asyncio.run(scene())


def retain(database, moment):
    async def scene():
        async with open_pool(database, most=1) as pool:
            await delete_old_texts(pool, moment)
            await delete_old_accounts(pool, moment)

    asyncio.run(scene())


def test_processes_share_the_key_of_a_day_and_another_day_has_another(database):
    one, other = hashed(database, NetworkKeys(), NetworkKeys())
    assert one == other
    assert len(one) == 32
    with connect(database) as connection:
        connection.execute("UPDATE network_keys SET day = day - 1")
    (later,) = hashed(database, NetworkKeys())
    assert later != one


def test_accounts_go_after_two_days_and_their_keys_with_them(database, arena):
    hashed(database, NetworkKeys())
    with connect(database) as connection:
        connection.execute("INSERT INTO live_prompts (arena, number) VALUES (1, 1)")
        connection.execute(
            "INSERT INTO live_battles (arena, matchup, session, category, free_prompt, payers)"
            " VALUES (1, gen_random_uuid(), 5, 0, 1, '{77}')"
        )
        connection.execute(
            "INSERT INTO live_spending (arena, session, day, counted)"
            " SELECT 1, s, %s, 9 FROM unnest(ARRAY[0, 5, 77]) s",
            (NOW.date(),),
        )
    retain(database, NOW + timedelta(days=1))
    with connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM live_spending").fetchone() == (3,)
    retain(database, NOW + timedelta(days=3))
    with connect(database) as connection:
        assert connection.execute("SELECT session FROM live_spending").fetchall() == [(0,)]
        assert connection.execute("SELECT payers FROM live_battles").fetchall() == [([],)]
        assert connection.execute("SELECT count(*) FROM network_keys").fetchone() == (0,)


def test_remarks_and_words_of_reports_go_when_the_arena_says(database, arena):
    with connect(database) as connection:
        connection.execute("""UPDATE arenas SET settings = settings || '{"remark_retention_days": 30}'""")
        connection.execute(
            "INSERT INTO remarks (arena, source, serial, session, tags, comment) VALUES (1, 0, 0, 7, '{}', 'me')"
        )
        connection.execute(
            "INSERT INTO complaints (arena, source, serial, session, reason, note)"
            " VALUES (1, 0, 0, 7, 'broken', 'me')"
        )
    retain(database, NOW + timedelta(days=29))
    with connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM remarks").fetchone() == (1,)
    retain(database, NOW + timedelta(days=31))
    with connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM remarks").fetchone() == (0,)
        assert connection.execute("SELECT note FROM complaints").fetchall() == [(None,)]


def test_where_a_session_came_from_goes_after_a_month(database):
    with connect(database) as connection:
        connection.execute(
            "INSERT INTO sessions (session, source, network, language) OVERRIDING SYSTEM VALUE VALUES (7, 0, 99, 'de')"
        )
    for days, network in ((29, 99), (31, None)):
        retain(database, NOW + timedelta(days=days))
        with connect(database) as connection:
            row = connection.execute("SELECT network, language FROM sessions WHERE session = 7").fetchone()
        assert row == (network, "de")
