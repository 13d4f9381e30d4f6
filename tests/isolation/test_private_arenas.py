"""A private arena on every route, for everybody: those who came in see it; for all others there is nothing to see.

The routes are those that the application has, so that a new one is under these laws from its first day.
"""

import json
import re

import pytest

from support.invited import come_in, expire, make_link, make_passcode, revoke, set_entry
from support.live_arenas import made_arena
from support.page_routes import page_routes
from support.postgres_servers import fresh_database
from support.served import make_operator, make_token, served
from support.sizes import sized
from support.visitors import sign_in
from support.voted_arenas import close_window, rate, voted
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.web.access.cookies import entry_cookie

TITLE = "The secret contest"
#: They read, and vote neither as people nor as judges.
READERS = ("admin of this arena", "reader of this arena")
#: Words that only somebody who is in may read: of the title, models, prompts and responses.
SECRETS = (TITLE, "model-0", "model-1", "What about", "Answer 0")
INSIDE = (
    "invited",
    "invited twice",
    "operator",
    "admin of this arena",
    "reader of this arena",
    "judge of this arena",
)
#: Of those outside, these ask for every route; of the others, each for one of so many, another one each.
ASK_EVERYTHING = {"nobody", "voter", "revoked", "admin of another arena"}
EVERY = sized(3, 1)
OUTSIDE = (
    "nobody",
    "voter",
    "revoked",
    "expired link",
    "used link",
    "passcode of before",
    "in another arena",
    "forged",
    "admin of another arena",
    "reader of another arena",
    "importer",
    "metrics",
)
#: What a path about the arena ends with, if only voters ask for it.
VOTING = ("/matchups", "/finish", "/gate", "/live", "/vote", "/ahead", "/names", "/panel", "/ask", "/skills")
BODIES = {
    "POST /api/v1/arenas/{arena}/matchups": {"json": {}},
    "POST /api/v1/arenas/{arena}/live": {"json": {"prompt": "Why?"}},
    "POST /api/v1/live/{matchup}/turns": {"json": {"prompt": "Why?"}},
    "POST /api/v1/live/{matchup}/turn-vote": {"json": {"turn": 1, "winner": "tie"}},
    "POST /api/v1/matchups/{matchup}/vote": {"json": {"winner": "tie"}},
    "POST /api/v1/matchups/{matchup}/undo": {"json": {}},
    "POST /api/v1/matchups/{matchup}/report": {"json": {"reason": "broken"}},
    "PUT /api/v1/matchups/{matchup}/remark": {"json": {"tags": []}},
    "POST /matchups/{matchup}/vote": {"data": {"winner": "tie"}},
    "POST /matchups/{matchup}/report": {"data": {"reason": "broken"}},
}
#: Pages with which people come in: they answer those who are outside, and say nothing of the arena.
ENTRANCES = {"POST /arenas/{arena}/enter"}
#: Whoever deletes what is held of them is out.
EXITS = {"POST /arenas/{arena}/mine/delete"}


class Scene:
    """A served private arena, visitors by name, and the values of path parameters."""

    def __init__(self, site, clients, values, matchups):
        self.site, self.clients, self.values, self.matchups = site, clients, values, matchups

    def filled(self, path, role):
        known = self.values | {"matchup": self.matchups.get(role, self.matchups["invited"])}
        return re.sub(r"{(\w+)(?::path)?}", lambda name: known[name[1]], path)


@pytest.fixture(scope="module")
def scene(server, template, tmp_path_factory):
    with fresh_database(server, template) as database:
        voted(database, votes=40)
        made_arena(database, name="second", settings=ArenaSettings(entry="invitation"))
        made_arena(database, name="public")
        with connect(database) as connection:
            connection.execute("UPDATE arenas SET title = %s WHERE arena = 1", (TITLE,))
            document = json.dumps({"format": "tiltyard-validity/1", "arena": "arena"})
            connection.execute(
                "INSERT INTO reports (arena, since, until, position, sha256, document) VALUES "
                "(1, now() - interval '7 days', now(), 1, sha256(convert_to(%(text)s, 'UTF8')), %(text)s)",
                {"text": document},
            )
        close_window(database)
        rate(database)
        make_operator(database)
        with served(database, folder=tmp_path_factory.mktemp("responses")) as site:
            site.context.access.actors.sign_in_throttle._seconds = 0.0
            site.context.access.entry_throttle._seconds = 0.0
            yield furnish(site, database)


def furnish(site, database):
    tokens = {
        "admin of this arena": ("admin", "arena"),
        "reader of this arena": ("read", "arena"),
        "judge of this arena": ("judge", "arena"),
        "admin of another arena": ("admin", "second"),
        "reader of another arena": ("read", "second"),
        "importer": ("import", None),
        "metrics": ("metrics", None),
    }
    clients = {
        role: site.client(make_token(database, scope, arena=arena, name=role))
        for role, (scope, arena) in tokens.items()
    }
    for role in (*INSIDE, *OUTSIDE):
        clients.setdefault(role, site.client())
    sign_in(clients["operator"])
    # Somebody knew the passcode, when there was one.
    change_entry(site, "passcode")
    shown, _ = make_passcode(database)
    answer = clients["passcode of before"].post("/arenas/arena/enter", data={"passcode": shown})
    assert answer.status_code == 303
    change_entry(site, "invitation")
    link, _ = make_link(database, uses=2)
    come_in(clients["invited"], link)
    come_in(clients["invited twice"], link)
    come_in(clients["invited twice"], make_link(database, uses=2)[0])
    once, number = make_link(database)
    come_in(clients["revoked"], once)
    assert clients["used link"].post(once).status_code == 403
    lapsed, lapsed_number = make_link(database)
    expire(database, lapsed_number)
    assert clients["expired link"].post(lapsed).status_code == 403
    come_in(clients["in another arena"], make_link(database, "second", uses=5)[0])
    pretend(clients)
    matchups = {}
    for role in (
        "invited",
        "invited twice",
        "revoked",
        "operator",
        "judge of this arena",
    ):
        asked = clients[role].post("/api/v1/arenas/arena/matchups", json={})
        assert asked.status_code == 201, (role, asked.text)
        matchups[role] = asked.json()["matchup"]
    assert clients["voter"].post("/api/v1/arenas/public/matchups", json={}).status_code == 201
    revoke(database, number)
    site.context.access.forget()
    return Scene(site, clients, _values(database), matchups)


def change_entry(site, entry):
    set_entry(site.database, entry)
    site.run(site.registry.settings_changed())
    site.registry.boards.forget("arena")
    site.context.access.forget()


def pretend(clients):
    """Cookies that are signed for another arena, or by nobody."""
    theirs, ours = entry_cookie(0, 2), entry_cookie(0, 1)
    value = clients["in another arena"].cookies[theirs]
    clients["in another arena"].cookies.set(ours, value)
    clients["in another arena"].cookies.set(entry_cookie(1, 1), value)
    token, _, signature = clients["invited"].cookies[ours].partition(".")
    clients["forged"].cookies.set(ours, f"{token}.{'A' * len(signature)}")


def _values(database):
    with connect(database) as connection:

        def one(query):
            return str(connection.execute(query).fetchone()[0])

        snapshot = one("SELECT encode(sha256, 'hex') FROM snapshots WHERE arena = 1 AND source = 0")
        return {
            "arena": "arena",
            "model": "model-0",
            "snapshot": snapshot,
            "sha256": snapshot,
            "report": one("SELECT encode(sha256, 'hex') FROM reports"),
            "exclusion": "1",
            "complaint": "1",
            "name": "ratings",
            "chart": "expected",
            "form": "svg",
            "format": "csv",
        }


def routes_of(scene, *, about):
    """Method and path of every route about an arena or about a matchup that anybody may ask for."""
    described = scene.site.app.openapi()["paths"]
    for path, methods in described.items():
        for method, operation in methods.items():
            if about in path and {"voters", "readers"} & set(operation["tags"]):
                yield method.upper(), path
    for method, path in page_routes():
        if about in path and not path.startswith("/operator"):
            yield method, path


def routes_for(scene, role, *, about):
    """The routes that somebody outside asks for: some ask for all of them, each other one for its part."""
    routes = list(routes_of(scene, about=about))
    return routes if role in ASK_EVERYTHING else routes[OUTSIDE.index(role) % EVERY :: EVERY]


def ask(scene, role, method, path, accept="*/*"):
    options = BODIES.get(f"{method} {path}", {"data": {}} if method == "POST" and "/api/" not in path else {})
    headers = {"accept": accept}
    return scene.clients[role].request(method, scene.filled(path, role), headers=headers, **options)


def test_the_list_of_routes_is_not_empty(scene):
    arena, matchup = set(routes_of(scene, about="{arena}")), set(routes_of(scene, about="{matchup}"))
    assert {("GET", "/api/v1/arenas/{arena}/battles"), ("GET", "/arenas/{arena}/board.{format}")} <= arena
    assert {("GET", "/m/{matchup}/a"), ("POST", "/matchups/{matchup}/vote")} <= matchup
    assert len(arena) >= 25
    assert len(matchup) >= 17


@pytest.mark.parametrize("role", OUTSIDE)
def test_nothing_of_a_private_arena_is_for_those_who_did_not_come_in(scene, role):
    before = counted(scene.site.database)
    for method, path in routes_for(scene, role, about="{arena}"):
        if f"{method} {path}" in ENTRANCES:
            continue
        answer = ask(scene, role, method, path)
        assert answer.status_code == 403, (method, path, answer.text)
        assert answer.json()["type"] == "urn:tiltyard:problem:invitation-required", (method, path)
        assert answer.json()["arena"] == "arena"
        assert answer.headers["cache-control"] == "no-store"
        assert_silent(answer, method, path)
    assert counted(scene.site.database) == before


@pytest.mark.parametrize("role", ["nobody", "revoked", "admin of another arena"])
def test_pages_ask_for_the_link(scene, role):
    for method, path in page_routes():
        if "{arena}" in path and not path.startswith("/operator") and f"{method} {path}" not in ENTRANCES:
            answer = ask(scene, role, method, path, "text/html")
            assert answer.status_code == 403, (method, path)
            assert "is private" in answer.text
            assert "invitation link" in answer.text
            assert_silent(answer, method, path)


@pytest.mark.parametrize("role", OUTSIDE)
def test_matchups_of_a_private_arena_are_gone_for_them(scene, role):
    before = counted(scene.site.database)
    expected = {403} if role in {"revoked", "voter"} else {403, 404}
    for method, path in routes_for(scene, role, about="{matchup}"):
        answer = ask(scene, role, method, path)
        assert answer.status_code in expected, (method, path, answer.text)
        assert_silent(answer, method, path)
    assert counted(scene.site.database) == before


@pytest.mark.parametrize("role", OUTSIDE)
def test_no_list_shows_it_to_them(scene, role):
    for path in ("/", "/api/v1/arenas"):
        answer = scene.clients[role].get(path)
        assert answer.status_code == 200
        assert TITLE not in answer.text
        assert "/arenas/arena" not in answer.text
    assert "arena" not in {one["arena"] for one in answer.json()["arenas"]}
    assert "public" in {one["arena"] for one in answer.json()["arenas"]}


@pytest.mark.slow(but=("invited", "operator", "reader of this arena"))
@pytest.mark.parametrize("role", INSIDE)
def test_everything_is_there_for_those_who_came_in(scene, role):
    """Reading routes first, then those that vote; 404 and 409 are about what is asked, not about who asks."""
    assert TITLE in scene.clients[role].get("/").text
    listed = scene.clients[role].get("/api/v1/arenas").json()["arenas"]
    assert "arena" in {one["arena"] for one in listed}
    found = {}
    for about in ("{arena}", "{matchup}"):
        for method, path in routes_of(scene, about=about):
            if f"{method} {path}" in EXITS:
                continue
            answer = ask(scene, role, method, path)
            found[f"{method} {path}"] = answer
            if role in READERS and answer.status_code == 403:
                assert "scope judge" in answer.text, (method, path, answer.text)
                assert about == "{matchup}" or path.endswith(VOTING), (method, path)
                continue
            assert answer.status_code not in {401, 403, 500, 503}, (method, path, answer.text)
    for route in (
        "GET /api/v1/arenas/{arena}/board",
        "GET /api/v1/arenas/{arena}/battles",
        "GET /api/v1/arenas/{arena}/reports/{report}",
        "GET /arenas/{arena}",
        "GET /arenas/{arena}/boards/{sha256}",
        "GET /arenas/{arena}/models/{model:path}",
        "GET /arenas/{arena}/board.{format}",
        *([] if role in READERS else ["GET /arenas/{arena}/vote"]),
    ):
        assert found[route].status_code == 200, route
        assert "public" not in found[route].headers.get("cache-control", ""), route
    if role in scene.matchups:
        assert found["GET /m/{matchup}/a"].status_code in {200, 404}


def test_each_private_arena_has_its_own_door(scene):
    assert scene.clients["in another arena"].get("/arenas/second/vote").status_code == 200
    for role in ("invited", "nobody", "admin of this arena"):
        assert scene.clients[role].get("/arenas/second/vote").status_code == 403, role


def test_what_a_cache_has_is_not_confirmed_to_strangers(scene):
    for path in ("/api/v1/arenas/arena/board", "/arenas/arena"):
        inside = scene.clients["invited"].get(path)
        assert inside.headers["cache-control"].startswith("private")
        assert "Cookie" in inside.headers["vary"]
        tag = inside.headers["etag"]
        assert scene.clients["invited"].get(path, headers={"if-none-match": tag}).status_code == 304
        assert scene.clients["nobody"].get(path, headers={"if-none-match": tag}).status_code == 403


def test_with_a_passcode_it_is_the_same(scene):
    """The last test of this module: it changes the way in. The passcode of before is the current one again."""
    change_entry(scene.site, "passcode")
    scene.clients["passcode"] = scene.clients["passcode of before"]
    scene.matchups["passcode"] = (
        scene.clients["passcode"].post("/api/v1/arenas/arena/matchups", json={}).json()["matchup"]
    )
    assert_entry(scene, inside=("passcode", "operator", "judge of this arena"), outside=("nobody", "invited"))
    make_passcode(scene.site.database)
    scene.site.context.access.forget()
    assert_entry(scene, inside=("operator",), outside=("passcode",))


def assert_entry(scene, inside, outside):
    routes = [*routes_of(scene, about="{arena}"), *routes_of(scene, about="{matchup}")]
    for method, path in routes:
        if f"{method} {path}" in ENTRANCES | EXITS:
            continue
        for role in inside:
            answer = ask(scene, role, method, path)
            assert answer.status_code not in {401, 403, 500, 503}, (role, method, path, answer.text)
        for role in outside:
            answer = ask(scene, role, method, path)
            if "{arena}" in path or role != "nobody":
                assert answer.status_code == 403, (role, method, path, answer.text)
                assert answer.json()["type"] == "urn:tiltyard:problem:passcode-required"
            else:
                assert answer.status_code == 404, (role, method, path, answer.text)
            assert_silent(answer, method, path)


def assert_silent(answer, method, path):
    """Beside the path that was asked for, to which the choice of the theme leads back."""
    text = answer.text.replace(answer.request.url.path, "")
    for secret in SECRETS:
        assert secret not in text, (method, path, secret)


def counted(database):
    with connect(database) as connection:
        tables = (
            "events",
            "matchups",
            "endings",
            "remarks",
            "complaints",
            "audit",
            "invitations",
            "sessions",
        )
        rows = {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}
        rows["uses"] = connection.execute("SELECT sum(uses) FROM invitations").fetchone()[0]
        return rows
