"""One admission, one voter: whoever was let in once is one voter, whatever cookies they keep or drop."""

import asyncio
import time

import pytest

from support.invited import come_in, make_link, make_passcode, set_entry
from support.live_arenas import made_arena
from support.postgres_servers import fresh_database
from support.served import make_operator, make_token, served
from support.visitors import sign_in
from tiltyard.arena.log.event_log import HUMAN, JUDGE
from tiltyard.arena.operators.arena_changes import change_settings
from tiltyard.arena.operators.panels import PanelTerms, open_panel
from tiltyard.client import Client
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.settings.serving_settings import ServingSettings, SignInSettings
from tiltyard.web.access import voters
from tiltyard.web.access.cookies import OPERATOR_COOKIE, entry_cookie

ASK = "/api/v1/arenas/arena/matchups"
ENTRY = entry_cookie(0, 1)
PUBLIC = ServingSettings(
    port=0, base_url="https://arena.example.org", new_sessions_per_minute=4, session_limits="matchups=10"
)
VOTERS = 5


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(voters, "_EASY_NUMBER_LIMIT", 50)


@pytest.fixture(scope="module")
def invited(server, template):
    """The name of a database with an arena for invited people and an operator, to be copied."""
    with fresh_database(server, template) as database:
        made_arena(database, settings=ArenaSettings(entry="invitation", undo_seconds=0))
        make_operator(database)
        yield database.rpartition("/")[2]


@pytest.fixture
def site(server, invited, tmp_path):
    with fresh_database(server, invited) as database, served(database, folder=tmp_path) as running:
        running.context.access.actors.sign_in_throttle._seconds = 0.0
        running.context.access.entry_throttle._seconds = 0.0
        yield running


@pytest.fixture
def public(server, invited, tmp_path):
    """A server on a public address, whose cookies have the prefix of its host."""
    with (
        fresh_database(server, invited) as database,
        served(database, folder=tmp_path, settings=PUBLIC) as running,
    ):
        yield running


def change_entry(site, entry):
    set_entry(site.database, entry)
    site.registry.boards.forget("arena")
    site.run(site.registry.settings_changed())
    site.context.access.forget()


def rows(site, query):
    with connect(site.database) as connection:
        return connection.execute(query).fetchall()


def sessions_of_people(site):
    return {session for (session,) in rows(site, "SELECT session FROM matchups WHERE source = 0")}


def vote(client, matchup, **headers):
    return client.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": "model_a"}, headers=headers)


def cast_without_sessions(site, kept):
    """The attack: a new visitor for every vote, who has only the cookies that let in. Returns the reasons of votes."""
    for _ in range(VOTERS):
        client = site.client(cookies=kept)
        asked = client.post(ASK, json={})
        assert asked.status_code in {200, 201}, asked.text
        assert vote(client, asked.json()["matchup"]).status_code == 200


def let_in(site, way):
    """A visitor who came in, and the names of the cookies by which."""
    client = site.client()
    if way == "passcode":
        change_entry(site, "passcode")
        shown, _ = make_passcode(site.database)
        assert client.post("/arenas/arena/enter", data={"passcode": shown}).status_code == 303
    elif way == "operator":
        sign_in(client)
        return client, OPERATOR_COOKIE
    elif way == "rater":
        come_in(client, panel_link(site))
    else:
        come_in(client, make_link(site.database, uses=1 if way == "invitation" else 50)[0])
    return client, ENTRY


def stranger(public, **headers):
    """A new visitor of the server on a public address."""
    client = public.client()
    client.headers.update({"host": "arena.example.org", **headers})
    return client


def entered(public, way):
    """A visitor who came in, with the cookie of that alone. Cookies are for https, so it is sent as a header."""
    client = stranger(public)
    if way == "passcode":
        shown = make_passcode(public.database)[0]
        answer = client.post("/arenas/arena/enter", data={"passcode": shown})
    else:
        answer = client.post(make_link(public.database, uses=1 if way == "invitation" else 100)[0])
    assert answer.status_code == 303, answer.text
    return stranger(public, cookie=answer.headers["set-cookie"].partition(";")[0])


def panel_link(site):
    async def opening():
        async with open_pool(site.database, most=1) as pool:
            return await open_panel(pool, "arena", PanelTerms("experts", ("Ada",), 1), shard=0, actor="cli")

    return f"/join/{asyncio.run(opening()).codes[0]}"


@pytest.mark.parametrize("way", ["invitation", "shared link", "passcode", "rater", "operator"])
def test_whoever_drops_the_session_and_keeps_the_entry_is_the_same_voter(site, way):
    client, name = let_in(site, way)
    first = client.post(ASK, json={})
    kept = {name: client.cookies[name]}
    again = site.client(cookies=kept).post(ASK, json={})
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["matchup"] == first.json()["matchup"]
    cast_without_sessions(site, kept)
    assert len(sessions_of_people(site)) == 1


def test_a_session_of_elsewhere_is_nobody_in_a_private_arena(site):
    """Neither does it let in, nor is whoever came in another voter with it."""
    made_arena(site.database, name="open")
    client, name = let_in(site, "invitation")
    for _ in range(VOTERS):
        other = site.client()
        assert other.post("/api/v1/arenas/open/matchups", json={}).status_code == 201
        assert other.post(ASK, json={}).status_code == 403
        other.cookies.set(name, client.cookies[name])
        assert other.post(ASK, json={}).status_code in {200, 201}
    assert rows(site, "SELECT count(DISTINCT session) FROM matchups WHERE arena = 1") == [(1,)]


def test_limits_of_a_voter_hold_without_the_session(public):
    entry = entered(public, "invitation").headers["cookie"]
    statuses = [stranger(public, cookie=entry).post(ASK, json={}).status_code for _ in range(16)]
    assert statuses == [201] + [200] * 9 + [429] * 6


def test_an_invitation_to_an_open_arena_is_one_voter_and_no_way_around_the_gate(site):
    change_entry(site, "open")
    site.run(set_gate(site))
    client = site.client()
    come_in(client, make_link(site.database)[0])
    kept = {ENTRY: client.cookies[ENTRY]}
    cast_without_sessions(site, kept)
    assert len(sessions_of_people(site)) == 1
    assert site.client().post(ASK, json={}).status_code == 403


async def set_gate(site):
    await change_settings(site.registry.pool, "arena", {"gate": "proof"}, actor="cli")
    await site.registry.settings_changed()


@pytest.mark.slow(but=("open-read", "open-import", "invitation-admin", "invitation-metrics"))
@pytest.mark.parametrize("scope", ["read", "import", "admin", "metrics"])
@pytest.mark.parametrize("entry", ["open", "invitation"])
def test_a_token_votes_as_a_judge_or_not_at_all(site, scope, entry):
    change_entry(site, entry)
    program = site.client(make_token(site.database, scope, arena="arena"))
    for _ in range(VOTERS):
        program.cookies.clear()
        assert program.post(ASK, json={}).status_code == 403
    assert program.get(f"{ASK.removesuffix('matchups')}gate").status_code == 403
    # Nor with the session of a person beside it.
    person = site.client()
    if entry == "invitation":
        come_in(person, make_link(site.database)[0])
    matchup = person.post(ASK, json={}).json()["matchup"]
    assert vote(person, matchup, authorization=program.headers["authorization"]).status_code == 403
    assert vote(person, matchup).status_code == 200
    assert rows(site, "SELECT source, count(*) FROM endings GROUP BY source") == [(HUMAN, 1)]
    judge = site.client(make_token(site.database, "judge", arena="arena"))
    assert vote(judge, judge.post(ASK, json={}).json()["matchup"]).status_code == 200
    assert rows(site, "SELECT count(*) FROM endings WHERE source = 1") == [(JUDGE,)]


def test_our_client_votes_as_a_person_without_a_token(site):
    change_entry(site, "open")
    with Client(site.url) as client:
        client.vote(client.next_matchup("arena").matchup, "model_a")
        client.vote(client.next_matchup("arena").matchup, "tie")
    assert len(sessions_of_people(site)) == 1


def test_a_voter_who_was_revoked_or_deleted_does_not_come_again(site):
    for way in ("revoked", "deleted"):
        client, name = let_in(site, "invitation")
        matchup = client.post(ASK, json={}).json()["matchup"]
        assert vote(client, matchup).status_code == 200
        kept = {name: client.cookies[name]}
        ((session,),) = rows(site, "SELECT session FROM matchups ORDER BY position DESC LIMIT 1")
        if way == "revoked":
            site.run(site.context.access.accounts.revoke_session("cli", session))
        else:
            (held,) = client.get("/arenas/arena/mine/data.json").json()["voters"]
            assert (held["session"], held["account"]["invitation"] is None) == (str(session), False)
            assert "by an invitation" in client.get("/arenas/arena/mine/data").text
            gone = client.post("/arenas/arena/mine/delete")
            assert gone.status_code == 200
            assert name not in client.cookies
            assert rows(site, f"SELECT count(*) FROM sessions WHERE session = {session}") == [(0,)]
        site.context.access.forget()
        assert site.client(cookies=kept).post(ASK, json={}).status_code == 403, way


def test_voters_of_a_link_can_be_excluded_together(site):
    link, number = make_link(site.database, uses=3)
    clients = [site.client() for _ in range(3)]
    for client in clients:
        come_in(client, link)
        assert vote(client, client.post(ASK, json={}).json()["matchup"]).status_code == 200
    other, _ = let_in(site, "invitation")
    assert vote(other, other.post(ASK, json={}).json()["matchup"]).status_code == 200
    operator = site.client()
    sign_in(operator)
    page = operator.get("/operator/arenas/arena/invitations").text
    path = f"/operator/arenas/arena/exclude?invitation={number}"
    assert path in page
    assert operator.get(path + "&reason=x").status_code == 200
    with Client(site.url, token=make_token(site.database, "admin")) as admin:
        assert admin.exclude("arena", "they were one", invitation=number).votes == 3
    for wrong in ({"invitation": number, "sessions": [1]}, {"invitation": 99_999}):
        answer = operator.post("/api/v1/arenas/arena/exclusions", json={"reason": "x", **wrong})
        assert answer.status_code in {404, 422}
    assert rows(site, "SELECT count(*) FROM excluded_votes") == [(3,)]


def looked_at(client, seconds=1.2):
    """A vote after a look at both responses."""
    asked = client.post(ASK, json={}).json()
    for side in "ab":
        assert client.get(f"/m/{asked['matchup']}/{side}").status_code == 200
    time.sleep(seconds)
    return vote(client, asked["matchup"]).json()["unrated"]


@pytest.mark.parametrize(
    ("way", "unrated"), [("invitation", None), ("shared link", "waiting"), ("passcode", "waiting")]
)
def test_votes_of_whoever_came_alone_count_at_once_and_those_of_a_crowd_wait(public, way, unrated):
    if way == "passcode":
        change_entry(public, "passcode")
    client = entered(public, way)
    assert looked_at(client, 0.0) in {"early", "unseen"}
    assert looked_at(client) == unrated


def test_a_crowd_behind_one_address_is_counted_and_whoever_was_invited_alone_is_not(public):
    link, number = make_link(public.database, uses=100)
    answers = [stranger(public).post(link).status_code for _ in range(6)]
    assert answers == [303] * 4 + [429] * 2
    assert rows(public, f"SELECT uses FROM invitations WHERE invitation = {number}") == [(4,)]
    assert rows(public, "SELECT count(*), count(DISTINCT network) FROM sessions") == [(4, 1)]
    assert stranger(public).post(make_link(public.database)[0]).status_code == 303


def test_who_signed_in_is_one_voter_and_passes_no_gate_of_an_open_arena(database, tmp_path):
    made_arena(database, settings=ArenaSettings(entry="sign-in", undo_seconds=0))
    made_arena(database, name="open", settings=ArenaSettings(gate="proof"))
    gateway = SignInSettings(proxy_networks=("127.0.0.1",))
    with served(database, folder=tmp_path, sign_in=gateway) as site:
        matchups = set()
        for _ in range(VOTERS):
            client = site.client()
            client.headers["x-forwarded-user"] = "ada"
            matchups.add(client.post(ASK, json={}).json()["matchup"])
            assert client.post("/api/v1/arenas/open/matchups", json={}).status_code == 403
        assert len(matchups) == 1
        assert vote(client, matchups.pop()).status_code == 200
        assert len(sessions_of_people(site)) == 1
