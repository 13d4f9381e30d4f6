"""Crowds: one address cannot take what others need, neither sign-ins nor sessions nor matchups."""

import asyncio
from itertools import pairwise
from types import SimpleNamespace

import pytest
from starlette.requests import HTTPConnection

from support.invited import make_link
from support.live_arenas import made_arena
from support.served import PASSWORD, SECRET, make_operator, make_token, served
from tiltyard.arena.content.arenas import find_arena
from tiltyard.arena.processes.shared_limits import SharedLimits
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.arena.voting import matchup_lifecycle as open_matchup_limits
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.errors import BadOption, Busy, NotAllowed
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.settings.serving_settings import NETWORK_LIMITS, SESSION_LIMITS, ServingSettings
from tiltyard.web.access.rate_limits import SignInThrottle, VoterLimits, client_address

ASK = "/api/v1/arenas/arena/matchups"
SIGN_IN = "/operator/sign-in"


def counted(database, table):
    with connect(database) as connection:
        return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def throttle(**options):
    """A throttle that no other process shares."""
    return SignInThrottle("tries", 1_000, SharedLimits(None, SecretKeys([SECRET])), **options)


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
        sign_in_throttle = throttle(most=20, seconds=30)
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
        clock, sign_in_throttle = asyncio.get_running_loop().time, throttle(seconds=0.05)
        times = []

        async def trying():
            await guess(sign_in_throttle, "10.0.0.1")
            times.append(clock())

        await asyncio.gather(*(trying() for _ in range(4)))
        return times

    assert min(after - before for before, after in pairwise(asyncio.run(scene()))) > 0.04


def test_few_passwords_are_checked_at_once_however_many_addresses_try():
    async def scene():
        sign_in_throttle, inside, most = throttle(seconds=0, at_once=2), 0, 0

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
    sign_in_throttle = site.context.access.actors.sign_in_throttle
    sign_in_throttle._seconds = 20

    async def crowd():
        return [asyncio.create_task(guess(sign_in_throttle, "203.0.113.9")) for _ in range(24)]

    async def leaving(guessers):
        for one in guessers:
            one.cancel()
        await asyncio.gather(*guessers, return_exceptions=True)

    guessers = site.run(crowd())
    try:
        answer = site.client().post(SIGN_IN, data={"name": "Ada", "password": PASSWORD})
        assert answer.status_code == 303
        monkeypatch.setattr("tiltyard.web.access.actors.client_address", lambda _: "203.0.113.9")
        busy = site.client().post(SIGN_IN, data={"name": "Ada", "password": PASSWORD})
        assert busy.status_code == 429
    finally:
        site.run(leaving(guessers))


def test_wrong_attempts_are_counted_by_all_processes_together(database):
    """And right ones are not: a lecture hall comes in from one address."""

    async def right(throttle, address):
        async with throttle.sign_in_attempt(address):
            pass

    async def scene():
        async with open_pool(database, most=2) as pool:
            shared = [SharedLimits(pool, SecretKeys([SECRET])) for _ in range(2)]
            throttles = [SignInThrottle("tries", 6, one, seconds=0) for one in shared]
            for _ in range(20):
                await right(throttles[0], "10.0.0.1")
            met = [await guess(throttles[k % 2], "10.0.0.1") for k in range(20)]
            await right(throttles[0], "10.0.0.2")
            for one in shared:
                await one.stop()
        return met

    met = asyncio.run(scene())
    # Each process has a share of its own on top of what is left in the database.
    assert 6 <= met.count(NotAllowed) <= 8
    assert met[-1] is Busy


def test_who_was_signed_in_before_does_not_wait_behind_a_crowd_of_addresses():
    async def scene():
        limited = throttle(seconds=30, at_once=1, in_all=3)
        guessers = [asyncio.create_task(guess(limited, f"10.0.0.{k}")) for k in range(3)]
        await asyncio.sleep(0)
        assert await guess(limited, "10.0.1.1") is Busy
        async with asyncio.timeout(30), limited.sign_in_attempt("192.0.2.1", known=True):
            pass
        for one in guessers:
            one.cancel()
        await asyncio.gather(*guessers, return_exceptions=True)
        return limited

    assert asyncio.run(scene())._lines == {}


def test_what_is_kept_of_an_arena_has_a_quota_and_what_fails_does_not_count(database):
    made_arena(database)
    settings = ServingSettings(port=0, arena_quotas="reports=1, remarks=1, uploads=0")
    with served(database, settings=settings) as site:
        assert set(site.context.access.limits._quotas) == {"reports", "remarks"}
        voters = [site.client() for _ in range(2)]
        matchups = [voter.post(ASK).json()["matchup"] for voter in voters]
        for voter, matchup in zip(voters, matchups, strict=True):
            voter.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": "tie"})
        met = {}
        for kind, method in (("report", "POST"), ("remark", "PUT")):
            body = {"reason": "other"} if kind == "report" else {"tags": [], "comment": "why"}
            # Of another's matchup, which is not found, and does not count.
            met[kind] = [
                voters[k].request(method, f"/api/v1/matchups/{matchups[m]}/{kind}", json=body).status_code
                for k, m in ((0, 1), (0, 0), (1, 1))
            ]
        assert met == {"report": [404, 204, 429], "remark": [404, 204, 429]}


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


def test_an_address_alone_cannot_fill_an_arena_with_open_matchups():
    """As many as it likes for as long as a matchup stays open, at the limits that stand unless others are set."""
    open_for, per_minute = ArenaSettings().expiry_seconds, ServingSettings().new_sessions_per_minute
    limits = VoterLimits(SharedLimits(None, SecretKeys([SECRET])), ServingSettings())
    minute, hour = limits._new_sessions
    assert [(one.count, one.seconds) for one in (minute, hour)] == [(per_minute, 60), (5 * per_minute, 3600)]
    web_processes = 64
    shares = web_processes * hour.share * (1 + open_for / hour.seconds)
    admitted = hour.count * (1 + open_for / hour.seconds) + shares
    assert (
        admitted * open_matchup_limits.OPEN_MATCHUPS_PER_VOTER_LIMIT < open_matchup_limits.OPEN_MATCHUP_LIMIT
    )


def test_no_limit_remembers_nobody():
    async def scene():
        limits = VoterLimits(
            SharedLimits(None, SecretKeys([SECRET])), ServingSettings(new_sessions_per_minute=0)
        )
        queue = SimpleNamespace(arena=1, settings=ArenaSettings())
        for _ in range(2000):
            await limits.admit_session(connection_from(("192.0.2.1", 80)), queue)
            await limits.admit("votes", connection_from(("192.0.2.1", 80)), queue, Voter(7))
        assert len(limits.shared) == 0

    asyncio.run(scene())


def test_limits_stand_on_a_public_address_and_elsewhere_if_they_are_stated():
    public, local = ServingSettings(base_url="https://arena.example.org"), ServingSettings()
    assert public.minute_limits("session") == dict(SESSION_LIMITS)
    assert public.minute_limits("network") == dict(NETWORK_LIMITS)
    assert local.minute_limits("session") == local.minute_limits("network") == {}
    assert ServingSettings(session_limits="votes = 5,skips=0").minute_limits("session") == {"votes": 5}
    some = ServingSettings(base_url="https://arena.example.org", session_limits="votes=5, skips=0")
    assert some.minute_limits("session") == {"matchups": 120, "votes": 5, "reveals": 60, "reports": 10}
    none = ServingSettings(base_url="https://arena.example.org", network_limits="none")
    assert none.minute_limits("network") == {}
    assert not ServingSettings(base_url="http://localhost:8420").has_public_address
    assert not ServingSettings(base_url="http://[::1]:8420").has_public_address


@pytest.mark.parametrize(
    "text", ["votes", "votes=", "votes=x", "votes=-1", "cats=3", "votes=1 skips=2", "votes=²", "x" * 600]
)
def test_limits_that_cannot_be_read_are_refused(text):
    with pytest.raises(BadOption, match="session_limits"):
        ServingSettings(session_limits=text)
    with pytest.raises(BadOption, match="minute_limits"):
        ArenaSettings(minute_limits=text)


def test_a_session_that_does_too_much_is_refused_and_others_are_not(database):
    made_arena(database, 8, 12)
    limits = "matchups=50, votes=3, skips=2, reveals=1, reports=1"
    with served(database, settings=ServingSettings(session_limits=limits)) as site:
        fast, calm = site.client(), site.client()

        def acts(client, act, **body):
            matchup = client.post(ASK).json()["matchup"]
            return client.post(f"/api/v1/matchups/{matchup}/{act}", json=body)

        votes = [acts(fast, "vote", winner="tie").status_code for _ in range(5)]
        assert votes == [200, 200, 200, 429, 429]
        refused = acts(fast, "vote", winner="tie")
        assert refused.json()["type"] == "urn:tiltyard:problem:too-many"
        assert 1 <= int(refused.headers["retry-after"]) <= 20
        assert "votes" in refused.json()["detail"]
        assert [acts(fast, "skip").status_code for _ in range(3)] == [200, 200, 429]
        assert [acts(fast, "report", reason="broken").status_code for _ in range(2)] == [204, 429]
        assert acts(fast, "reveal").status_code == 409
        assert acts(fast, "reveal").status_code == 429
        assert acts(calm, "vote", winner="tie").status_code == 200
        judge = site.client(make_token(database, "judge"))
        assert [acts(judge, "vote", winner="tie").status_code for _ in range(5)] == [200] * 5
        page = fast.post(
            f"/matchups/{fast.post(ASK).json()['matchup']}/vote",
            data={"winner": "tie"},
            headers={"accept": "text/html"},
        )
        assert (page.status_code, "too many votes" in page.text) == (429, True)


def test_networks_and_arenas_have_limits_and_private_arenas_none_by_network(database):
    made_arena(database, 8, 12, settings=ArenaSettings(minute_limits="skips=6, sessions=3"))
    with served(database, settings=ServingSettings(network_limits="votes=4")) as site:
        clients = [site.client() for _ in range(3)]

        def acts(client, act, **body):
            matchup = client.post(ASK).json()["matchup"]
            return client.post(f"/api/v1/matchups/{matchup}/{act}", json=body).status_code

        assert [acts(client, "vote", winner="tie") for client in clients * 2] == [200] * 4 + [429] * 2
        assert [acts(client, "skip") for client in clients * 3] == [200] * 6 + [429] * 3
        new = site.client().post(ASK)
        assert (new.status_code, "in this arena" in new.json()["detail"]) == (429, True)


@pytest.mark.slow(but="True-60")
@pytest.mark.parametrize("voters", [60, 300])
@pytest.mark.parametrize("alone", [False, True])
def test_a_lecture_hall_of_invited_voters_votes_from_one_address(database, voters, alone):
    """With one link for all, by the limits of a public address; with a link for each, by any limits of networks."""
    made_arena(database, 4, 6, settings=ArenaSettings(entry="invitation", shown_check="never"))
    limits = {"new_sessions_per_minute": 20, "network_limits": "votes=20, matchups=20"} if alone else {}
    links = (
        [make_link(database)[0] for _ in range(voters)] if alone else [make_link(database, uses=voters)[0]]
    )
    with served(database, settings=ServingSettings(base_url=None, **limits)) as site:
        hall = site.client()
        for number in range(voters):
            hall.cookies.clear()
            assert hall.post(links[number % len(links)]).status_code == 303
            shown = hall.post(ASK)
            assert shown.status_code == 201
            voted = hall.post(f"/api/v1/matchups/{shown.json()['matchup']}/vote", json={"winner": "tie"})
            assert voted.status_code == 200


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
    assert len(site.context.access.limits.shared) == 0
    assert counted(site.database, "sessions") == before
