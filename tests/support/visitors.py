"""A server with data of every kind, and a client for every role."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from support.live_arenas import made_arena
from support.served import PASSWORD, Served, make_operator, make_token, served
from support.voted_arenas import close_window, rate, voted
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings

#: Tokens of these roles: their scopes, and the one arena they are for.
TOKENS = {
    "read": (("read",), None),
    "judge": (("judge",), None),
    "import": (("import",), None),
    "metrics": (("metrics",), None),
    "admin": (("admin",), None),
    "admin of shut": (("admin",), "shut"),
    "judge of shut": (("judge",), "shut"),
}
ROLES = ("nobody", "voter", "operator", *TOKENS)
#: Numbers of tokens begin here, so that nobody revokes those of the test by guessing small ones.
_FIRST_TOKEN = 1_500_000_000


@dataclass
class Furnished:
    """The server, its clients by role, and the names of what it has."""

    site: Served
    clients: dict[str, object]
    known: dict[str, list[str]] = field(default_factory=dict)


@contextmanager
def furnished(database: str, folder: Path) -> Iterator[Furnished]:
    """An open arena with votes, boards, a report, an exclusion and a complaint; a closed one; an empty one."""
    voted(database, votes=40)
    made_arena(database, name="shut", settings=ArenaSettings(visibility="closed"))
    made_arena(database, models=1, name="bare")
    close_window(database)
    rate(database)
    _add_report(database)
    make_operator(database)
    for _ in range(3):
        make_token(database, "read", name="to be revoked")
    with connect(database) as connection:
        connection.execute(f"ALTER TABLE api_tokens ALTER COLUMN api_token RESTART WITH {_FIRST_TOKEN}")
    with served(database, folder=folder) as site:
        site.context.access.actors.sign_in_throttle._seconds = 0.0
        found = Furnished(site, {role: _client(site, role) for role in ROLES})
        _complain_and_exclude(found)
        found.known = _names(database, found)
        yield found


def sign_in(client) -> None:
    """As the operator."""
    answer = client.post("/operator/sign-in", data={"name": "Ada", "password": PASSWORD})
    assert answer.status_code == 303, answer.text


def _client(site: Served, role: str):
    if role in TOKENS:
        scopes, arena = TOKENS[role]
        return site.client(make_token(site.database, *scopes, arena=arena, name=role))
    client = site.client()
    if role == "voter":
        assert client.post("/api/v1/arenas/arena/matchups").status_code == 201
    if role == "operator":
        sign_in(client)
    return client


def _complain_and_exclude(found: Furnished) -> None:
    voter, admin = found.clients["voter"], found.clients["admin"]
    matchup = voter.post("/api/v1/arenas/arena/matchups").json()["matchup"]
    told = voter.post(f"/api/v1/matchups/{matchup}/report", json={"reason": "broken"})
    assert told.status_code == 204, told.text
    made = admin.post("/api/v1/arenas/arena/exclusions", json={"reason": "a test", "sessions": [1]})
    assert made.status_code == 201, made.text


def _add_report(database: str) -> None:
    """A weekly report, which nobody waits a week for."""
    document = json.dumps({"format": "tiltyard-validity/1", "arena": "arena"})
    with connect(database) as connection:
        connection.execute(
            "INSERT INTO reports (arena, since, until, position, sha256, document) "
            "VALUES (1, now() - interval '7 days', now(), 1, sha256(convert_to(%(text)s, 'UTF8')), %(text)s)",
            {"text": document},
        )


def _names(database: str, found: Furnished) -> dict[str, list[str]]:
    """Values for parameters that lead somewhere."""
    with connect(database) as connection:

        def column(query: str) -> list[str]:
            return [str(row[0]) for row in connection.execute(query)]

        return {
            "arena": ["arena", "arena", "arena", "shut", "bare", "none"],
            "model": ["model-0", "model-1", "a/b", "../x"],
            "prompt": ["prompt-0", "prompt-1", "none"],
            "snapshot": [*column("SELECT encode(sha256, 'hex') FROM snapshots"), "0" * 64],
            "report": [*column("SELECT encode(sha256, 'hex') FROM reports"), "0" * 64],
            "exclusion": [*column("SELECT exclusion FROM exclusions"), "9"],
            "complaint": [*column("SELECT complaint FROM complaints"), "9"],
            "api_token": ["1", "2", "3", "4"],
            "category": ["", "none"],
        }
