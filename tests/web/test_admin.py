"""What operators do by HTTP, and that nobody else can."""

import base64
import json
from contextlib import contextmanager

import pytest

from support.postgres_servers import fresh_database
from support.served import make_token, served
from support.shown_kinds import png
from support.voted_arenas import close_window, voted
from tiltyard.postgres.connections import connect

ARENAS = "/api/v1/arenas"
ARENA = f"{ARENAS}/arena"
PNG = png(9, 9, 9, size=2)


def line(model="new", prompt="prompt-0", text="What about 0?", response="hello", **more):
    return (
        json.dumps({"prompt_id": prompt, "prompt": text, "model": model, "response": response, **more}) + "\n"
    )


@contextmanager
def an_arena(database, folder):
    voted(database, votes=10)
    with connect(database) as connection:
        connection.execute(
            "INSERT INTO complaints (arena, source, serial, session, reason, note) VALUES (1, 0, 0, 1, 'broken', 'x')"
        )
    with served(database, folder=folder) as site:
        yield site


@pytest.fixture
def running(database, tmp_path):
    with an_arena(database, tmp_path) as site:
        yield site


@pytest.fixture
def admin(running):
    return running.client(make_token(running.database, "admin", name="admin"))


@pytest.fixture(scope="module")
def refused_admin(server, template, tmp_path_factory):
    """One arena for all requests that change nothing."""
    with (
        fresh_database(server, template) as url,
        an_arena(url, tmp_path_factory.mktemp("responses")) as site,
    ):
        yield site.client(make_token(url, "admin", name="admin"))


def test_an_arena_is_made_filled_and_opened_by_http(admin, running):
    made = admin.post(
        ARENAS,
        json={"name": "fresh", "title": "Fresh", "settings": {"undo_seconds": 3}, "policy": {"phase": 2}},
    )
    assert made.status_code == 201
    assert made.json()["settings"]["undo_seconds"] == 3
    assert admin.post(ARENAS, json={"name": "fresh"}).status_code == 409
    body = line("org/m-1") + line("m2", response="I am org/M-1") + "\n" + line("m3", response="I'm Claude")
    brought = admin.post(f"{ARENAS}/fresh/responses", params={"enable": False}, content=body)
    counted = {
        "models": 3,
        "prompts": 1,
        "responses": 3,
        "unchanged": 0,
        "position": 5,
        "mentioned": 2,
        "suspect": 0,
        "suspects": [],
    }
    mentions = [
        "line 2: says 'org/m-1', the name of another model: voters will read it",
        "line 4: calls itself a model of 'Claude', which is not its family or maker: voters will read it",
    ]
    assert brought.json() == counted | {"mentions": mentions}
    assert running.client().post(f"{ARENAS}/fresh/matchups", json={}).status_code == 409
    for model in ("org/m-1", "m2"):
        answer = admin.post(f"{ARENAS}/fresh/models/{model}/enable")
        assert answer.json()["enabled"]
        assert answer.json()["position"] > 5
    listed = admin.get(f"{ARENAS}/fresh/models").json()["models"]
    assert [(one["model"], one["enabled"]) for one in listed] == [
        ("org/m-1", True),
        ("m2", True),
        ("m3", False),
    ]
    offered = running.client().post(f"{ARENAS}/fresh/matchups", json={})
    assert offered.status_code == 201
    assert admin.get(f"{ARENAS}/fresh/policy").json()["policy"]["phase"] == 2
    assert admin.patch(f"{ARENAS}/fresh/policy", json={"phase": 3}).json()["policy"]["phase"] == 3
    assert admin.patch(f"{ARENAS}/fresh/policy", json={"window": 10}).status_code == 422


def test_an_import_is_whole_or_nothing(admin, database):
    with connect(database) as connection:
        before = connection.execute("SELECT count(*) FROM events").fetchone()
    for body, status in (
        (line("new") + line("model-0", response="another answer"), 409),
        (line("new") + "{broken\n", 422),
        (line("new") + line("n\u202ew"), 422),
        (line("new", kind="image", response="../../etc/passwd"), 422),
        (
            line(
                "new", kind="image", response="data:image/png;base64," + base64.b64encode(b"<svg>").decode()
            ),
            422,
        ),
        (b"\x1f\x8b\x08garbage", 422),
        (b"\xff\xfe", 422),
    ):
        answer = admin.post(f"{ARENA}/responses", content=body)
        assert answer.status_code == status, body
        assert answer.headers["content-type"] == "application/problem+json"
        assert "/tmp" not in answer.text
    with connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM events").fetchone() == before
    picture = line("new", kind="image", response="data:image/png;base64," + base64.b64encode(PNG).decode())
    assert admin.post(f"{ARENA}/responses", content=picture).json()["responses"] == 1
    shown = admin.get(f"{ARENA}/responses", params={"model": "new", "prompt": "prompt-0"})
    assert (shown.content, shown.headers["content-type"]) == (PNG, "image/png")
    assert shown.headers["content-security-policy"].startswith("sandbox")
    assert admin.post(f"{ARENA}/responses", content=picture).json()["unchanged"] == 1


def test_votes_are_excluded_by_the_names_of_a_release(admin, database):
    close_window(database)
    text = admin.get(f"{ARENA}/battles/exact", params={"release": "r"}).text
    voter = json.loads(text.splitlines()[0])["voter"]
    body = {"voters": [voter], "release": "r", "reason": "a bot"}
    made = admin.post(f"{ARENA}/exclusions", json=body)
    assert (made.status_code, made.json()["votes"]) == (201, text.count(voter))
    listed = admin.get(f"{ARENA}/exclusions").json()["exclusions"]
    assert [(one["exclusion"], one["restored"]) for one in listed] == [(made.json()["exclusion"], None)]
    restored = admin.post(f"{ARENA}/exclusions/{made.json()['exclusion']}/restore")
    assert restored.json()["position"] > made.json()["position"]
    for wrong, status in (
        ({"voters": [voter], "reason": "x"}, 422),
        ({"release": "r", "sessions": [1], "reason": "x"}, 422),
        (body | {"release": "other"}, 404),
        (body | {"sessions": [1]}, 422),
        ({"reason": "x"}, 422),
        ({"sessions": [1]}, 422),
        ({"sessions": [1], "reason": "  "}, 422),
        ({"sessions": [], "reason": "x"}, 422),
        ({"sessions": [2**63], "reason": "x"}, 422),
        ({"matchups": ["short"], "reason": "x"}, 404),
        ({"since": "2026-01-01T00:00:00", "reason": "x"}, 422),
        ({"sessions": [1], "reason": "x", "more": 1}, 422),
    ):
        assert admin.post(f"{ARENA}/exclusions", json=wrong).status_code == status, wrong


def test_the_audit_says_who_did_what(admin):
    admin.patch(ARENA, json={"title": "Renamed", "settings": {"undo_seconds": 4}})
    admin.post(f"{ARENA}/models/model-0/retire")
    admin.post(f"{ARENA}/complaints/1/settle")
    entries = admin.get(f"{ARENA}/audit").json()["entries"]
    assert [(one["actor"], one["action"]) for one in entries[:3]] == [
        ("token:admin", "settle complaint"),
        ("token:admin", "retire model"),
        ("token:admin", "change settings"),
    ]
    rest = admin.get(f"{ARENA}/audit", params={"before": entries[0]["entry"], "limit": 2}).json()["entries"]
    assert rest == entries[1:3]
    assert admin.get(ARENA).json()["title"] == "Renamed"


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", ARENAS, {"name": "Not A Name"}, 422),
        ("POST", ARENAS, {"name": "x", "settings": {"colour": 1}}, 422),
        ("POST", ARENAS, {"name": "x", "settings": {"visibility": []}}, 422),
        ("POST", ARENAS, {"name": "x", "policy": {"phase": 9}}, 422),
        ("POST", ARENAS, {"name": "x", "policy": {"tolerance": 1e400}}, 422),
        ("POST", ARENAS, {"name": "x", "title": "a\x00b"}, 422),
        ("POST", ARENAS, {"name": "x", "title": "\ud800"}, 422),
        ("PATCH", ARENA, {"settings": {"timezone": "\ud800"}}, 422),
        ("PATCH", ARENA, [], 422),
        ("PATCH", f"{ARENA}/policy", {"fairness": "\ud800"}, 422),
        ("PATCH", f"{ARENA}/policy", {"\ud800": 1}, 422),
        ("PATCH", f"{ARENA}/policy", [], 422),
        ("PATCH", f"{ARENA}/policy", {"phase": "4"}, 422),
        ("PATCH", f"{ARENAS}/nowhere", {"title": "x"}, 404),
        ("GET", f"{ARENAS}/nowhere/models", None, 404),
        ("GET", f"{ARENAS}/a%00b/models", None, 404),
        ("POST", f"{ARENA}/models/nobody/retire", None, 404),
        ("POST", f"{ARENA}/models/a%00b/retire", None, 404),
        ("POST", f"{ARENA}/exclusions/99/restore", None, 404),
        ("POST", f"{ARENA}/exclusions/99999999999999999999/restore", None, 422),
        ("POST", f"{ARENA}/withdrawals", {"prompt": "nothing", "reason": "x"}, 404),
        ("POST", f"{ARENA}/withdrawals", {"prompt": "prompt-0", "reason": "\x00"}, 422),
        ("GET", f"{ARENA}/responses?model=model-0", None, 422),
        ("GET", f"{ARENA}/responses?model=model-0&prompt=nothing", None, 404),
        ("GET", f"{ARENA}/prompts?limit=100000", None, 422),
        ("GET", f"{ARENA}/audit?before=-1", None, 422),
    ],
)
def test_hostile_requests_are_refused_in_plain_words(refused_admin, method, path, body, status):
    content = None if body is None else json.dumps(body)
    answer = refused_admin.request(
        method, path, content=content, headers={"content-type": "application/json"}
    )
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_an_arena_is_made_with_a_volatility_of_its_own(admin, running):
    for volatility, code in ((0.06, 201), (None, 201), (0, 422), (1.5, 422), ("high", 422)):
        body = {"name": f"by-{volatility}".replace(".", "-").lower(), "volatility": volatility}
        assert admin.post(ARENAS, json=body).status_code == code, volatility
    with connect(running.database) as connection:
        kept = connection.execute(
            "SELECT a.name, e.detail #>> '{rater,glicko2,initial_volatility}' FROM events e JOIN arenas a USING (arena) "
            "WHERE e.kind = 12 AND a.name LIKE 'by-%'"
        ).fetchall()
    assert {name: float(value) for name, value in kept} == {"by-0-06": 0.06, "by-none": 0.003}
