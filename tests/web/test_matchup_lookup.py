"""A matchup is found by its id without looking into the logs of other arenas."""

import asyncio
import base64
import os
from contextlib import contextmanager

import pytest

from support.live_arenas import make_arena
from support.matchup_texts import stored_id
from support.served import served
from tiltyard.arena.voting.matchup_ids import matchup_arena_number, new_matchup_id
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


def guessed(arena=1):
    """An id of this shard and of an arena that exists, as somebody without the key would make it up."""
    return f"0-{base64.urlsafe_b64encode(arena.to_bytes(4) + os.urandom(20)).decode()}"


def test_an_id_carries_the_number_of_its_arena(site):
    numbers = {name: matchup_arena_number(stored_id(ask(site.client(), name))) for name in ("first", "third")}
    with connect(site.database) as connection:
        known = dict(connection.execute("SELECT name, arena FROM arenas").fetchall())
    assert numbers == {name: known[name] for name in numbers}


def test_a_guessed_id_is_refused_without_the_database(site):
    client = site.client()
    ask(client)
    with locked(site.database, "matchups", "endings", "events", "arenas"):
        assert {vote(client, guessed(arena)).status_code for arena in (1, 2, 77) for _ in range(10)} == {404}


def test_an_id_whose_arena_is_gone_is_refused_like_any_other(site):
    client = site.client()
    ask(client)
    lost = site.context.matchup_ids.format(new_matchup_id(0, 77))
    assert vote(client, lost).json()["detail"] == vote(client, guessed()).json()["detail"]


def test_a_vote_touches_its_own_arena_only(site):
    client = site.client()
    matchup, _ = ask(client), ask(client, "second")
    with locked(
        site.database, "matchups_b2", "matchups_b3", "endings_b2", "endings_b3", "events_b2", "events_b3"
    ):
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
