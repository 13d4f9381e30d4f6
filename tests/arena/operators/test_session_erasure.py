"""What a voter wrote can be erased; the votes, and every rating, stay."""

import asyncio

import pytest

from live_arenas import make_arena, voting_queue_of
from tiltyard.arena.operators.session_erasure import ErasedTexts, erase_session
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.errors import Conflict, InputError
from tiltyard.postgres.connections import connect, open_pool
from voted_arenas import cast

SHOWN = {"shown": {"a": 1.0, "b": 2.0}}


@pytest.fixture
def arena(database):
    async def scene():
        made = await make_arena(database, 3, 4)
        async with voting_queue_of(database, made) as queue:
            matchups = await cast(queue, 6, voters=2, reveal=False, detail=SHOWN)
            for k, matchup in enumerate(matchups[:4]):
                await queue.remark(Voter(1 + k % 2, 0), matchup, [], "I am Ada")
        return made

    made = asyncio.run(scene())
    with connect(database) as connection:
        connection.execute(
            "INSERT INTO complaints (arena, source, serial, session, reason, note)"
            " SELECT arena, source, serial, session, 'broken', 'Ada again' FROM matchups WHERE serial < 2"
        )
    return made


def erase(database, **options):
    async def scene():
        async with open_pool(database, most=1) as pool:
            return await erase_session(pool, "arena", 1, actor="cli", **{"reason": "a request", **options})

    return asyncio.run(scene())


def read(database, text):
    with connect(database) as connection:
        return connection.execute(text).fetchall()


def test_the_texts_of_one_session_are_erased(database, arena):
    votes = "SELECT position, session, outcome FROM battles ORDER BY position"
    before = read(database, votes)
    assert erase(database) == ErasedTexts(remarks=2, complaints=1, details=3)
    assert read(database, votes) == before
    assert len(before) == 6
    assert read(database, "SELECT DISTINCT session FROM remarks") == [(2,)]
    assert read(database, "SELECT session, note, reason FROM complaints ORDER BY session") == [
        (1, None, "broken"),
        (2, "Ada again", "broken"),
    ]
    details = "SELECT session, count(detail) FROM events WHERE kind = 1 GROUP BY session ORDER BY session"
    assert read(database, details) == [(1, 0), (2, 3)]
    assert read(database, "SELECT actor, detail FROM audit WHERE action = 'erase session'") == [
        ("cli", {"session": "1", "reason": "a request"})
    ]


def test_an_erasure_needs_a_reason(database, arena):
    with pytest.raises(InputError, match="needs a reason"):
        erase(database, reason=" ")


@pytest.mark.parametrize("state", ["moving_to = 65", "moved_from = 2, moved_at = now()"])
def test_nothing_is_erased_while_a_copy_exists(database, arena, state):
    with connect(database) as connection:
        connection.execute(f"UPDATE arenas SET {state}")
    with pytest.raises(Conflict, match="is being moved"):
        erase(database)
    assert read(database, "SELECT count(*) FROM remarks") == [(4,)]
