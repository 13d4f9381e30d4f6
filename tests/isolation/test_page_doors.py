"""Every page, every visitor: the operator's pages are the operator's, a closed arena is not there for strangers.

The pages are those that the application has, so that a new one is under these laws from its first day.
"""

import re

import pytest

from support.page_routes import page_routes
from support.postgres_servers import fresh_database
from support.sizes import sized
from support.visitors import ROLES, furnished
from tiltyard.postgres.connections import connect

VALUES = {
    "shard": "0",
    "arena": "arena",
    "model": "model-0",
    "snapshot": "0" * 64,
    "sha256": "0" * 64,
    "session": "1",
    "exclusion": "1",
    "change": "1",
    "complaint": "1",
    "api_token": "1",
    "upload": "6f1f7a52-2a52-4a55-8e0c-111111111111",
    "matchup": "qUOzXkV3T0m4gJm1s1yR0g",
    "token": "x" * 43,
    "code": "0-" + "x" * 32,
    "invitation": "1",
    "operator": "1",
    "link": "99",
    "panel": "1",
    "name": "ratings",
    "chart": "expected",
    "form": "json",
    "format": "csv",
}
#: Of the operator's pages, those that everybody may see.
ENTRANCE = {"/operator/sign-in", "/operator/sign-in/code", "/operator/sign-out"}
#: Who may look at the operator's pages of an arena that is open.
OPERATORS = {"operator", "admin"}
#: Strangers and operators ask for every page; of the others, each asks for one of so many, another one each.
EVERY = sized(3, 1)


def pages_for(role):
    """The pages that this role asks for."""
    pages = list(page_routes())
    return pages if role in {"nobody", "operator"} else pages[ROLES.index(role) % EVERY :: EVERY]


@pytest.fixture(scope="module")
def found(server, template, tmp_path_factory):
    with (
        fresh_database(server, template) as database,
        furnished(database, tmp_path_factory.mktemp("responses")) as made,
    ):
        yield made


def filled(path, **values):
    known = VALUES | values
    return re.sub(r"{(\w+)(?::path)?}", lambda name: known[name[1]], path)


def counted(database):
    """How much there is of everything that a page could change."""
    tables = (
        "arenas",
        "models",
        "exclusions",
        "api_tokens",
        "audit",
        "uploads",
        "complaints",
        "remarks",
        "matchups",
    )
    with connect(database) as connection:
        return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}


@pytest.mark.parametrize("role", [role for role in ROLES if role not in OPERATORS])
def test_the_operators_pages_are_the_operators(found, role):
    client, before = found.clients[role], counted(found.site.database)
    tried = 0
    for method, path in pages_for(role):
        if not path.startswith("/operator") or path in ENTRANCE:
            continue
        answer = client.request(method, filled(path), data={} if method == "POST" else None)
        refused = answer.status_code in {401, 403, 404, 405, 422}
        sent_away = answer.status_code == 303 and answer.headers["location"].startswith("/operator/sign-in")
        assert refused or sent_away, (method, path, answer.status_code)
        assert answer.status_code != 422 or not answer.headers["content-type"].startswith("text/html"), path
        tried += 1
    assert tried > 20 // EVERY
    assert counted(found.site.database) == before


@pytest.mark.parametrize("role", ["nobody", "voter", "import", "metrics"])
def test_a_closed_arena_has_no_pages_for_strangers(found, role):
    client, before, tried = found.clients[role], counted(found.site.database), 0
    for method, path in page_routes():
        if not path.startswith("/arenas/{arena}"):
            continue
        shut = client.request(method, filled(path, arena="shut"), data={} if method == "POST" else None)
        none = client.request(method, filled(path, arena="none"), data={} if method == "POST" else None)
        assert (shut.status_code, plain(shut)) == (none.status_code, plain(none)), (method, path)
        assert shut.status_code in {401, 403, 404}, (method, path, shut.status_code)
        tried += 1
    assert tried > 5
    assert counted(found.site.database) == before


def plain(answer):
    return re.sub(r"urn:tiltyard:occurrence:\w+", "", answer.text).replace("shut", "none")


def test_no_page_that_is_only_looked_at_changes_anything(found):
    """GETs of everybody, the operator included: no session, no matchup, no entry in the audit."""
    for role in ROLES:
        client, before = found.clients[role], counted(found.site.database)
        for method, path in pages_for(role):
            if method == "GET":
                answer = client.get(filled(path))
                assert answer.status_code < 500, (role, path, answer.text)
                assert "tiltyard_session" not in answer.headers.get("set-cookie", ""), path
        assert counted(found.site.database) == before, role


def test_another_sites_page_cannot_send_our_forms(found):
    client, before = found.clients["operator"], counted(found.site.database)
    for method, path in page_routes():
        if method == "POST":
            for headers in (
                {"origin": "https://evil.example"},
                {"sec-fetch-site": "cross-site"},
                {"origin": "null"},
            ):
                answer = client.post(filled(path), data={}, headers=headers)
                assert answer.status_code == 403, (path, headers)
    assert counted(found.site.database) == before
