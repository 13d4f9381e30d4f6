"""Two databases behind one address: a proxy routes by path alone, and voters have one cookie for both."""

from contextlib import contextmanager
from types import SimpleNamespace

import httpx2
import pytest

from support.invited import make_link
from support.live_arenas import made_arena
from support.page_routes import page_routes
from support.path_proxy import path_proxy, shard_of_path
from support.postgres_servers import fresh_database
from support.served import SECRET, served
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.web.access.cookies import VOTER_COOKIE

ARENAS = {"plain": 0, "poems": 1}
ACTS = {"vote": {"winner": "tie"}, "undo": {}, "skip": None, "reveal": None, "report": {"reason": "broken"}}


@pytest.fixture(scope="module")
def city(server, template):
    """Two shards with an arena each, and the proxy before them."""
    with fresh_database(server, template) as first, fresh_database(server, template) as second:
        databases = (first, second)
        for name, shard in ARENAS.items():
            made_arena(databases[shard], name=name)
        with (
            served(first, settings=ServingSettings(port=0, shard=0)) as zero,
            served(second, settings=ServingSettings(port=0, shard=1)) as one,
        ):
            shards = (zero, one)
            with path_proxy(lambda path: shards[shard_of_path(path, ARENAS)].url) as proxy:
                yield SimpleNamespace(shards=shards, proxy=proxy)


@contextmanager
def visitor(city, **options):
    with httpx2.Client(base_url=city.proxy.url, timeout=30, **options) as client:
        yield client


@contextmanager
def unreadable(database):
    """Nobody can read what a matchup is looked up in, nor add to it."""
    with connect(database) as connection, connection.transaction():
        connection.execute("LOCK TABLE arenas, matchups, endings, events IN ACCESS EXCLUSIVE MODE")
        yield


def ask(client, arena):
    return client.post(f"/api/v1/arenas/{arena}/matchups").raise_for_status().json()


def votes(site):
    with connect(site.database) as connection:
        return connection.execute(
            "SELECT m.session, e.outcome FROM endings e JOIN matchups m USING (arena, source, serial) "
            "WHERE e.kind = 1 AND e.undone IS NULL ORDER BY e.position"
        ).fetchall()


def test_one_voter_votes_on_both_shards_with_one_cookie(city):
    with visitor(city) as client:
        first = ask(client, "plain")
        cookie = client.cookies[VOTER_COOKIE]
        second = ask(client, "poems")
        assert client.cookies[VOTER_COOKIE] == cookie
        assert (first["matchup"][:2], second["matchup"][:2]) == ("0-", "1-")
        before = [votes(site) for site in city.shards]
        for shown, winner in ((first, "model_a"), (second, "model_b")):
            for side in "ab":
                assert client.get(shown["responses"][side]["url"]).status_code == 200
            path = f"/api/v1/matchups/{shown['matchup']}"
            assert client.post(f"{path}/vote", json={"winner": "tie"}).status_code == 200
            assert client.post(f"{path}/undo", json={}).status_code == 200
            assert client.post(f"{path}/vote", json={"winner": winner, "ballot": 1}).status_code == 200
            assert client.put(f"{path}/remark", json={"tags": ["clear"]}).status_code == 204
            assert client.post(f"{path}/report", json={"reason": "other"}).status_code == 204
            assert client.post(f"{path}/reveal").status_code == 200
        cast = [votes(site)[len(one) :] for site, one in zip(city.shards, before, strict=True)]
    assert [len(one) for one in cast] == [1, 1]
    assert [one[0][1] for one in cast] == [0, 1]
    assert cast[0][0][0] == cast[1][0][0], "one voter has one number on both shards"


def test_pages_and_forms_lead_to_the_same_shard(city):
    with visitor(city, follow_redirects=True) as client:
        for name, shard in ARENAS.items():
            page = client.post(f"/arenas/{name}/vote")
            matchup = page.text.split('data-matchup="')[1].split('"')[0]
            assert matchup.startswith(f"{shard}-")
            city.proxy.passed.clear()
            voted = client.post(f"/matchups/{matchup}/vote", data={"winner": "tie"})
            assert voted.status_code == 200
            assert client.post(f"/matchups/{matchup}/undo").status_code == 200
            assert client.post(f"/matchups/{matchup}/skip").status_code == 200
            assert {server for _, server in city.proxy.passed} == {city.shards[shard].url}


def test_a_matchup_of_another_shard_is_refused_without_a_look_at_the_database(city):
    zero, one = city.shards
    with visitor(city) as client:
        mine = ask(client, "plain")["matchup"]
        stranger = one.client(cookies={VOTER_COOKIE: client.cookies[VOTER_COOKIE]})
        ask(stranger, "poems")
        with unreadable(one.database):
            for act, body in ACTS.items():
                answer = stranger.post(f"/api/v1/matchups/{mine}/{act}", json=body)
                assert answer.status_code == 404, act
                assert answer.json()["type"] == "urn:tiltyard:problem:not-found"
            renamed = "1-" + mine.partition("-")[2]
            for other in (mine, renamed):
                assert stranger.get(f"/m/{other}/a").status_code == 404
                assert stranger.get(f"/matchups/{other}").status_code == 404
        assert client.post(f"/api/v1/matchups/{mine}/vote", json={"winner": "tie"}).status_code == 200
    assert zero.context.matchup_ids.parse(mine)


def test_shards_without_the_same_key_have_no_voters_in_common(server, template, city):
    with fresh_database(server, template) as database:
        made_arena(database)
        with served(database, keys=SecretKeys([SECRET[::-1]])) as elsewhere, visitor(city) as client:
            ask(client, "plain")
            foreign = elsewhere.client(cookies={VOTER_COOKIE: client.cookies[VOTER_COOKIE]})
            answer = foreign.post("/api/v1/arenas/arena/matchups")
            assert answer.status_code == 201
            assert VOTER_COOKIE in answer.headers["set-cookie"]


def test_an_invitation_leads_to_its_shard_and_is_nothing_on_another(server, template):
    with fresh_database(server, template) as first, fresh_database(server, template) as second:
        databases = (first, second)
        for name, shard in ARENAS.items():
            made_arena(databases[shard], name=name, settings=ArenaSettings(entry="invitation"))
        with (
            served(first, settings=ServingSettings(port=0, shard=0)) as zero,
            served(second, settings=ServingSettings(port=0, shard=1)) as one,
            path_proxy(lambda path: (zero, one)[shard_of_path(path, ARENAS)].url) as proxy,
            httpx2.Client(base_url=proxy.url, timeout=30) as client,
        ):
            # Both arenas have the number 1, and both invitations.
            link, _ = make_link(second, "poems", shard=1)
            make_link(first, "plain", shard=0)
            assert client.post(link).headers["location"] == "/arenas/poems/vote"
            assert client.get("/arenas/poems/vote").status_code == 200
            assert client.get("/arenas/plain/vote").status_code == 403


#: The first parts of routes about the server, its operators or all arenas: a proxy sends them to shard 0.
ELSEWHERE = {
    "",
    "assets",
    "claim",
    "favicon.ico",
    "healthz",
    "me",
    "metrics",
    "operator",
    "readyz",
    "theme",
    "tokens",
}


def test_every_route_can_be_routed_by_its_path(city):
    """What is about a matchup names it first, and what is about an arena names the arena."""
    routes = {*city.shards[0].app.openapi()["paths"], *(path for _, path in page_routes())}
    paths = {path.removeprefix("/api/v1") for path in routes}
    assert len(paths) > 50
    for path in paths:
        if "{matchup}" in path:
            assert path.split("/")[1] in {"live", "m", "matchups"}, path
            assert path.split("/")[2] == "{matchup}", path
        elif "{code}" in path:
            assert path == "/join/{code}"
        elif path.startswith("/arenas/"):
            assert path.split("/")[2] == "{arena}", path
        elif path.startswith("/sign-in/"):
            assert path.split("/")[2] == "{shard}", path
        elif path != "/arenas":
            assert path.split("/")[1] in ELSEWHERE, path
