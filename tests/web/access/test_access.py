"""Who may do what: everybody of the reference page, on every route of the application, in an arena of each kind."""

import re
from pathlib import Path

import pytest

from support.invited import come_in, make_link, make_passcode, revoke
from support.live_arenas import made_arena
from support.postgres_servers import fresh_database
from support.role_operators import sign_in_with_role
from support.served import PASSWORD, make_operator, make_token, served
from support.sizes import sized
from tiltyard.arena.accounts import ALL_RIGHTS
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.settings.serving_settings import SignInSettings
from tiltyard.web.access.actors import Actor
from tiltyard.web.server.app import all_routers

PAGE = (Path(__file__).parents[3] / "docs/reference/access.md").read_text(encoding="utf-8")
#: The arena of each column of the page.
KINDS = {
    "open": {},
    "invitation": {"entry": "invitation"},
    "passcode": {"entry": "passcode"},
    "sign-in": {"entry": "sign-in", "entry_groups": "staff"},
    "closed": {"visibility": "closed"},
}
ELSEWHERE = "elsewhere"
FILLED = {"token": "x", "api_token": "99999", "matchup": "0-" + "A" * 32, "snapshot": "0" * 64, "model": "x"}
FILLED |= {"report": "0" * 64, "exclusion": "99999", "complaint": "99999", "sha256": "0" * 64, "code": "x"}
FILLED |= {"name": "ratings", "chart": "expected", "form": "svg", "format": "csv", "shard": "0"}
BODIES = {"live": {"prompt": "Why?"}, "turns": {"prompt": "Why?"}, "vote": {"winner": "tie"}}
BODIES |= {"turn-vote": {"turn": 1, "winner": "tie"}, "report": {"reason": "other"}}
BODIES |= {"{token}": {"name": "x", "password": PASSWORD}}
#: Whoever deletes what is held of them is out.
EXIT = "POST /arenas/{arena}/mine/delete"
#: Everybody asks for one of so many routes to an arena, and everybody for other ones.
EVERY = sized(4, 1)


def rows(heading):
    """The cells of the rows of a table of the page."""
    lines = [line for line in PAGE.partition(f"## {heading}")[2].splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]


COLUMNS, _, *RIGHTS = rows("Rights to an arena")[: PAGE.partition("## Routes")[0].count("\n| ")]
ASKED = {asks: re.findall(r"`(\w+ /[^`]*)`", routes) for asks, routes in rows("Routes")[2:]}


@pytest.fixture(scope="module")
def site(server, template):
    with fresh_database(server, template) as database:
        for kind, settings in KINDS.items():
            made_arena(database, name=kind, settings=ArenaSettings(**settings))
        made_arena(database, name=ELSEWHERE, settings=ArenaSettings(entry="invitation"))
        make_operator(database)
        with served(database, sign_in=SignInSettings(proxy_networks=("127.0.0.1",))) as running:
            running.context.access.actors.sign_in_throttle._seconds = 0
            running.context.access.entry_throttle._seconds = 0
            yield running


@pytest.fixture(scope="module")
def clients(site):
    """A client for each row of the page."""
    names = [row[0] for row in RIGHTS]
    found = {name: site.client() for name in names if not name.startswith("token")}
    for name, groups in (("who came in", "staff"), ("who came in and was revoked", "guests")):
        found[name].headers.update({"x-forwarded-user": name, "x-forwarded-groups": groups})
    revoked, elsewhere = found["who came in and was revoked"], found["who came in to another arena"]
    link, number = make_link(site.database, "invitation")
    come_in(revoked, link)
    revoke(site.database, number, "invitation")
    for client in (revoked, found["who came in"]):
        passcode, _ = make_passcode(site.database, "passcode")
        data = {"passcode": passcode}
        assert client.post("/arenas/passcode/enter", data=data).status_code == 303
    come_in(found["who came in"], make_link(site.database, "invitation")[0])
    come_in(elsewhere, make_link(site.database, ELSEWHERE)[0])
    found["operator"] = sign_in_with_role(site, "Ada of all", "analyst")
    found["operator of another arena"] = sign_in_with_role(site, "Eve", "owner", ELSEWHERE)
    for name in set(names) - set(found):
        scope = (re.findall("`(.*)`", name) or ["admin"])[0]
        arena = ELSEWHERE if "another" in name else None
        found[name] = site.client(make_token(site.database, scope, arena=arena, name=name))
    with connect(site.database) as connection:
        connection.execute("UPDATE api_tokens SET revoked_at = now() WHERE name LIKE '%revoked'")
    site.context.access.forget()
    return found


def ask(client, route, arena="open"):
    method, path = route.split(" ")
    filled = re.sub(r"{(\w+)(?::path)?}", lambda name: (FILLED | {"arena": arena})[name[1]], path)
    body = {"json" if "/api/" in path else "data": BODIES.get(path.rpartition("/")[2], {})}
    return client.request(method, filled, **({} if method == "GET" else body))


def met(answer):
    """What somebody meets: a refusal, or yes."""
    if answer.status_code in {401, 403} or answer.status_code >= 500:
        return str(answer.status_code)
    hidden = answer.status_code == 404 and re.search("no such (arena|matchup)", answer.text)
    return "404" if hidden else "yes"


def test_the_page_has_every_route_and_every_kind_of_arena():
    """And `just reference` writes what a route asks for."""
    existing = {
        f"{method} {route.path}"
        for router in all_routers()
        for route in router.routes
        for method in set(route.methods) - {"HEAD"}
    }
    assert {route for routes in ASKED.values() for route in routes} == existing
    assert COLUMNS[1:] == list(KINDS)
    assert len(RIGHTS) == 14


@pytest.mark.parametrize("row", RIGHTS, ids=lambda row: row[0])
def test_everybody_has_the_rights_that_the_page_says(site, clients, row):
    who, *cells = row
    routes = [(asks, route) for asks in ("reading", "voting") for route in ASKED[asks] if route != EXIT]
    wrong = []
    for kind, cell in zip(KINDS, cells, strict=True):
        for asks, route in routes[(RIGHTS.index(row) + len(kind)) % EVERY :: EVERY]:
            want = {"reads": "yes" if asks == "reading" else "403"}.get(cell, cell)
            answer = ask(clients[who], route, kind)
            if met(answer) != want:
                wrong.append((route, kind, want, answer.status_code, answer.text[:200]))
    for route in ASKED["matchup"]:
        want = "401" if cells[0] == "401" else "404"
        if met(ask(clients[who], route)) != want:
            wrong.append((route, want))
    assert not wrong, "\n".join(map(str, wrong))


def test_scopes_are_asked_for_as_the_page_says(clients):
    """Tokens of the command line belong to no operator: their scopes alone limit them."""
    wrong, tried = [], 0
    for asks, routes in ASKED.items():
        for route in routes if asks.startswith("scope") else ():
            needed = asks.split("`")[1]
            for who, client in clients.items():
                has = re.findall("`(.*)`", who)
                if who.startswith("operator"):
                    continue
                allowed = has in ([needed], ["admin"]) and "another" not in who
                want = "yes" if allowed else "403" if has else "401"
                answer = ask(client, route)
                tried += 1
                if met(answer) != want:
                    wrong.append((who, route, want, answer.status_code, answer.text[:200]))
    assert not wrong, "\n".join(map(str, wrong))
    assert tried > 200


def test_what_asks_for_nothing_is_refused_to_nobody_but_for_the_secret_in_the_request(clients):
    for route in ASKED["nothing"]:
        wanted = {"yes", "401", "403"} if "POST" in route or "{" in route else {"yes"}
        if "{token}" in route or route.endswith("/me"):
            wanted = {"401"}
        assert met(ask(clients["anybody"], route)) in wanted, route
    assert met(ask(clients["token that was revoked"], "GET /api/v1/arenas")) == "401"


def test_admin_covers_all_but_judging_and_a_limit_is_a_limit():
    admin = Actor("token:x", frozenset({"admin"}), grants=ALL_RIGHTS)
    assert all(admin.may(scope) for scope in ("read", "import", "admin", "metrics"))
    assert not admin.may("judge")
    limited = Actor("token:x", frozenset({"admin"}), "arena", grants=ALL_RIGHTS)
    assert limited.may("read", "arena")
    assert not limited.may("read", "shut")
    assert not limited.may("read")
