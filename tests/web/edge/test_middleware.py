"""The edge: cookies, headers, sizes, other sites' pages, and every refusal as a problem document."""

import socket
import time
from contextlib import closing
from http.client import HTTPConnection

import pytest

from support.live_arenas import made_arena
from support.matchup_texts import stored_id
from support.served import SECRET, make_operator, make_token, served
from tiltyard.arena.accounts import GateResult
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.errors import StoreFault
from tiltyard.foundation.caches import BoundedCache
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.web.access.cookies import (
    OPERATOR_COOKIE,
    VOTER_COOKIE,
    VOTER_COOKIE_LIFETIME,
    Cookies,
    make_voter_token,
    read_voter_token,
)
from tiltyard.web.edge.middleware import MAX_BODY_BYTES, MAX_IMPORT_BYTES, MAX_UPLOAD_FORM_BYTES

ASK = "/api/v1/arenas/arena/matchups"


def cookie_of(answer, name=VOTER_COOKIE):
    return answer.cookies[name]


def with_cookie(site, value, name=VOTER_COOKIE):
    return site.client(cookies={name: value})


def test_a_session_is_a_signed_cookie_that_pages_cannot_read(shared):
    answer = shared.client().post(ASK)
    stated = answer.headers["set-cookie"]
    assert "; HttpOnly; SameSite=Lax" in stated
    assert "Path=/" in stated
    assert "Secure" not in stated
    token = Cookies(SecretKeys([SECRET]), secure=False).unseal(VOTER_COOKIE, cookie_of(answer))
    assert token is not None


def test_a_cookie_that_we_did_not_sign_is_overlooked(shared):
    mine = shared.client().post(ASK)
    good = cookie_of(mine)
    token, _, signature = good.partition(".")
    sealed = Cookies(SecretKeys([SECRET]), secure=False)
    for value in (
        token,
        token + ".",
        f"{token}.{signature[:-2]}",
        f"{token}x.{signature}",
        f"{token}.{signature}=",
        "." + signature,
        "x" * 5000,
        sealed.seal(OPERATOR_COOKIE, token),
        sealed.seal(VOTER_COOKIE, "unknown"),
        Cookies(SecretKeys(["another key that is long enough, too"]), secure=False).seal(VOTER_COOKIE, token),
    ):
        client = with_cookie(shared, value)
        assert client.get(ASK).json() == {"matchups": []}
        answer = client.post(ASK)
        assert answer.status_code == 201, value
        assert cookie_of(answer) != value
    assert with_cookie(shared, good).post(ASK).json() == mine.json()


def test_a_rotated_key_keeps_sessions_until_the_old_one_goes(database):
    old, new = "the old key, which is long enough", "the new key, which is long enough"
    made_arena(database)
    with served(database, keys=SecretKeys([old])) as site:
        before = site.client().post(ASK)
    with served(database, keys=SecretKeys([new, old])) as site:
        again = with_cookie(site, cookie_of(before)).post(ASK)
        assert stored_id(again.json()["matchup"]) == stored_id(before.json()["matchup"])
        during = site.client().post(ASK)
    with served(database, keys=SecretKeys([new])) as site:
        assert with_cookie(site, cookie_of(during)).post(ASK).json() == during.json()
        assert with_cookie(site, cookie_of(before)).get(ASK).json() == {"matchups": []}


def test_a_revoked_session_is_nobodys(site):
    client = site.client()
    answer = client.post(ASK)
    token = Cookies(SecretKeys([SECRET]), secure=False).unseal(VOTER_COOKIE, cookie_of(answer))
    session, _ = read_voter_token(token, time.time())
    site.run(site.context.access.accounts.revoke_session("cli", session))
    site.context.access.forget()
    assert client.get(ASK).json() == {"matchups": []}
    assert client.get(answer.json()["responses"]["a"]["url"]).status_code == 404
    another = client.post(ASK)
    assert another.status_code == 201
    assert cookie_of(another) != cookie_of(answer)


def test_a_visitor_leaves_no_row_and_a_check_costs_no_query(site):
    """With the table of sessions gone, voters come and go as long as the process knows what is revoked."""
    client = site.client()
    mine = client.post(ASK).json()
    assert client.get(ASK).json()["matchups"] == [mine]
    with connect(site.database) as connection:
        assert connection.execute("SELECT count(*) FROM sessions").fetchone() == (0,)
        connection.execute("ALTER TABLE sessions RENAME TO gone")
    revoked = site.context.access._revoked
    revoked._known = BoundedCache(1)
    revoked._known.put("all", frozenset())
    assert client.get(ASK).json()["matchups"] == [mine]
    assert site.client().post(ASK).status_code == 201
    revoked.forget()
    assert client.get(ASK).status_code == 503


def test_a_cookie_is_refused_when_it_is_older_than_it_may_be():
    now = 1_800_000_000.0
    days = VOTER_COOKIE_LIFETIME.total_seconds()
    token = make_voter_token(2**63 - 1, now)
    assert read_voter_token(token, now) == (2**63 - 1, GateResult.NONE)
    assert read_voter_token(token, now + days - 1) == (2**63 - 1, GateResult.NONE)
    assert read_voter_token(token, now + days) is None
    assert read_voter_token(token[:-1], now) is None
    passed = make_voter_token(2**63 - 1, now, GateResult.PASSED)
    assert passed == "An" + token[2:]
    assert read_voter_token(passed, now) == (2**63 - 1, GateResult.PASSED)
    assert read_voter_token("BH" + token[2:], now) is None, "another version"


def test_under_https_cookies_are_secure_and_browsers_stay(database):
    made_arena(database, settings=ArenaSettings(gate="none"))
    settings = ServingSettings(base_url="https://arena.example.org")
    with served(database, settings=settings) as site:
        answer = site.client().post(ASK)
        assert answer.headers["set-cookie"].endswith("; Secure")
        assert answer.headers["strict-transport-security"] == "max-age=31536000"


def test_under_https_no_other_site_of_the_domain_can_set_our_cookies(database):
    made_arena(database, settings=ArenaSettings(gate="none"))
    settings = ServingSettings(base_url="https://arena.example.org")
    with served(database, settings=settings) as site:

        def ask(cookie):
            answer = site.client().post(ASK, headers={"cookie": cookie})
            return answer.json()["matchup"], answer.headers.get("set-cookie", "")

        first, stated = ask("")
        assert stated.startswith(f"__Host-{VOTER_COOKIE}=")
        assert {"Path=/", "Secure"} <= set(stated.split("; "))
        assert "Domain" not in stated
        new = stated.partition(";")[0]
        assert ask(new) == (first, "")
        # What another site of the domain may have set is no session.
        other = ask("")[1].partition(";")[0].removeprefix("__Host-")
        assert ask(other)[1].startswith(f"__Host-{VOTER_COOKIE}=")
        assert ask(f"{other}; {new}") == (first, "")


def test_every_answer_carries_the_headers(shared):
    client = shared.client()
    answers = [
        client.get("/healthz"),
        client.post(ASK),
        client.get("/nowhere"),
        client.post(ASK, content=b"x" * 2_000_000),
        client.delete("/healthz"),
        client.get("/api/v1/openapi.json"),
    ]
    assert [answer.status_code for answer in answers] == [200, 201, 404, 413, 405, 200]
    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "frame-ancestors" in answer.headers["content-security-policy"]
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in answer.headers
        assert "strict-transport-security" not in answer.headers


def test_a_header_that_a_page_sets_itself_is_sent_once(shared):
    answer = shared.client().get("/operator/sign-in")
    policies = answer.headers.get_list("content-security-policy")
    assert len(policies) == 1
    assert "script-src 'self'" in policies[0]


def test_refusals_are_problem_documents(shared):
    client = shared.client()
    for method, path, status, name in (
        ("GET", "/nowhere", 404, "not-found"),
        ("DELETE", ASK, 405, "method-not-allowed"),
        ("GET", "/api/v1/arenas/none/matchups", 404, "not-found"),
        ("GET", "/api/v1/me", 401, "not-allowed"),
        ("POST", "/api/v1/arenas/arena/exclusions/zero/restore", 401, "not-allowed"),
        ("GET", f"{ASK}/", 404, "not-found"),
    ):
        answer = client.request(method, path)
        assert answer.headers["content-type"] == "application/problem+json"
        told = answer.json()
        assert (answer.status_code, told["status"], told["type"]) == (
            status,
            status,
            f"urn:tiltyard:problem:{name}",
        )
        assert {"title", "detail", "instance"} < set(told)
    assert client.get("/api/v1/me").headers["www-authenticate"].startswith("Bearer")


def test_an_unexpected_error_is_answered_without_details(site, monkeypatch):
    async def broken(*_):
        raise RuntimeError("secret detail")

    monkeypatch.setattr(site.registry, "voting_queue_of", broken)
    monkeypatch.setattr(site.context.access.accounts, "sign_in", broken)
    client = site.client()
    matchup = client.post(ASK).json()["matchup"]
    sign_in = ("/operator/sign-in", {"name": "x", "password": "y"})
    for path, body in ((f"/api/v1/matchups/{matchup}/skip", None), sign_in):
        answer = client.post(path, data=body)
        assert answer.status_code == 500
        assert answer.headers["content-type"] == "application/problem+json"
        assert "secret" not in answer.text
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_database_that_does_not_answer_is_503_and_later(shared, monkeypatch):
    async def broken(*_):
        raise StoreFault("cannot reach 10.9.8.7")

    monkeypatch.setattr(shared.registry, "voting_queue", broken)
    answer = shared.client().post(ASK)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert "10.9.8.7" not in answer.text


def test_a_page_of_another_site_can_do_nothing(site):
    make_operator(site.database)
    token = make_token(site.database, "admin")
    own, client = site.url, site.client()
    for headers, status in (
        ({}, 201),
        ({"origin": own}, 200),
        ({"origin": own.upper()}, 200),
        ({"sec-fetch-site": "same-origin", "origin": own}, 200),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": own + "0"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site", "origin": own}, 403),
    ):
        assert client.post(ASK, headers=headers).status_code == status, headers
    body = {"name": "Ada", "password": "correct horse battery"}
    evil = {"origin": "https://evil.example"}
    assert client.post("/operator/sign-in", data=body, headers=evil).status_code == 403
    # A token acts alone; beside cookies it opens nothing to a page elsewhere.
    for sender, status in ((client, 403), (site.client(), 201)):
        headers = {**evil, "authorization": f"Bearer {token}"}
        made = sender.post("/api/v1/arenas", json={"name": "another"}, headers=headers)
        assert made.status_code == status


def test_without_a_base_url_other_names_do_not_lead_here(shared):
    client = shared.client()
    for host, status in (
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("[::1]:80", 200),
        ("localhost:1", 200),
        ("LOCALHOST", 200),
        ("[", 403),
        ("", 403),
    ):
        assert client.get(ASK, headers={"host": host}).status_code == status, host
    assert client.get("/healthz", headers={"host": "10.0.0.7:8420"}).status_code == 200


def test_a_body_that_is_too_large_is_refused_however_it_comes(shared):
    client = shared.client()
    matchup = client.post(ASK).json()["matchup"]
    where = f"/api/v1/matchups/{matchup}/vote"
    large = b" " * (MAX_BODY_BYTES + 1)

    def pieces():
        for _ in range(20):
            yield b" " * (MAX_BODY_BYTES // 10)

    kind = {"content-type": "application/json"}
    assert client.post(where, content=large, headers=kind).status_code == 413
    assert client.post(where, content=pieces(), headers=kind).status_code == 413
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert client.post("/operator/sign-in", content=pieces(), headers=form).status_code == 413
    assert client.post(where, json={"winner": "tie"}).status_code == 200


@pytest.mark.parametrize(
    ("request_line", "headers", "status"),
    [
        ("POST /api/v1/arenas/arena/responses", "", 413),
        ("POST /api/v1/arenas/arena/responses", "Cookie: tiltyard_session=x", 413),
        ("POST /api/v1/arenas/arena/responses", "Authorization: Bearer tyt_garbage", 401),
        ("POST /api/v1/arenas/arena/responses", "Cookie: a=b; tiltyard_operator=garbage", 401),
        ("PATCH /api/v1/arenas/arena/responses", "Authorization: Bearer x", 413),
        ("PATCH /api/v1/arenas/responses", "Authorization: Bearer x", 413),
        ("POST /claim/responses", "Authorization: Bearer x", 413),
        ("POST /api/v1/arenas/a%2fb/responses", "Authorization: Bearer x", 413),
        ("POST /api/v1/arenas/arena/models/x/responses", "Authorization: Bearer x", 413),
        ("POST /api/v1/arenas/arena/responses/", "Authorization: Bearer x", 413),
        ("POST /api/v1/arenas/arena/responses%0a", "Authorization: Bearer x", 413),
    ],
)
@pytest.mark.parametrize("length", [MAX_BODY_BYTES + 1, MAX_IMPORT_BYTES])
def test_a_large_body_is_refused_before_it_comes_unless_it_may_be_answers(
    shared, request_line, headers, status, length
):
    host, port = shared.url.removeprefix("http://").split(":")
    lines = (f"{request_line} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {length}", headers)
    with socket.create_connection((host, int(port)), timeout=60) as raw:
        raw.sendall("\r\n".join([line for line in lines if line]).encode() + b"\r\n\r\n")
        assert raw.recv(100).split()[1] == str(status).encode()


@pytest.mark.parametrize(
    ("path", "accept", "page"),
    [
        ("/operator/arenas/arena/uploads", "text/html,*/*", True),
        ("/operator/arenas/arena/uploads", "*/*", False),
        ("/theme", "text/html,*/*", True),
        ("/api/v1/arenas", "text/html,*/*", False),
    ],
)
def test_a_browser_is_told_by_a_page_that_a_body_is_too_large(shared, path, accept, page):
    with closing(HTTPConnection(shared.url.removeprefix("http://"), timeout=60)) as line:
        line.putrequest("POST", path)
        for name, value in (
            ("Accept", accept),
            ("Content-Length", MAX_UPLOAD_FORM_BYTES + 1),
            ("Cookie", f"{OPERATOR_COOKIE}=garbage"),
        ):
            line.putheader(name, value)
        line.endheaders()
        answer = line.getresponse()
        told = answer.read().decode()
    assert answer.status == 413
    assert answer.headers["content-type"].startswith("text/html") == page
    assert ("Split it" in told) == path.endswith("uploads")
    assert answer.headers["cache-control"] == "no-store"


def test_answers_may_be_larger_than_other_bodies_but_not_from_nobody(site):
    body = b"\n" * (MAX_BODY_BYTES + 1)
    where = "/api/v1/arenas/arena/responses"
    answer = site.client(make_token(site.database, "import")).post(where, content=body)
    assert answer.status_code != 413

    def pieces():
        for _ in range(20):
            yield b"\n" * (MAX_BODY_BYTES // 10)

    assert site.client().post(where, content=pieces()).status_code in {401, 413}


def test_a_length_that_is_no_number_is_refused(shared):
    host, port = shared.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as raw:
        raw.sendall(b"POST /api/v1/me HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: many\r\n\r\n")
        assert raw.recv(100).split()[1] in {b"400", b"413"}


@pytest.mark.parametrize("path", ["/m/%2e%2e/a", "/m//a", "/m/a", "/api/v1/matchups//vote", "/m/x%2fy/a"])
def test_a_strange_path_is_not_found(shared, path):
    assert shared.client().get(path).status_code in {404, 405}
