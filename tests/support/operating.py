"""What tests of the operator's pages share: a voted arena to copy, an operator who is signed in, the audit."""

import io
import json
import socket
from contextlib import contextmanager

from support.postgres_servers import fresh_database, kept_database
from support.served import PASSWORD, make_operator, served
from support.voted_arenas import rate, voted
from tiltyard.postgres.connections import connect
from tiltyard.web.pages import paths

HOSTILE = "<script>alert(1)</script>\"'&\\"


@contextmanager
def voted_database(server, template, prepare=None):
    """The name of a database with a voted arena and an operator, to be copied; ``prepare`` adds to it."""
    kept = kept_database(server, template, "voted", _vote_and_rate)
    if prepare is None:
        yield kept
        return
    with fresh_database(server, kept) as database:
        prepare(database)
        yield database.rpartition("/")[2]


def _vote_and_rate(database):
    voted(database, 30)
    rate(database)
    make_operator(database)


def complain(database, reason="broken", note="empty"):
    """What the voter of the first matchup says of it."""
    with connect(database) as connection:
        connection.execute(
            "INSERT INTO complaints (arena, source, serial, session, reason, note) "
            "SELECT arena, source, serial, session, %s, %s FROM matchups WHERE source = 0 AND serial = 0",
            (reason, note),
        )


@contextmanager
def copied(server, prepared):
    """A server on a copy."""
    with fresh_database(server, prepared) as database, served(database) as found:
        found.context.access.actors.sign_in_throttle._seconds = 0
        yield found


def signed(running, **options):
    client = running.client(**options)
    answer = client.post("/operator/sign-in", data={"name": "Ada", "password": PASSWORD})
    assert (answer.status_code, answer.headers["location"]) == (303, "/operator")
    return client


def audited(running, arena=True):
    with connect(running.database) as connection:
        rows = connection.execute(
            "SELECT actor, action, detail FROM audit WHERE (arena IS NOT NULL) = %s ORDER BY entry", (arena,)
        ).fetchall()
    return [row for row in rows if row[0] != "cli" and row[1] not in ("claim", "sign in")]


def located(answer, said, *parts):
    assert answer.status_code == 303, answer.text
    assert answer.headers["location"] == f"{paths.operator(*parts)}?said={said}"


def sent(client, data, name="answers.jsonl"):
    return client.post("/operator/arenas/arena/uploads", files={"file": (name, io.BytesIO(data))})


def row(**changed):
    return {"prompt_id": "p", "prompt": "?", "model": "m", "response": "r"} | changed


def lines(*rows):
    return b"".join(json.dumps(one).encode() + b"\n" for one in rows)


def announced(running, length, headers):
    """What somebody hears who announces so many bytes, and sends none yet."""
    host, port = running.url.removeprefix("http://").split(":")
    lines = ("POST /operator/arenas/arena/uploads HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {length}")
    with socket.create_connection((host, int(port)), timeout=60) as raw:
        raw.sendall("\r\n".join((*lines, headers)).encode() + b"\r\n\r\n")
        return raw.recv(100).split()[1]
