"""Requests that would succeed, sent by those who may not: each is refused, and no row of any table changes."""

import json

import pytest

from support.postgres_servers import fresh_database
from support.served import make_token
from support.visitors import ROLES, furnished, sign_in
from tiltyard.postgres.connections import connect

ARENA = "/api/v1/arenas/arena"
ANSWER = {"prompt_id": "new", "prompt": "New?", "model": "model-9", "response": "Yes."}
PAST_VOTE = {
    "model_a": "model-0",
    "model_b": "model-1",
    "prompt_id": "prompt-0",
    "winner": "a",
    "voter": "ann",
}
#: Routes that need a scope: the scope, and a request that whoever has it may send.
GUARDED = {
    "GET /metrics": ("metrics", "/metrics", {}),
    "POST /api/v1/arenas": ("admin", "/api/v1/arenas", {"json": {"name": "another"}}),
    "PATCH /api/v1/arenas/{arena}": ("admin", ARENA, {"json": {"title": "Another"}}),
    "POST /api/v1/arenas/{arena}/responses": (
        "import",
        f"{ARENA}/responses",
        {"content": json.dumps(ANSWER).encode(), "headers": {"content-type": "application/x-ndjson"}},
    ),
    "POST /api/v1/arenas/{arena}/past-votes": (
        "import",
        f"{ARENA}/past-votes",
        {"content": json.dumps(PAST_VOTE).encode(), "headers": {"content-type": "application/x-ndjson"}},
    ),
    "GET /api/v1/arenas/{arena}/past-votes": ("admin", f"{ARENA}/past-votes", {}),
    "GET /api/v1/arenas/{arena}/responses": ("admin", f"{ARENA}/responses?model=model-0&prompt=prompt-0", {}),
    "GET /api/v1/arenas/{arena}/models": ("admin", f"{ARENA}/models", {}),
    "POST /api/v1/arenas/{arena}/models/{model}/retire": ("admin", f"{ARENA}/models/model-3/retire", {}),
    "POST /api/v1/arenas/{arena}/models/{model}/enable": ("admin", f"{ARENA}/models/model-3/enable", {}),
    "GET /api/v1/arenas/{arena}/prompts": ("admin", f"{ARENA}/prompts", {}),
    "POST /api/v1/arenas/{arena}/withdrawals": (
        "admin",
        f"{ARENA}/withdrawals",
        {"json": {"prompt": "prompt-5", "reason": "asked"}},
    ),
    "PATCH /api/v1/arenas/{arena}/policy": ("admin", f"{ARENA}/policy", {"json": {"prompt_floor": 3}}),
    "GET /api/v1/arenas/{arena}/shadow": ("admin", f"{ARENA}/shadow", {}),
    "GET /api/v1/arenas/{arena}/exclusions": ("admin", f"{ARENA}/exclusions", {}),
    "POST /api/v1/arenas/{arena}/exclusions": (
        "admin",
        f"{ARENA}/exclusions",
        {"json": {"reason": "asked", "sessions": [2]}},
    ),
    "POST /api/v1/arenas/{arena}/exclusions/{exclusion}/restore": (
        "admin",
        f"{ARENA}/exclusions/1/restore",
        {},
    ),
    "GET /api/v1/arenas/{arena}/audit": ("admin", f"{ARENA}/audit", {}),
    "GET /api/v1/arenas/{arena}/battles/exact": ("admin", f"{ARENA}/battles/exact", {}),
    "GET /api/v1/arenas/{arena}/complaints": ("admin", f"{ARENA}/complaints", {}),
    "POST /api/v1/arenas/{arena}/complaints/{complaint}/settle": (
        "admin",
        f"{ARENA}/complaints/1/settle",
        {},
    ),
}
#: Roles that have each scope in the arena.
MAY = {
    "admin": {"admin", "operator"},
    "import": {"admin", "operator", "import"},
    "metrics": {"admin", "operator", "metrics"},
}
#: Anybody may ask these: tests of voters, readers and operators are elsewhere.
OPEN = {
    "GET /healthz",
    "GET /readyz",
    "PUT /api/v1/matchups/{matchup}/remark",
    "GET /api/v1/me",
    "GET /api/v1/arenas",
    "GET /api/v1/arenas/{arena}",
    "GET /api/v1/arenas/{arena}/policy",
    "GET /api/v1/arenas/{arena}/board",
    "GET /api/v1/arenas/{arena}/newest",
    "GET /api/v1/arenas/{arena}/effects",
    "GET /api/v1/arenas/{arena}/snapshots",
    "GET /api/v1/arenas/{arena}/snapshots/{snapshot}",
    "GET /api/v1/arenas/{arena}/reports",
    "GET /api/v1/arenas/{arena}/reports/{report}",
    "GET /api/v1/arenas/{arena}/models/{model}",
    "GET /api/v1/arenas/{arena}/battles",
    "GET /api/v1/arenas/{arena}/gate",
    "GET /api/v1/arenas/{arena}/matchups",
    "POST /api/v1/arenas/{arena}/matchups",
    "POST /api/v1/arenas/{arena}/finish",
    "GET /m/{matchup}/a",
    "GET /m/{matchup}/b",
    "POST /api/v1/arenas/{arena}/live",
    "GET /api/v1/live/{matchup}",
    "GET /api/v1/live/{matchup}/frames",
    *(f"POST /api/v1/live/{{matchup}}/{act}" for act in ("turns", "stop", "again", "turn-vote")),
    *(
        f"POST /api/v1/matchups/{{matchup}}/{act}"
        for act in ("show", "vote", "skip", "undo", "reveal", "report")
    ),
}


@pytest.fixture(scope="module")
def found(server, template, tmp_path_factory):
    folder = tmp_path_factory.mktemp("responses")
    with fresh_database(server, template) as database, furnished(database, folder) as made:
        made.clients |= strangers(made.site)
        yield made


def strangers(site):
    """Those whose rights have ended, and one who never had any."""
    gone, lapsed = (make_token(site.database, "admin", name=name) for name in ("gone", "lapsed"))
    signed = site.client()
    sign_in(signed)
    with connect(site.database) as connection:
        connection.execute("UPDATE api_tokens SET revoked_at = now() WHERE name = 'gone'")
        connection.execute("UPDATE api_tokens SET expires_at = now() WHERE name = 'lapsed'")
        connection.execute(
            "UPDATE operator_sessions SET expires_at = now() "
            "WHERE created_at = (SELECT max(created_at) FROM operator_sessions)"
        )
    made = {
        "revoked": site.client(gone),
        "lapsed": site.client(lapsed),
        "signed in long ago": signed,
        "garbage": site.client("tyt_garbage"),
        "token as a cookie": site.client(cookies={"tiltyard_operator": gone}),
    }
    site.context.access.forget()
    return made


def everything(database):
    """Every table but the leases, which the clock renews: a count of its rows and a sum of their hashes."""
    with connect(database) as connection:
        names = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition "
            "AND relnamespace = 'public'::regnamespace ORDER BY relname"
        ).fetchall()
        return {
            name: connection.execute(
                f'SELECT count(*), coalesce(sum(hashtextextended(t::text, 0)), 0) FROM "{name}" t'
            ).fetchone()
            for (name,) in names
            if name != "processes"
        }


def test_every_route_is_guarded_or_open(found):
    paths = found.site.app.openapi()["paths"]
    routes = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert routes == GUARDED.keys() | OPEN


def test_what_is_refused_changes_nothing(found):
    before = everything(found.site.database)
    assert {"events", "audit", "api_tokens", "responses"} <= before.keys()
    for role, client in found.clients.items():
        for route, (scope, path, options) in GUARDED.items():
            if role in MAY[scope]:
                continue
            answer = client.request(route.split(" ")[0], path, **options)
            known = role in ROLES and role not in {"nobody", "voter"}
            assert answer.status_code == (403 if known else 401), (role, route, answer.text)
        assert everything(found.site.database) == before, role


@pytest.mark.parametrize("role", ["admin"])
def test_the_same_requests_succeed_for_those_who_may(found, role):
    """The last test of this module: it changes what the others need."""
    for route, (_, path, options) in GUARDED.items():
        answer = found.clients[role].request(route.split(" ")[0], path, **options)
        assert answer.is_success, (route, answer.text)
