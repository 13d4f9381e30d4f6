"""Every route, for everybody, whatever comes of it: the answer tells browsers what they must not do."""

import re
import socket
from contextlib import closing

import pytest

from support.live_arenas import made_arena
from support.page_routes import page_routes
from support.postgres_servers import fresh_database
from support.served import make_token, served
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.settings.serving_settings import ServingSettings

#: What stands for the parameters of paths; 1 for others.
VALUES = {
    "arena": "arena",
    "model": "model-0",
    "matchup": "0-x",
    "sha256": "0" * 64,
    "form": "svg",
    "format": "csv",
}
#: Headers that every answer has once, and what they may say.
EXPECTED = {
    "cross-origin-opener-policy": r"same-origin",
    "cross-origin-resource-policy": r"same-origin|cross-origin",
    "permissions-policy": r".*camera=\(\).*microphone=\(\).*",
    "referrer-policy": r"no-referrer|same-origin",
    "strict-transport-security": r"max-age=31536000",
    "x-content-type-options": r"nosniff",
    "x-request-id": r"[\w-]+",
    "cache-control": r".+",
}
#: Boards may be shown in frames of other sites, by the arena's setting.
EMBEDDED = re.compile(r"/arenas/[^/]+/(embed|boards/[^/]+/card\.png)")


@pytest.fixture(scope="module")
def site(server, template):
    with fresh_database(server, template) as database:
        made_arena(database, settings=ArenaSettings(gate="none"))
        settings = ServingSettings(port=0, base_url="https://arena.example.org")
        with served(database, settings=settings) as running:
            yield running


def routes_of(site):
    """Methods and paths of all routes: pages, and those of the API."""
    described = site.client().get("/api/v1/openapi.json").json()["paths"]
    api = [(method.upper(), path) for path, methods in described.items() for method in methods]
    return sorted(
        {*page_routes(), *api, ("GET", "/assets/{name}"), ("GET", "/favicon.ico"), ("POST", "/nowhere")}
    )


def check(answer):
    where = f"{answer.request.method} {answer.request.url.path}: {answer.status_code}"
    assert answer.status_code < 500, where
    for name, pattern in EXPECTED.items():
        (value,) = answer.headers.get_list(name) or [""]
        assert re.fullmatch(pattern, value), f"{where}: {name}: {value!r}"
    (policy,) = answer.headers.get_list("content-security-policy") or [""]
    rules = {part.split()[0]: part.split()[1:] for part in policy.split(";")}
    assert "default-src" in rules, where
    assert rules["default-src"] == ["'none'"], where
    if "sandbox" not in rules:
        assert rules["base-uri"] == ["'none'"], where
        scripts = {*rules.get("script-src", []), *rules.get("style-src", [])}
        assert scripts <= {"'self'"}, where
        if not EMBEDDED.match(answer.request.url.path):
            assert rules["frame-ancestors"] == ["'none'"], where
    assert "server" not in answer.headers, where


def test_every_route_says_what_browsers_must_not_do(site):
    """By strangers with and without a session, as pages and as JSON; and read by an operator's program."""
    routes = routes_of(site)
    assert len(routes) > 150
    voter, program = site.client(), site.client(make_token(site.database, "admin"))
    voter.post("/api/v1/arenas/arena/matchups")
    statuses = set()
    for method, path in routes:
        address = re.sub(r"\{(\w+)(?::\w+)?\}", lambda found: VALUES.get(found[1], "1"), path)
        page = {"accept": "text/html"}
        answers = [voter.request(method, address, headers=page)]
        if method == "GET":
            answers += [program.get(address), program.get(address + "?page=x&q=%00", headers=page)]
        else:
            answers += [
                voter.request(method, address, json={"x": 1}, headers={"origin": "https://evil.example"})
            ]
        for answer in answers:
            check(answer)
            statuses.add(answer.status_code)
    assert {200, 303, 401, 403, 404, 405, 422} - statuses <= {405}


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\nX-Waste: " + b"x" * 70_000 + b"\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_no_request_gets_a_text_that_repeats_nothing(site, sent):
    host, _, port = site.url.removeprefix("http://").partition(":")
    with closing(socket.create_connection((host, int(port)), 30)) as client:
        client.sendall(sent)
        text = b""
        while part := client.recv(65_536):
            text += part
    assert text.startswith(b"HTTP/1.1 400 ")
    assert b"content-type: text/plain" in text
    assert len(text) < 200
