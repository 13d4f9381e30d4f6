"""Every route for operators × every role × own arena, other arena, installation: as the table of routes says.

The routes are those that the application has, so that a new one is under these laws from its first day.
"""

import re
from html import unescape

import pytest

from support.postgres_servers import fresh_database
from support.role_operators import NO_ROLE, operators_of_every_role
from support.served import make_token
from support.sizes import sized
from support.visitors import furnished
from tiltyard.arena.accounts import OPERATOR_ROLES, includes_role
from tiltyard.postgres.connections import connect
from tiltyard.web.access.route_access import ROUTE_NEEDS, check_route_table

#: What leads nowhere, so that whoever may send a request changes little by it.
VALUES = {
    "arena": "arena",
    "model:path": "nothing",
    "session": "99999999",
    "exclusion": "99999",
    "complaint": "99999",
    "change": "99999",
    "api_token": "99999",
    "invitation": "99999",
    "link": "99999",
    "operator": "99999",
    "panel": "99999",
    "form": "csv",
    "upload": "6f1f7a52-2a52-4a55-8e0c-111111111111",
}
#: What the own session or account is ended or changed by, and another test looks at.
OWN = [route for route, need in ROUTE_NEEDS.items() if need.where == "own"]
TABLES = ("arenas", "models", "exclusions", "api_tokens", "audit", "uploads", "complaints", "invitations")
TABLES += ("operators", "operator_roles", "operator_links", "responses", "prompts")


@pytest.fixture(scope="module")
def found(server, template, tmp_path_factory):
    folder = tmp_path_factory.mktemp("responses")
    with fresh_database(server, template) as database, furnished(database, folder) as made:
        yield made


@pytest.fixture(scope="module")
def operators(found):
    return operators_of_every_role(found.site, "arena", "shut")


def filled(path, arena="arena"):
    return re.sub(r"{([\w:]+)}", lambda name: (VALUES | {"arena": arena})[name[1]], path)


def ask(client, route, arena="arena"):
    method, path = route.split(" ")
    body = {}
    if method != "GET":
        body = {"json": {}} if path.startswith("/api/") else {"data": {}}
    return client.request(method, filled(path, arena), **body)


def expected(need, role, where, arena):
    """What somebody meets who has one role somewhere: 200 stands for all that is not refused."""
    if need.where == "own":
        return 200
    if need.where == "anywhere":
        return 200 if includes_role(role or None, need.role) else 403
    if need.where == "arena" and where not in (None, arena):
        return 404
    holds = where is None or need.where == "arena"
    return 200 if holds and includes_role(role or None, need.role) else 403


def met(answer):
    if answer.status_code in (401, 403) or answer.status_code >= 500:
        return answer.status_code
    if answer.status_code == 303 and answer.headers["location"].startswith("/operator/sign-in"):
        return 401
    hidden = answer.status_code == 404 and "no such arena" in answer.json()["detail"]
    return 404 if hidden else 200


def counted(database):
    with connect(database) as connection:
        return {
            table: connection.execute(
                f"SELECT count(*), sum(hashtextextended(t::text, 0)) FROM {table} t"
            ).fetchone()
            for table in TABLES
        }


def test_a_route_without_a_role_does_not_start():
    with pytest.raises(RuntimeError, match="GET /operator/new"):
        check_route_table([*ROUTE_NEEDS, "GET /operator/new"])
    with pytest.raises(RuntimeError, match=r"GET /operator$"):
        check_route_table(set(ROUTE_NEEDS) - {"GET /operator"})
    check_route_table(ROUTE_NEEDS)


#: Every role by each way and every place by each way; the whole product runs by name.
_EVERY_PAIR = tuple(
    f"{by}-{holder}"
    for by, holders in {
        "session": ("owner of None", "operator of arena", "moderator of shut", "analyst of arena", " of "),
        "token": ("owner of arena", "operator of None", "moderator of arena", "analyst of shut", " of "),
    }.items()
    for holder in holders
)


def holders():
    return [*((role, where) for where in (None, "arena", "shut") for role in OPERATOR_ROLES), NO_ROLE]


def wanted(need, holder):
    role, where = holder
    if holder == NO_ROLE:
        return {"own": 200, "arena": 404}.get(need.where, 403)
    return expected(need, role, where, "arena")


@pytest.mark.slow(but=_EVERY_PAIR)
@pytest.mark.parametrize("holder", holders(), ids=lambda one: f"{one[0]} of {one[1]}")
@pytest.mark.parametrize("by", ["session", "token"])
def test_a_role_may_do_what_the_table_says_and_what_is_refused_changes_nothing(found, operators, holder, by):
    client = operators[by == "token"][holder]
    wrong, before = [], counted(found.site.database)
    allowed = []
    for route, need in ROUTE_NEEDS.items():
        if route in OWN or (by == "token" and "/api/" not in route):
            continue
        want = wanted(need, holder)
        if want == 200:
            allowed.append(route)
            continue
        answer = ask(client, route)
        if met(answer) != want:
            wrong.append((route, want, answer.status_code, answer.text[:200]))
        elif want == 403:
            assert f"needs the role {need.role}" in answer.text or "needs the scope" in answer.text, route
    assert not wrong, "\n".join(map(str, wrong))
    assert counted(found.site.database) == before
    for route in allowed:
        answer = ask(client, route)
        if met(answer) != 200:
            wrong.append((route, 200, answer.status_code, answer.text[:200]))
    assert not wrong, "\n".join(map(str, wrong))


def plain(answer):
    return answer.status_code, re.sub(r"urn:tiltyard:occurrence:\w+", "", answer.text).replace(
        "shut", "nowhere"
    )


@pytest.mark.parametrize("by", [0, 1])
def test_an_arena_without_a_role_in_it_looks_like_one_that_does_not_exist(operators, by):
    client = operators[by]["owner", "arena"]
    for route, need in ROUTE_NEEDS.items():
        if need.where == "arena" and (not by or "/api/" in route):
            shut, none = ask(client, route, "shut"), ask(client, route, "nowhere")
            assert plain(shut) == plain(none), route
            assert shut.status_code == 404, route


def test_a_role_that_is_too_small_is_told_on_a_page_which_one_is_needed_and_who_grants_it(operators):
    client = operators[0]["analyst", "arena"]
    page = client.get("/operator/arenas/arena/settings", headers={"accept": "text/html"})
    assert page.status_code == 403
    assert page.headers["content-type"].startswith("text/html")
    assert "role operator" in page.text
    assert "is analyst" in page.text
    assert "grant it: Ada" in page.text


def test_the_menu_has_only_what_one_may_do(operators):
    """Every link and form of the pages that a role sees leads to what it may use."""
    clients = operators[0]
    holders = (("analyst", "arena"), ("operator", "arena"), ("moderator", "arena"), ("analyst", None))
    for holder in holders[: sized(2, 4)]:
        seen = set()
        todo = ["/operator", "/operator/arenas/arena"]
        while todo:
            path = todo.pop()
            seen.add(path)
            page = clients[holder].get(path, headers={"accept": "text/html"})
            assert page.status_code == 200, (holder, path, page.status_code)
            links = set(re.findall(r'href="(/operator[^"#]*)', unescape(page.text)))
            todo += sorted(links - seen - set(todo))
            for form in re.findall(r'method="post" action="(/operator[^"]*)"', page.text):
                route = next((one for one in ROUTE_NEEDS if matches(one, form)), None)
                assert route or form == "/operator/sign-out", form
                if route:
                    assert wanted(ROUTE_NEEDS[route], holder) == 200, (holder, path, form)
        assert len(seen) > 5


def matches(route, form):
    method, path = route.split(" ")
    return method == "POST" and re.fullmatch(re.sub(r"{[\w:]+}", "[^/]+", path), form)


def test_a_token_has_no_more_than_its_scopes_whatever_its_operator_may_do(found):
    reader = found.site.client(make_token(found.site.database, "read", name="reads"))
    for route in ROUTE_NEEDS:
        if "/api/" in route:
            assert ask(reader, route).status_code == 403, route


def test_nobody_signs_in_to_an_account_that_is_not_there(found):
    stranger = found.site.client()
    for route in OWN:
        assert met(ask(stranger, route)) == 401, route
