"""Who may do what: every role against every route. A route that is not in the table fails the test."""

import re

import pytest

from support.live_arenas import made_arena
from support.postgres_servers import fresh_database
from support.served import PASSWORD, make_operator, make_token, served
from tiltyard.arena.accounts import ALL_RIGHTS
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.web.access.actors import Actor

#: What each route asks of whoever comes.
#: ``all``: nothing, not even that a token be good. ``any``: nothing. ``reader``, ``voter``: a right to
#: the arena if it is closed. ``owner``: a matchup of one's own. Else a scope.
ROUTES = {
    "GET /healthz": "all",
    "GET /readyz": "all",
    "GET /claim/{token}": "link",
    "POST /claim/{token}": "link",
    "POST /api/v1/operator/claim": "all",
    "POST /api/v1/operator/sign-in": "all",
    "POST /api/v1/operator/sign-out": "all",
    "GET /api/v1/me": "somebody",
    "GET /metrics": "metrics",
    "GET /api/v1/tokens": "admin",
    "POST /api/v1/tokens": "admin",
    "DELETE /api/v1/tokens/{api_token}": "admin",
    "POST /api/v1/arenas/{arena}/matchups": "voter",
    "GET /api/v1/arenas/{arena}/matchups": "voter",
    "POST /api/v1/arenas/{arena}/finish": "voter",
    "POST /api/v1/matchups/{matchup}/show": "owner",
    "POST /api/v1/matchups/{matchup}/vote": "owner",
    "POST /api/v1/matchups/{matchup}/skip": "owner",
    "POST /api/v1/matchups/{matchup}/undo": "owner",
    "POST /api/v1/matchups/{matchup}/reveal": "owner",
    "POST /api/v1/matchups/{matchup}/report": "owner",
    "PUT /api/v1/matchups/{matchup}/remark": "owner",
    "POST /api/v1/arenas/{arena}/live": "voter",
    "GET /api/v1/live/{matchup}": "owner",
    "POST /api/v1/live/{matchup}/turns": "owner",
    "POST /api/v1/live/{matchup}/stop": "owner",
    "POST /api/v1/live/{matchup}/again": "owner",
    "POST /api/v1/live/{matchup}/turn-vote": "owner",
    "GET /api/v1/live/{matchup}/frames": "owner",
    "GET /m/{matchup}/a": "owner",
    "GET /m/{matchup}/b": "owner",
    "GET /api/v1/arenas": "any",
    "GET /api/v1/arenas/{arena}": "reader",
    "GET /api/v1/arenas/{arena}/policy": "reader",
    "GET /api/v1/arenas/{arena}/board": "reader",
    "GET /api/v1/arenas/{arena}/newest": "reader",
    "GET /api/v1/arenas/{arena}/effects": "reader",
    "GET /api/v1/arenas/{arena}/gate": "voter",
    "GET /api/v1/arenas/{arena}/snapshots": "reader",
    "GET /api/v1/arenas/{arena}/snapshots/{snapshot}": "reader",
    "GET /api/v1/arenas/{arena}/reports": "reader",
    "GET /api/v1/arenas/{arena}/reports/{report}": "reader",
    "GET /api/v1/arenas/{arena}/models/{model}": "reader",
    "GET /api/v1/arenas/{arena}/battles": "reader",
    "POST /api/v1/arenas/{arena}/responses": "import",
    "POST /api/v1/arenas/{arena}/past-votes": "import",
    "GET /api/v1/arenas/{arena}/past-votes": "admin",
    "POST /api/v1/arenas": "admin",
    "PATCH /api/v1/arenas/{arena}": "admin",
    "GET /api/v1/arenas/{arena}/responses": "admin",
    "GET /api/v1/arenas/{arena}/models": "admin",
    "POST /api/v1/arenas/{arena}/models/{model}/enable": "admin",
    "POST /api/v1/arenas/{arena}/models/{model}/retire": "admin",
    "GET /api/v1/arenas/{arena}/prompts": "admin",
    "POST /api/v1/arenas/{arena}/withdrawals": "admin",
    "PATCH /api/v1/arenas/{arena}/policy": "admin",
    "PUT /api/v1/arenas/{arena}/phase": "admin",
    "GET /api/v1/arenas/{arena}/shadow": "admin",
    "GET /api/v1/arenas/{arena}/exclusions": "admin",
    "POST /api/v1/arenas/{arena}/exclusions": "admin",
    "POST /api/v1/arenas/{arena}/exclusions/{exclusion}/restore": "admin",
    "GET /api/v1/arenas/{arena}/audit": "admin",
    "GET /api/v1/arenas/{arena}/battles/exact": "admin",
    "GET /api/v1/arenas/{arena}/complaints": "admin",
    "POST /api/v1/arenas/{arena}/complaints/{complaint}/settle": "admin",
}
#: Scopes of each role, and the one arena it is for.
ROLES = {
    "nobody": None,
    "voter": None,
    "garbage": None,
    "revoked": None,
    "operator": ({"read", "import", "admin", "metrics"}, None),
    "read": ({"read"}, None),
    "judge": ({"judge"}, None),
    "import": ({"import"}, None),
    "metrics": ({"metrics"}, None),
    "admin": ({"read", "import", "admin", "metrics"}, None),
    "admin of arena": ({"read", "import", "admin", "metrics"}, "arena"),
    "judge of arena": ({"judge"}, "arena"),
    "reader of shut": ({"read"}, "shut"),
}
FILLED = {"token": "x", "api_token": "99999", "matchup": "0-" + "A" * 32, "snapshot": "0" * 64, "model": "x"}
FILLED |= {"report": "0" * 64, "exclusion": "99999", "complaint": "99999"}


@pytest.fixture(scope="module")
def site(server, template):
    with fresh_database(server, template) as database:
        made_arena(database)
        made_arena(database, name="shut", settings=ArenaSettings(visibility="closed"))
        make_operator(database)
        with served(database) as running:
            running.context.access.actors.sign_in_throttle._seconds = 0
            yield running


@pytest.fixture(scope="module")
def roles(site):
    """A client for each role."""
    clients = {"nobody": site.client(), "voter": site.client(), "garbage": site.client("tyt_garbage")}
    clients["voter"].post("/api/v1/arenas/arena/matchups")
    clients["operator"] = site.client()
    clients["operator"].post("/api/v1/operator/sign-in", json={"name": "Ada", "password": PASSWORD})
    gone = make_token(site.database, "admin", name="gone")
    number = next(
        one["api_token"]
        for one in clients["operator"].get("/api/v1/tokens").json()["tokens"]
        if one["name"] == "gone"
    )
    assert clients["operator"].delete(f"/api/v1/tokens/{number}").status_code == 204
    clients["revoked"] = site.client(gone)
    for role, granted in ROLES.items():
        if role not in clients and granted is not None:
            asked = ["admin"] if "admin" in granted[0] else sorted(granted[0])
            clients[role] = site.client(make_token(site.database, *asked, arena=granted[1]))
    assert set(clients) == set(ROLES)
    return clients


def routes_of(app):
    """Every route that the application answers, documented or not."""
    found = {
        f"{method.upper()} {path}"
        for path, operations in app.openapi()["paths"].items()
        for method in operations
    }
    return found | {"GET /claim/{token}", "POST /claim/{token}"}


def expected(need, role, arena, in_arena):
    """What a role meets: ok, 401, 403, or 404 where the arena is not there for it."""
    if need == "all":
        return "ok"
    if need == "link":
        return "401"
    if role in {"garbage", "revoked"}:
        return "401"
    scopes, only = ROLES[role] or (set(), None)
    here = only is None or (in_arena and only == arena)
    if need == "somebody":
        return "ok" if scopes else "401"
    if need == "any":
        return "ok"
    if need == "owner":
        return "404"
    if need in {"reader", "voter"}:
        welcome = bool(scopes & {"read", "judge"}) and here
        if arena == "shut" and not welcome:
            return "404"
        is_program = bool(scopes) and role != "operator"
        return "403" if need == "voter" and is_program and not ("judge" in scopes and here) else "ok"
    if not scopes:
        return "401"
    return "ok" if need in scopes and here else "403"


def met(answer):
    """The same of an answer."""
    if answer.status_code in {401, 403} or answer.status_code >= 500:
        return str(answer.status_code)
    missing = answer.status_code == 404 and answer.json()["detail"]
    hidden = missing and ("no such arena" in missing or "no such matchup" in missing)
    return "404" if hidden else "ok"


def test_every_route_is_in_the_table(site):
    assert routes_of(site.app) == set(ROUTES)


@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_do_what_the_table_says_and_no_more(site, roles, role):
    wrong = []
    for route, need in ROUTES.items():
        method, template = route.split(" ")
        for arena in ("arena", "shut") if "{arena}" in template else ("",):
            if route == "POST /api/v1/operator/sign-out" and role == "operator":
                continue
            path = re.sub(
                r"{(\w+)}", lambda found, arena=arena: {"arena": arena, **FILLED}[found[1]], template
            )
            form = {"data": {"name": "x", "password": PASSWORD}} if need == "link" else {"json": {}}
            if "vote" in path or "report" in path:
                form = {"json": {"winner": "tie"} if "vote" in path else {"reason": "other"}}
                form["json"] |= {"turn": 1} if "turn-vote" in path else {}
            elif path.endswith(("/live", "/turns")):
                form = {"json": {"prompt": "Hello"}}
            answer = roles[role].request(method, path, **({} if method == "GET" else form))
            want = expected(need, role, arena, "{arena}" in template)
            if met(answer) != want:
                wrong.append((route, arena, want, answer.status_code, answer.text[:200]))
    assert not wrong, "\n".join(map(str, wrong))


def test_admin_covers_all_but_judging_and_a_limit_is_a_limit():
    admin = Actor("token:x", frozenset({"admin"}), grants=ALL_RIGHTS)
    assert all(admin.may(scope) for scope in ("read", "import", "admin", "metrics"))
    assert not admin.may("judge")
    limited = Actor("token:x", frozenset({"admin"}), "arena", grants=ALL_RIGHTS)
    assert limited.may("read", "arena")
    assert not limited.may("read", "shut")
    assert not limited.may("read")
