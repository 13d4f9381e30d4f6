"""Crowds: one address cannot take what others need, neither sign-ins nor sessions nor matchups."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import HTTPConnection

from live_arenas import made_arena
from served import PASSWORD, make_operator, make_token, served
from tiltyard.arena.content.arenas import find_arena
from tiltyard.arena.voting import open_matchup_limits
from tiltyard.errors import Busy, NotAllowed
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.web import rate_limits
from tiltyard.web.rate_limits import SessionRateLimit, SignInThrottle, client_address

ASK = "/api/v1/arenas/arena/matchups"
SIGN_IN = "/api/v1/operator/sign-in"


def counted(database, table):
    with connect(database) as connection:
        return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


async def wrong():
    raise NotAllowed("wrong")


async def guess(sign_in_throttle, address):
    """What a wrong try meets."""
    try:
        async with sign_in_throttle.sign_in_attempt(address):
            await wrong()
    except (NotAllowed, Busy) as error:
        return type(error)


def test_guessers_keep_nobody_elsewhere_waiting():
    async def scene():
        sign_in_throttle = SignInThrottle(most=20, seconds=30)
        guessers = [asyncio.create_task(guess(sign_in_throttle, f"10.0.0.{k % 3}")) for k in range(60)]
        await asyncio.sleep(0)
        async with asyncio.timeout(30), sign_in_throttle.sign_in_attempt("192.0.2.1"):
            pass
        assert await guess(sign_in_throttle, "10.0.0.0") is Busy
        for one in guessers:
            one.cancel()
        await asyncio.gather(*guessers, return_exceptions=True)
        return sign_in_throttle

    assert asyncio.run(scene())._lines == {}


def test_one_address_tries_one_at_a_time_and_waits_after_a_wrong_one():
    async def scene():
        clock, sign_in_throttle = asyncio.get_running_loop().time, SignInThrottle(seconds=0.05)
        times = []

        async def trying():
            await guess(sign_in_throttle, "10.0.0.1")
            times.append(clock())

        await asyncio.gather(*(trying() for _ in range(4)))
        return times

    assert min(after - before for before, after in pairwise(asyncio.run(scene()))) > 0.04


def test_few_passwords_are_checked_at_once_however_many_addresses_try():
    async def scene():
        sign_in_throttle, inside, most = SignInThrottle(seconds=0, at_once=2), 0, 0

        async def trying(address):
            nonlocal inside, most
            async with sign_in_throttle.sign_in_attempt(address):
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0.005)
                inside -= 1

        await asyncio.gather(*(trying(f"10.0.0.{k}") for k in range(20)))
        return most

    assert asyncio.run(scene()) == 2


def test_the_operator_signs_in_while_a_crowd_elsewhere_guesses(site, monkeypatch):
    make_operator(site.database)
    sign_in_throttle = site.context.access.sign_in_throttle
    sign_in_throttle._seconds = 20

    async def crowd():
        return [asyncio.create_task(guess(sign_in_throttle, "203.0.113.9")) for _ in range(24)]

    async def leaving(guessers):
        for one in guessers:
            one.cancel()
        await asyncio.gather(*guessers, return_exceptions=True)

    guessers = site.run(crowd())
    try:
        answer = site.client().post(SIGN_IN, json={"name": "Ada", "password": PASSWORD})
        assert answer.status_code == 200
        monkeypatch.setattr("tiltyard.web.routes.operators.client_address", lambda _: "203.0.113.9")
        busy = site.client().post(SIGN_IN, json={"name": "Ada", "password": PASSWORD})
        assert (busy.status_code, busy.headers["retry-after"]) == (429, "10")
    finally:
        site.run(leaving(guessers))


def connection_from(client):
    return HTTPConnection({"type": "http", "headers": [], "client": client})


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("unknown", "unknown", True),
        ("x" * 1000, "x" * 2000, True),
    ],
)
def test_an_address_of_ipv6_stands_for_its_network(one, other, same):
    found = [client_address(connection_from((host, 80))) for host in (one, other)]
    assert (found[0] == found[1]) is same
    assert client_address(connection_from(None)) == ""


@given(st.integers(1, 50), st.lists(st.floats(0, 30), max_size=300))
def test_no_span_brings_more_than_twice_its_limit_and_the_patient_are_never_refused(limit, pauses):
    now, times, waits = 0.0, [], []
    session_rate_limit = SessionRateLimit(limit, clock=lambda: now)
    patient = SessionRateLimit(limit, clock=lambda: now)
    asked = -1e9
    for pause in pauses:
        now += pause
        try:
            session_rate_limit.admit("a")
            times.append(now)
        except Busy as refusal:
            waits.append(refusal.retry_after)
        if now - asked > 720 / limit + 1e-6:
            patient.admit("a")
            asked = now
    assert all(0 < wait <= 720 / limit for wait in waits)
    for first in times:
        assert sum(first <= one < first + 60 for one in times) <= 2 * limit
        assert sum(first <= one < first + 3600 for one in times) <= 10 * limit


def test_an_address_alone_cannot_fill_an_arena_with_open_matchups():
    """As many as it likes for as long as a matchup stays open, at the limits that stand unless others are set."""
    now, admitted, open_for = 0.0, 0, ArenaSettings().expiry_seconds
    session_rate_limit = SessionRateLimit(ServingSettings().new_sessions_per_minute, clock=lambda: now)
    while now < open_for:
        try:
            session_rate_limit.admit("a")
            admitted += 1
        except Busy as refusal:
            now += refusal.retry_after + 1e-6
    web_processes = 10
    assert (
        admitted * open_matchup_limits.OPEN_MATCHUPS_PER_VOTER_LIMIT * web_processes
        < open_matchup_limits.OPEN_MATCHUP_LIMIT
    )


def test_whoever_waits_as_told_is_let_in_and_nobody_else_had_to():
    now = 100.0
    session_rate_limit = SessionRateLimit(6, clock=lambda: now)
    for _ in range(6):
        session_rate_limit.admit("a")
    with pytest.raises(Busy) as caught:
        session_rate_limit.admit("a")
    session_rate_limit.admit("b")
    now += caught.value.retry_after + 1e-6
    session_rate_limit.admit("a")


def test_few_addresses_are_remembered_and_no_limit_remembers_none(monkeypatch):
    monkeypatch.setattr(rate_limits, "_TRACKED_ADDRESS_LIMIT", 10)
    session_rate_limit, open_door = SessionRateLimit(5), SessionRateLimit(0)
    for k in range(100):
        session_rate_limit.admit(str(k))
        open_door.admit("the same")
    assert [k for k in range(100) if session_rate_limit._left.get(str(k))] == list(range(90, 100))
    assert len(open_door._left) == 0


def test_new_voters_of_one_address_are_counted_and_known_ones_are_not(database):
    made_arena(database)
    judge = make_token(database, "judge")
    with served(database, settings=ServingSettings(new_sessions_per_minute=3)) as site:
        known = site.client()
        assert known.post(ASK).status_code == 201
        stranger = site.client()
        answers = []
        for _ in range(4):
            stranger.cookies.clear()
            answers.append(stranger.post(ASK))
        assert [answer.status_code for answer in answers] == [201, 201, 429, 429]
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 20
        assert answers[-1].json()["type"] == "urn:tiltyard:problem:too-many"
        assert "set-cookie" not in answers[-1].headers
        assert counted(database, "sessions") == 0, "a voter has no row"
        for _ in range(5):
            matchup = known.post(ASK).json()["matchup"]
            assert known.post(f"/api/v1/matchups/{matchup}/skip").status_code == 200
        assert site.client(judge).post(ASK).status_code == 201


@pytest.mark.slow
def test_the_usual_limit_lets_a_hundred_voters_of_one_machine_in(shared):
    client = shared.client()
    for _ in range(100):
        client.cookies.clear()
        assert client.post(ASK).status_code == 201


def test_an_arena_that_waits_for_too_many_votes_serves_no_new_people(site, monkeypatch):
    known = site.client()
    first = known.post(ASK)
    monkeypatch.setattr(open_matchup_limits, "OPEN_MATCHUP_LIMIT", 1)
    refused = site.client().post(ASK)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "30")
    assert known.post(ASK).json() == first.json()
    assert known.post(ASK, json={"ahead": True}).status_code == 201
    assert site.client(make_token(site.database, "judge")).post(ASK).status_code == 201
    monkeypatch.setattr(open_matchup_limits, "OPEN_MATCHUP_LIMIT", 2)
    assert site.client().post(ASK).status_code == 429
    assert known.post(f"/api/v1/matchups/{first.json()['matchup']}/skip").status_code == 200
    assert site.client().post(ASK).status_code == 201


def noting(asked):
    """`find_arena` that notes who asked."""

    async def finding(connection, name):
        asked.append(name)
        return await find_arena(connection, name)

    return finding


def test_an_unknown_arena_costs_one_question_and_leaves_nothing(site, monkeypatch):
    asked = []
    monkeypatch.setattr("tiltyard.arena.registry.find_arena", noting(asked))
    client, before = site.client(), counted(site.database, "sessions")
    for k in range(20):
        assert client.post(f"/api/v1/arenas/none-{k}/matchups").status_code == 404
    assert len(asked) == 20
    assert site.registry.voting_queues == ()
    assert site.registry._queues == {}
    assert len(site.context.access.session_rate_limit._left) == 0
    assert counted(site.database, "sessions") == before
