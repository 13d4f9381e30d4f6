"""A matchup is found by its id without looking into the logs of other arenas."""

import asyncio
import base64
import os
import threading
import time
import uuid
from contextlib import contextmanager

import pytest

from live_arenas import make_arena
from served import served
from tiltyard.arena.voting.matchup_ids import (
    format_matchup_id,
    matchup_arena_number,
    new_matchup_id,
    parse_matchup_id,
)
from tiltyard.postgres.connections import connect


@pytest.fixture
def site(database):
    async def make():
        for name in ("first", "second", "third"):
            await make_arena(database, 3, 2, name=name)

    asyncio.run(make())
    with served(database) as running:
        yield running


@contextmanager
def locked(database, *tables):
    """Nobody can read these tables, nor any of their partitions."""
    with connect(database) as connection, connection.transaction():
        connection.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE")
        yield


def ask(client, arena="first"):
    return client.post(f"/api/v1/arenas/{arena}/matchups").json()["matchup"]


def vote(client, matchup):
    return client.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": "tie"})


def guessed():
    return base64.urlsafe_b64encode(os.urandom(16)).rstrip(b"=").decode()


def make_older(database, *arenas):
    """As if version 0.1 had made these arenas."""
    with connect(database) as connection:
        connection.execute("UPDATE arenas SET ids_carry_arena = false WHERE name = ANY(%s)", [list(arenas)])


def rename(database, matchup):
    """Give a matchup an id such as version 0.1 handed out."""
    other = uuid.uuid4()
    with connect(database) as connection:
        changed = connection.execute(
            "UPDATE matchups SET matchup = %s WHERE matchup = %s", (other, parse_matchup_id(matchup))
        )
    assert changed.rowcount == 1
    return format_matchup_id(other)


def test_an_id_carries_the_number_of_its_arena(site):
    numbers = {
        name: matchup_arena_number(parse_matchup_id(ask(site.client(), name))) for name in ("first", "third")
    }
    with connect(site.database) as connection:
        known = dict(connection.execute("SELECT name, arena FROM arenas").fetchall())
    assert numbers == {name: known[name] for name in numbers}
    assert matchup_arena_number(new_matchup_id(2**31 - 1)) == 2**31 - 1


def test_a_guessed_id_costs_no_look_at_any_log(site):
    client = site.client()
    ask(client)
    with locked(site.database, "matchups", "endings", "events"):
        assert {vote(client, guessed()).status_code for _ in range(30)} == {404}


def test_a_vote_touches_its_own_arena_only(site):
    client = site.client()
    matchup, _ = ask(client), ask(client, "second")
    with locked(site.database, "matchups_2", "matchups_3", "endings_2", "endings_3", "events_2", "events_3"):
        assert vote(client, matchup).status_code == 200
        assert vote(client, matchup).status_code == 200
        report = {"reason": "broken"}
        assert client.post(f"/api/v1/matchups/{matchup}/report", json=report).status_code == 204


def test_an_arena_that_another_process_made_just_now_is_found(site):
    asyncio.run(make_arena(site.database, 3, 2, name="fourth"))
    client = site.client()
    with served(site.database) as other:
        told = other.client(cookies=client.cookies)
        matchup = ask(told, "fourth")
        client.cookies = told.cookies
        assert vote(client, matchup).status_code == 200


def test_ids_of_version_0_1_are_still_found(database):
    async def make():
        for name in ("first", "second"):
            await make_arena(database, 3, 2, name=name)

    asyncio.run(make())
    make_older(database, "first", "second")
    with served(database) as site:
        client = site.client()
        cookies = client.cookies
        older = rename(database, ask(client, "second"))
    with served(database) as site:
        client = site.client(cookies=cookies)
        assert vote(client, older).status_code == 200
        assert vote(client, older).status_code == 200
        assert client.post(f"/api/v1/matchups/{older}/reveal").status_code == 200
        assert {vote(client, guessed()).status_code for _ in range(5)} == {404}


def test_a_crowd_of_guessed_ids_takes_one_connection_of_an_older_arena(database):
    asyncio.run(make_arena(database, 3, 2, name="first"))
    make_older(database, "first")
    with served(database) as site:
        client = site.client()
        ask(client)
        found = []

        def guess():
            found.append(vote(site.client(cookies=client.cookies), guessed()).status_code)

        crowd = [threading.Thread(target=guess) for _ in range(20)]
        with locked(database, "matchups"):
            for one in crowd:
                one.start()
            while len(found) < 11:
                time.sleep(0.01)
            # One looks up, eight wait, eleven are refused; the queue may also read its log.
            assert site.registry.pool.in_use <= 2
            assert found == [503] * 11
        for one in crowd:
            one.join()
        assert sorted(found) == [404] * 9 + [503] * 11
