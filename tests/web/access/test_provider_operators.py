"""Operators by their groups at the identity provider: roles come and go with the groups."""

from urllib.parse import urlsplit

import httpx2
import pytest

from support.live_arenas import made_arena
from support.postgres_servers import fresh_database
from support.scripted_provider import CLIENT, SECRET_OF_CLIENT, scripted_provider
from support.served import PASSWORD, make_operator, served
from tiltyard.postgres.connections import connect
from tiltyard.settings.serving_settings import GroupRole, SignInSettings

HTML = {"accept": "text/html"}
ROLES = (
    GroupRole("heads", "owner"),
    GroupRole("readers", "analyst"),
    GroupRole("helpers", "moderator", "arena"),
    GroupRole("helpers", "analyst", "arena"),
    GroupRole("ghosts", "owner", "no-such-arena"),
)


@pytest.fixture(scope="module")
def provider():
    with scripted_provider() as running:
        yield running


@pytest.fixture(scope="module")
def site(server, template, provider, tmp_path_factory):
    settings = SignInSettings(
        issuer=provider.url, client_id=CLIENT, client_secret=SECRET_OF_CLIENT, roles=ROLES, hours=2
    )
    with fresh_database(server, template) as database:
        made_arena(database)
        made_arena(database, name="other")
        make_operator(database)
        with served(database, folder=tmp_path_factory.mktemp("blobs"), sign_in=settings) as running:
            yield running


def sign_in(site, provider, subject, *groups, wanted="/operator", name=None):
    """Sign in as this subject, a member of these groups; the browser and the answer."""
    provider.reset()
    provider.claims = {"sub": subject, "name": name or f"{subject} of the test", "groups": list(groups)}
    client = site.client()
    there = client.get("/sign-in/0", params={"next": wanted}).headers["location"]
    back = urlsplit(httpx2.get(there).headers["location"])
    return client, client.get(f"{back.path}?{back.query}", headers=HTML)


def status(client, path):
    return client.get(path, headers=HTML).status_code


def test_a_group_gives_a_role_for_the_installation(site, provider):
    client, answer = sign_in(site, provider, "hedy", "heads")
    assert (answer.status_code, answer.headers["location"]) == (303, "/operator")
    cookie = next(
        one for one in answer.headers.get_list("set-cookie") if one.startswith("tiltyard_operator=")
    )
    assert "Max-Age=7200" in cookie
    assert status(client, "/operator") == 200
    assert status(client, "/operator/arenas/other/settings") == 200
    with connect(site.database) as connection:
        row = connection.execute(
            "SELECT max(s.expires_at) - max(s.created_at) <= interval '2 hours' FROM operator_sessions s"
            " JOIN operators USING (operator) WHERE subject = 'hedy'"
        ).fetchone()
    assert row == (True,)


def test_a_group_gives_a_role_in_one_arena_and_the_greatest_counts(site, provider):
    client, _ = sign_in(site, provider, "max", "helpers")
    assert status(client, "/operator/arenas/arena/complaints") == 200
    assert status(client, "/operator/arenas/arena/settings") == 403
    assert status(client, "/operator/arenas/other") == 404


@pytest.mark.parametrize("groups", [[], ["staff"], ["Heads"], ["heads "], ["ghosts"]])
def test_other_groups_give_none(site, provider, groups):
    client, answer = sign_in(site, provider, "eve", *groups)
    assert answer.status_code == 403
    assert "of your groups" in answer.text
    assert "tiltyard_operator" not in client.cookies
    assert "tiltyard_person_0" in client.cookies
    assert status(client, "/operator") == 303
    _, voting = sign_in(site, provider, "eve", *groups, wanted="/arenas/arena")
    assert (voting.status_code, voting.headers["location"]) == (303, "/arenas/arena")


def test_roles_go_with_the_group_on_all_devices(site, provider):
    first, _ = sign_in(site, provider, "lise", "heads", "readers")
    assert status(first, "/operator/arenas/arena/settings") == 200
    sign_in(site, provider, "lise", "readers")
    assert status(first, "/operator/arenas/arena") == 200
    assert status(first, "/operator/arenas/arena/settings") == 403
    _, answer = sign_in(site, provider, "lise")
    assert answer.status_code == 403
    assert status(first, "/operator/arenas/arena") in {303, 403, 404}
    with connect(site.database) as connection:
        changes = connection.execute(
            "SELECT count(*) FROM audit WHERE actor = 'identity:lise of the test'"
        ).fetchone()
    assert changes[0] >= 3


def test_the_name_of_another_operator_gives_nothing(site, provider):
    """Whoever is called as an operator with a password is somebody else."""
    client, answer = sign_in(site, provider, "another", "readers", name="Ada")
    assert answer.status_code == 303
    assert status(client, "/operator/arenas/arena/settings") == 403
    signed = site.client().post("/operator/sign-in", data={"name": "Ada", "password": PASSWORD})
    assert signed.status_code == 303
    for password in ("", PASSWORD):
        data = {"name": "Ada (2)", "password": password}
        assert site.client().post("/operator/sign-in", data=data).status_code != 303


def test_the_sign_in_page_leads_to_the_provider_and_back(site):
    page = site.client().get("/operator/sign-in?next=/operator/arenas/arena", headers=HTML).text
    assert "/sign-in/0?next=%2Foperator%2Farenas%2Farena" in page
