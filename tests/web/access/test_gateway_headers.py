"""The headers of a gateway: believed from named networks only, and spelled in one way."""

import socket
from urllib.parse import urlsplit

import pytest

from support.live_arenas import made_arena
from support.postgres_servers import fresh_database
from support.served import served
from tiltyard.foundation.telemetry import REFUSED_IDENTITY_HEADERS, recording
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.settings.serving_settings import GroupRole, ServingSettings, SignInSettings

HTML = {"accept": "text/html"}
VOTE = "/arenas/arena/vote"
ADA = {"X-Forwarded-User": "ada", "X-Forwarded-Groups": "judges, staff"}


@pytest.fixture(scope="module")
def database(server, template):
    with fresh_database(server, template) as made:
        made_arena(made, settings=ArenaSettings(entry="sign-in", entry_groups="judges"))
        made_arena(made, name="public")
        yield made


def serving(database, tmp_path_factory, *networks, trusted=(), **more):
    return served(
        database,
        folder=tmp_path_factory.mktemp("blobs"),
        settings=ServingSettings(port=0, trusted_proxies=trusted),
        sign_in=SignInSettings(proxy_networks=networks, **more),
    )


@pytest.fixture(scope="module")
def site(database, tmp_path_factory):
    """The test is the gateway."""
    with serving(database, tmp_path_factory, "127.0.0.0/8", trusted=("127.0.0.1",)) as running:
        yield running


@pytest.fixture(scope="module")
def elsewhere(database, tmp_path_factory):
    """The gateway is another machine; the test is not, but behind a proxy that is trusted for addresses."""
    with serving(database, tmp_path_factory, "10.0.0.0/8", trusted=("127.0.0.1",)) as running:
        yield running


@pytest.fixture
def refused():
    counted = []

    def record(instrument, _, values):
        if instrument is REFUSED_IDENTITY_HEADERS:
            counted.extend(values)

    with recording(record):
        yield counted


def named(site, user):
    """A browser behind the gateway, which names this user."""
    client = site.client()
    client.headers.update(ADA | {"X-Forwarded-User": user})
    return client


def ask(site, *headers, path=VOTE):
    """The status for these headers, byte by byte."""
    parts = urlsplit(site.url)
    lines = [
        f"GET {path} HTTP/1.1".encode(),
        f"Host: {parts.netloc}".encode(),
        b"Connection: close",
        *headers,
    ]
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
        connection.sendall(b"\r\n".join(lines) + b"\r\n\r\n")
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return int(answer.split(b" ", 2)[1])


def test_whom_the_gateway_names_comes_in_and_votes_as_one_voter(site, refused):
    first, second = named(site, "ada"), named(site, "ada")
    assert first.get(VOTE, headers=HTML).status_code == 200
    matchup = first.post("/api/v1/arenas/arena/matchups", json={}).json()["matchup"]
    assert second.post("/api/v1/arenas/arena/matchups", json={}).json()["matchup"] == matchup
    assert second.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": "tie"}).status_code == 200
    other = named(site, "grace")
    assert other.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": "tie"}).status_code == 404
    with connect(site.database) as connection:
        names = {row[0] for row in connection.execute("SELECT name FROM people").fetchall()}
    assert {"ada", "grace"} <= names
    account = first.get("/sign-in/0/account", headers=HTML)
    assert "through your organisation" in account.text
    assert "<button" not in account.text.partition("<main")[2].partition("</main")[0]
    assert first.get("/sign-in/0", params={"next": VOTE}).headers["location"] == VOTE
    assert site.client().get("/sign-in/0").status_code == 404
    assert refused == []


def test_groups_are_those_of_each_request(site):
    client = site.client()
    assert client.get(VOTE, headers=ADA).status_code == 200
    for groups in ("", "staff", "judge", "Judges", "judges staff"):
        assert client.get(VOTE, headers=ADA | {"X-Forwarded-Groups": groups}).status_code == 403
    answer = client.get(VOTE, headers=HTML | {"X-Forwarded-User": "ada"})
    assert answer.status_code == 403
    assert "your groups" in answer.text


def test_strangers_whom_the_gateway_lets_through_are_strangers(site, refused):
    client = site.client()
    assert client.get("/arenas/public/vote", headers={"X-Forwarded-User": ""}).status_code == 200
    for headers in ({}, {"X-Forwarded-User": ""}, {"X-Forwarded-Groups": "judges"}):
        assert client.get(VOTE, headers=headers).status_code == 403
    assert refused == []


def test_a_header_from_elsewhere_is_as_if_it_were_not_there_and_counted(elsewhere, refused):
    client = elsewhere.client()
    assert client.get(VOTE, headers=ADA).status_code == 403
    assert client.get("/arenas/public/vote", headers=ADA).status_code == 200
    assert refused == ["network"]


@pytest.mark.parametrize(
    "forwarded",
    [
        {"X-Forwarded-For": "10.0.0.7"},
        {"X-Forwarded-For": "10.0.0.7, 10.0.0.7"},
        {"X-Real-IP": "10.0.0.7"},
        {"Forwarded": "for=10.0.0.7"},
        {"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "10.0.0.7"},
    ],
)
def test_no_header_makes_another_address(elsewhere, forwarded):
    """Also not behind a proxy whose X-Forwarded-For is believed otherwise."""
    assert elsewhere.client().get(VOTE, headers=ADA | forwarded).status_code == 403


@pytest.mark.parametrize(
    "forwarded", [{"X-Forwarded-For": "203.0.113.9"}, {"X-Forwarded-For": "not an address"}]
)
def test_the_gateway_is_the_socket_whomever_it_forwards(site, forwarded):
    assert site.client().get(VOTE, headers=ADA | forwarded).status_code == 200


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ([b"X_Forwarded_User: ada", b"X-Forwarded-Groups: judges"], None),
        ([b"X-Forwarded_User: ada", b"X_Forwarded-Groups: judges"], None),
        ([b"XForwardedUser: ada"], None),
        ([b"X-Forwarded-User : ada", b"X-Forwarded-Groups: judges"], None),
        ([b"X-Forwarded-User: ada", b"X-Forwarded-User: ada", b"X-Forwarded-Groups: judges"], "repeated"),
        ([b"X-Forwarded-User: ada", b"x-forwarded-user: mallory", b"X-Forwarded-Groups: judges"], "repeated"),
        ([b"X-Forwarded-User: ada", b"X-Forwarded-Groups: staff", b"X-Forwarded-Groups: judges"], "repeated"),
        ([b"X-Forwarded-User: ada", b"X_Forwarded_Groups: judges"], None),
        ([b"X-Forwarded-User: \xff\xfe", b"X-Forwarded-Groups: judges"], "value"),
        ([b"X-Forwarded-User: " + b"a" * 300, b"X-Forwarded-Groups: judges"], "value"),
        ([b"X-Forwarded-User: a\tb", b"X-Forwarded-Groups: judges"], "value"),
    ],
)
def test_other_spellings_name_nobody(site, refused, headers, reason):
    assert ask(site, *headers) in {400, 403}
    assert refused == ([] if reason is None else [reason])


def test_the_usual_spellings_name_somebody(site):
    assert ask(site, b"x-forwarded-user: ada", b"X-FORWARDED-GROUPS:judges") == 200
    assert ask(site, "X-Forwarded-User: Ádám".encode(), b"X-Forwarded-Groups: , judges ,") == 200


def test_headers_are_nothing_by_default_and_other_names_can_be_chosen(database, tmp_path_factory, refused):
    with serving(database, tmp_path_factory) as off:
        assert off.client().get(VOTE, headers=ADA).status_code == 403
    assert refused == []
    names = {"proxy_user_header": "Remote-User", "proxy_groups_header": "Remote-Groups"}
    with serving(database, tmp_path_factory, "127.0.0.1", **names) as site:
        client = site.client()
        assert client.get(VOTE, headers=ADA).status_code == 403
        assert client.get(VOTE, headers={"Remote-User": "ada", "Remote-Groups": "judges"}).status_code == 200


def test_a_revoked_person_is_out_within_a_minute(site):
    client = named(site, "mallory")
    assert client.get(VOTE).status_code == 200
    with connect(site.database) as connection:
        row = connection.execute("SELECT session FROM people WHERE name = 'mallory'").fetchone()
    site.run(site.context.access.accounts.revoke_session("cli", row[0]))
    site.context.access.forget()
    assert client.get(VOTE).status_code == 403


def test_an_operator_comes_through_the_gateway(database, tmp_path_factory):
    roles = (GroupRole("heads", "owner"),)
    with serving(database, tmp_path_factory, "127.0.0.1", roles=roles) as site:
        client = named(site, "hedy")
        client.headers["X-Forwarded-Groups"] = "judges, heads"
        page = client.get("/operator/sign-in", headers=HTML)
        assert "/sign-in/0?next=%2Foperator" in page.text
        assert client.get("/sign-in/0?next=/operator").headers["location"] == "/operator"
        assert client.get("/operator", headers=HTML).status_code == 200
        other = named(site, "ada")
        refused = other.get("/sign-in/0?next=/operator", headers=HTML)
        assert refused.status_code == 403
        assert "of your groups" in refused.text
        stranger = site.client()
        assert "/sign-in/0" not in stranger.get("/operator/sign-in", headers=HTML).text
        client.headers["X-Forwarded-Groups"] = "judges"
        assert client.get("/sign-in/0?next=/operator").status_code == 403
        assert client.get("/operator", headers=HTML).status_code in {303, 403}
