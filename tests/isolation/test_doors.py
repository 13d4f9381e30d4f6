"""Tokens, cookies, ids and names in the wrong hands or the wrong shape: refused, and nothing breaks."""

import json
import secrets
import socket
import string
import time
from urllib.parse import quote

import pytest

from support.live_arenas import made_arena
from support.matchup_texts import stored_id
from support.plausible import HOSTILE
from support.postgres_servers import fresh_database
from support.served import PASSWORD, make_operator, make_token, served
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.arena.voting.matchup_ids import new_matchup_id
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.web.access.cookies import OPERATOR_COOKIE, VOTER_COOKIE

ASK = "/api/v1/arenas/arena/matchups"
ALPHABET = string.ascii_letters + string.digits + "-_"
ACTS = {
    "show": None,
    "vote": {"winner": "tie"},
    "skip": None,
    "undo": None,
    "reveal": None,
    "report": {"reason": "other"},
}


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    with fresh_database(server, template) as database:
        made_arena(database)
        made_arena(database, name="second")
        made_arena(database, name="shut", settings=ArenaSettings(visibility="closed"))
        make_operator(database)
        with served(database, folder=tmp_path_factory.mktemp("responses")) as running:
            yield running


@pytest.fixture(scope="module")
def admin(site):
    return site.client(make_token(site.database, "admin"))


def ask(client, arena="arena", **body):
    answer = client.post(f"/api/v1/arenas/{arena}/matchups", json=body)
    assert answer.status_code in {200, 201}, answer.text
    return answer.json()["matchup"]


def everything(client, matchup):
    """What becomes of each thing that can be done with a matchup: statuses."""
    sides = [client.get(f"/m/{quote(matchup)}/{side}") for side in "ab"]
    acts = [client.post(f"/api/v1/matchups/{quote(matchup)}/{act}", json=body) for act, body in ACTS.items()]
    return {answer.status_code for answer in (*sides, *acts)}


def test_a_matchup_id_has_one_spelling(site):
    client = site.client()
    matchup = ask(client)
    found = stored_id(matchup)
    others = [
        matchup[:k] + c + matchup[k + 1 :] for k in (0, 1, 5, 10, 33) for c in ALPHABET if c != matchup[k]
    ]
    others += [matchup[:-1], matchup + "A", matchup + "==", matchup.swapcase(), str(found), found.hex]
    others += [f" {matchup}", f"{matchup} ", matchup + "\u0000", matchup + "\r\n", f"{matchup}%00"]
    others += [secrets.token_urlsafe(16) for _ in range(100)]
    for other in others:
        answer = client.get(f"/m/{quote(other)}/a")
        assert answer.status_code == 404, other
        assert answer.json()["type"] == "urn:tiltyard:problem:not-found"
    assert client.get(f"/m/{matchup}/a").status_code == 200


def test_ids_are_not_guessed_from_others():
    """Beside shard and arena 80 random bits: none comes twice, and every bit is set about half the time."""
    found = [new_matchup_id(3, 7).int for _ in range(2000)]
    assert len(set(found)) == len(found)
    assert {one >> 80 for one in found} == {3 << 32 | 7}
    for bit in range(80):
        assert 850 <= sum(one >> bit & 1 for one in found) <= 1150, bit


def test_a_matchup_is_its_own_voters_alone(site):
    owner = site.client()
    matchup = ask(owner)
    judge_elsewhere = site.client(make_token(site.database, "judge", arena="second"))
    ask(judge_elsewhere, "second")
    operator = site.client()
    operator.post("/operator/sign-in", data={"name": "Ada", "password": PASSWORD})
    for stranger in (site.client(), site.client(make_token(site.database, "judge")), operator):
        assert everything(stranger, matchup) == {404}
    tokens = [make_token(site.database, scope) for scope in ("read", "admin", "import")]
    for program in (judge_elsewhere, *map(site.client, tokens)):
        assert everything(program, matchup) == {403}
    assert owner.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": "tie"}).status_code == 200


def test_a_judges_token_for_one_arena_is_none_for_another(site):
    judge = site.client(make_token(site.database, "judge", arena="second"))
    assert judge.post(ASK).status_code == 403
    assert judge.get(ASK).status_code == 403
    assert judge.post("/api/v1/arenas/shut/matchups").status_code == 404
    assert judge.post("/api/v1/arenas/second/matchups").status_code == 201


def test_what_was_served_in_a_closed_arena_is_gone_with_the_right_to_it(site):
    token = make_token(site.database, "judge", arena="shut", name="for a while")
    inside = site.client(token)
    matchup = ask(inside, "shut")
    assert inside.get(f"/m/{matchup}/a").status_code == 200
    outside = site.client()
    ask(outside)
    assert everything(outside, matchup) == {404}
    with connect(site.database) as connection:
        connection.execute("UPDATE api_tokens SET revoked_at = now() WHERE name = 'for a while'")
    site.context.access.forget()
    assert everything(inside, matchup) == {401}


def test_a_lapsed_token_is_none(site):
    token = make_token(site.database, "admin", name="short")
    client = site.client(token)
    assert client.get("/api/v1/me").status_code == 200
    with connect(site.database) as connection:
        connection.execute("UPDATE api_tokens SET expires_at = now() WHERE name = 'short'")
    site.context.access.forget()
    for method, path in (
        ("GET", "/api/v1/me"),
        ("GET", "/api/v1/arenas"),
        ("POST", ASK),
        ("GET", "/metrics"),
    ):
        assert client.request(method, path).status_code == 401, path


def test_tokens_that_are_nearly_right_are_wrong(site):
    token = make_token(site.database, "admin")
    wrong = [token[:-1], token + "A", token.swapcase(), f"{token} {token}", token[:4], "x" * 10_000]
    wrong += [token[:k] + ("A" if token[k] != "A" else "B") + token[k + 1 :] for k in range(4, len(token), 7)]
    for one in wrong:
        assert site.client(one).get("/api/v1/me").status_code == 401
    for stated in (token, f"Basic {token}", f"Token {token}", "Bearer", f"Bearer\t{token}", "é"):
        headers = {"authorization": stated.encode("latin-1")}
        assert site.client().get("/api/v1/me", headers=headers).status_code == 401, stated
    assert site.client().get("/api/v1/me", headers={"authorization": f"bearer {token}"}).status_code == 200


def test_a_cookie_of_another_house_and_one_under_another_name_are_nothing(site, server, template, tmp_path):
    with fresh_database(server, template) as database:
        made_arena(database)
        make_operator(database)
        other_key = SecretKeys(["another secret that is long enough"])
        with served(database, folder=tmp_path, keys=other_key) as other:
            voter, operator = other.client(), other.client()
            matchup = ask(voter)
            operator.post("/operator/sign-in", data={"name": "Ada", "password": PASSWORD})
            cookies = {
                VOTER_COOKIE: voter.cookies[VOTER_COOKIE],
                OPERATOR_COOKIE: operator.cookies[OPERATOR_COOKIE],
            }
    here = site.client(cookies=cookies)
    assert here.get("/api/v1/me").status_code == 401
    assert everything(here, matchup) == {404}
    mine = site.client()
    ask(mine)
    swapped = site.client(cookies={OPERATOR_COOKIE: mine.cookies[VOTER_COOKIE]})
    assert swapped.get("/api/v1/me").status_code == 401


def test_votes_sent_again_by_whoever_overheard_them_change_nothing(site):
    """Replay: the same request with the same cookie gives the same answer; with another cookie, none.

    Once the vote was undone, its request is one for a ballot of the past, though the matchup is open.
    """
    client = site.client()
    matchup = ask(client)
    sent = {"url": f"/api/v1/matchups/{matchup}/vote", "json": {"winner": "model_a"}}
    first = client.post(**sent)
    assert [client.post(**sent).json() for _ in range(5)] == [first.json()] * 5
    assert site.client().post(**sent).status_code == 404
    undone = client.post(f"/api/v1/matchups/{matchup}/undo")
    assert undone.status_code == 200
    assert client.post(**sent).status_code == 409
    with connect(site.database) as connection:
        (votes,) = connection.execute(
            "SELECT count(*) FROM battles JOIN matchups USING (arena, source, serial) WHERE matchup = %s",
            (stored_id(matchup),),
        ).fetchone()
    assert votes == 0


@pytest.mark.slow(but_every=3)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_refused_or_harmless_wherever_it_stands(site, admin, name):
    answers = {"prompt_id": name, "prompt": name, "model": name, "response": name, "category": name}
    lines = json.dumps(answers).encode()
    told = [
        admin.post(
            "/api/v1/arenas", content=json.dumps({"name": name, "title": name}).encode(), headers=JSON
        ),
        admin.patch("/api/v1/arenas/arena", content=json.dumps({"title": name}).encode(), headers=JSON),
        admin.patch(
            "/api/v1/arenas/arena", content=json.dumps({"settings": {name: name}}).encode(), headers=JSON
        ),
        admin.patch("/api/v1/arenas/arena/policy", content=json.dumps({name: name}).encode(), headers=JSON),
        admin.post("/api/v1/arenas/second/responses", content=lines, headers=NDJSON),
    ]
    spelled = quote(name, safe="", errors="surrogatepass")
    for arena in ("arena", spelled):
        told.append(admin.get(f"/api/v1/arenas/{arena}/models/{spelled}"))
        told.append(admin.post(f"/api/v1/arenas/{arena}/models/{spelled}/enable"))
        told.append(admin.get(f"/api/v1/arenas/{arena}/responses?model={spelled}&prompt={spelled}"))
        told.append(admin.get(f"/api/v1/arenas/{arena}/board?category={spelled}&language={spelled}"))
        told.append(admin.get(f"/api/v1/arenas/{arena}/battles/exact?release={spelled}"))
    for answer in told:
        assert answer.status_code < 500, (answer.request.url, answer.text)
        assert "x" not in answer.cookies
        assert "\n" not in str(dict(answer.headers).values())
    assert admin.get("/api/v1/arenas/second/models").status_code == 200
    assert admin.get("/api/v1/arenas/second/prompts").status_code == 200
    voter = site.client()
    shown = voter.post("/api/v1/arenas/second/matchups").json()
    assert voter.get(shown["responses"]["a"]["url"]).status_code == 200


JSON = {"content-type": "application/json"}
NDJSON = {"content-type": "application/x-ndjson"}


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/arenas/../../etc/passwd",
        "/api/v1/arenas/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/api/v1/arenas/arena/snapshots/..%2f..%2fsecret.key",
        "/api/v1/arenas/arena/models/..%2f..%2fsecret.key",
        "/m/%2e%2e%2fsecret.key/a",
        "/claim/..%2f..%2fsecret.key",
        "//etc/passwd",
        "/\u0000",
        "/%ff%fe",
        "/" + "a" * 60_000,
    ],
)
def test_no_path_leads_out(site, path):
    answer = raw(site, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
    assert answer.split(b" ")[1][:1] == b"4", answer[:100]
    assert b"root:" not in answer


def raw(site, request, wait=10.0):
    """What the server says to these bytes."""
    host, port = site.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=wait) as connection:
        connection.sendall(request)
        found = b""
        while piece := connection.recv(65536):
            found += piece
    return found


@pytest.mark.parametrize(
    "head",
    [
        b"X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil.example",
        b"Cookie: tiltyard_session=a\x00b",
        b"Cookie: " + b"tiltyard_session=x; " * 500,
        b"Cookie: tiltyard_session=\xff\xfe.\xff",
        b"Authorization: Bearer \xff\xfe",
        b"Authorization: Bearer tyt_a\tb",
        b"Origin: null",
        b"Origin: \xff",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5",
        b"Content-Length: 5\r\nContent-Length: 6",
        b"Content-Length: -1",
        b"Content-Length: 99999999999999999999",
        b"Expect: 100-continue",
        b"X-Evil: a\r\n Folded: b",
        b"X-Long: " + b"a" * 70_000,
    ],
)
def test_strange_headers_break_nothing(site, head):
    request = (
        b"POST "
        + ASK.encode()
        + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        + head
        + b"\r\nConnection: close\r\n\r\n"
    )
    try:
        answer = raw(site, request, wait=3.0)
    except TimeoutError:
        answer = b"HTTP/1.1 408 it waits for the body that was announced"
    assert not answer.startswith(b"HTTP/1.1 5"), answer[:300]
    assert b"evil.example" not in answer
    assert site.client().get("/healthz").status_code == 200


def test_many_who_never_finish_their_requests_keep_nobody_waiting(site):
    """Two hundred half requests, headers and bodies: others are served as ever."""
    host, port = site.url.removeprefix("http://").split(":")
    halves = [
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
        b"POST " + ASK.encode() + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{",
    ]
    slow = []
    try:
        for k in range(200):
            slow.append(socket.create_connection((host, int(port)), timeout=10))
            slow[-1].sendall(halves[k % 2])
        client, began = site.client(), time.monotonic()
        for _ in range(20):
            matchup = ask(client)
            assert client.post(f"/api/v1/matchups/{matchup}/skip").status_code == 200
        assert time.monotonic() - began < 60
    finally:
        for connection in slow:
            connection.close()


def test_a_body_in_every_wrong_form_is_refused(admin):
    """Depth, numbers that are none, half surrogates, and JSON that is no object."""
    bodies = [
        b"[" * 50_000,
        b'{"a":' * 50_000,
        b'{"name": "x", "settings": {"undo_seconds": NaN}}',
        b'{"name": "x", "settings": {"undo_seconds": Infinity}}',
        b'{"name": "x", "settings": {"undo_seconds": 1e999}}',
        b'{"name": "x", "policy": {"window": 1' + b"0" * 5_000 + b"}}",
        b'{"name": "x", "title": "\\ud800"}',
        b'{"name": "x", "settings": {"timezone": "\\ud800"}}',
        b'{"name": "x", "policy": {"\\ud800": 1}}',
        b'{"name": "x", "name": "y", "title": null, "settings": null}',
        b'"x"',
        b"[]",
        b"null",
        b"",
        b"\xff\xfe\x00",
    ]
    for body in bodies:
        for method, path in (("POST", "/api/v1/arenas"), ("PATCH", "/api/v1/arenas/arena/policy")):
            answer = admin.request(method, path, content=body, headers=JSON)
            assert 400 <= answer.status_code < 500, (path, body[:60], answer.text[:200])
            assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("name", ["window", "sessions_kept", "meetings", "both_bad_over", "session_pairs"])
def test_no_policy_makes_an_arena_that_cannot_be_held_in_memory(site, admin, name):
    for value in (2**53, 2**31, 10**9):
        made = admin.post(
            "/api/v1/arenas", json={"name": f"vast-{name.replace('_', '-')}", "policy": {name: value}}
        )
        if made.status_code == 201:
            arena = made.json()["arena"]
            asked = site.client().post(f"/api/v1/arenas/{arena}/matchups")
            assert asked.status_code == 409, asked.text
            return
        assert made.status_code == 422, made.text
