"""Logs: what happened, in JSON, and nothing in them that is anybody's business."""

import io
import json
import logging
import re
import socket

import pytest

from support.live_arenas import made_arena
from support.served import PASSWORD, SECRET, make_operator, make_token, served
from tiltyard.errors import StoreFault
from tiltyard.postgres.connections import connect
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.web.edge.logs import configure_logging, log_event, log_failure, redact

ASK = "/api/v1/arenas/arena/matchups"
#: No hexadecimal number has this in it by chance.
OPERATOR = "Hypatia"


@pytest.fixture
def lines():
    """What is logged from now on; loggers are put back afterwards."""
    root = logging.getLogger()
    names = (None, "tiltyard", "uvicorn", "uvicorn.error", "uvicorn.access")
    loggers = [logging.getLogger(name) for name in names]
    before = [(one.handlers[:], one.level, one.propagate, one.disabled) for one in loggers]
    stream = io.StringIO()
    configure_logging(stream)
    yield stream
    logging.captureWarnings(capture=False)
    for one, (handlers, level, propagate, disabled) in zip(loggers, before, strict=True):
        one.handlers[:] = handlers
        one.setLevel(level)
        one.propagate, one.disabled = propagate, disabled
    assert root.handlers == before[0][0]


def test_a_log_of_everything_tells_nothing_about_anybody(database, lines, monkeypatch):
    made_arena(database)
    make_operator(database, OPERATOR)
    token, judge = make_token(database, "admin"), make_token(database, "judge")
    secrets = {SECRET, PASSWORD, token, judge, "127.0.0.1", "10.9.8.7", "hunter2", "query-string", OPERATOR}
    secrets |= {"What about", "of somebody", "model-", "prompt-", "x-told-us", database}
    with served(database, settings=ServingSettings(log_requests=True)) as site:
        client, program = site.client(), site.client(judge)
        for who in (client, program):
            for ahead in (False, True):
                shown = who.post(ASK, json={"ahead": ahead}).json()
                matchup = shown["matchup"]
                secrets.add(matchup)
                who.get(shown["responses"]["a"]["url"] + "?query-string=1")
                for what, body in (
                    ("vote", {"winner": "tie"}),
                    ("vote", {"winner": "model_a"}),
                    ("vote", {"winner": "x-told-us"}),
                    ("undo", None),
                    ("reveal", None),
                    ("report", {"reason": "other", "note": "x-told-us"}),
                ):
                    who.post(f"/api/v1/matchups/{matchup}/{what}", json=body)
        secrets.add(client.cookies["tiltyard_session"])
        client.post("/operator/sign-in", data={"name": OPERATOR, "password": PASSWORD})
        secrets.add(client.cookies["tiltyard_operator"])
        made = client.post("/operator/tokens", data={"name": "x-told-us", "scopes": ["read"]})
        secrets.add(re.search(r"tyt_[\w-]+", made.text)[0])
        client.get("/claim/x-told-us?query-string=1")
        client.get("/metrics", headers={"x-forwarded-for": "10.9.8.7"})
        client.get("/x-told-us?query-string=1", headers={"authorization": "Bearer hunter2"})
        break_everything(site, client, monkeypatch)
        host, port = site.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as raw:
            raw.sendall(b"hunter2 nonsense\r\n\r\n")
            raw.recv(1000)
    text = lines.getvalue()
    entries = [json.loads(line) for line in text.splitlines()]
    assert not [secret for secret in secrets if secret.lower() in text.lower()], text
    assert {"request", "unexpected", "unavailable"} <= {entry["event"] for entry in entries}
    routes = {entry.get("route") for entry in entries}
    assert {"vote", "next_matchup", "response_a", "sign_in_form", "none"} <= routes
    (unexpected,) = [entry for entry in entries if entry["event"] == "unexpected"]
    assert unexpected["error"][0] == "RuntimeError"
    assert any("test_logs" in place for place in unexpected["where"])


def break_everything(site, client, monkeypatch):
    async def broken(*_):
        raise RuntimeError("hunter2 at postgresql://hypatia:hunter2@10.9.8.7/x?query-string=1")

    async def gone(*_):
        raise StoreFault("cannot reach postgresql://hypatia:hunter2@10.9.8.7/x") from RuntimeError("hunter2")

    with monkeypatch.context() as patched:
        patched.setattr(site.registry, "voting_queue", broken)
        told = client.post(ASK)
        assert told.status_code == 500
        patched.setattr(site.registry, "voting_queue", gone)
        assert client.post(ASK).status_code == 503
    with connect(site.database) as connection:
        connection.execute("ALTER TABLE operators RENAME TO x")
    wrong = client.post("/operator/sign-in", data={"name": OPERATOR, "password": "hunter2"})
    assert wrong.status_code == 503
    with connect(site.database) as connection:
        connection.execute("ALTER TABLE x RENAME TO operators")


def test_an_instance_in_an_answer_is_in_the_log(database, lines, monkeypatch):
    made_arena(database)
    with served(database) as site:

        async def broken(*_):
            raise RuntimeError

        monkeypatch.setattr(site.registry, "voting_queue", broken)
        instance = site.client().post(ASK).json()["instance"]
    assert [json.loads(line).get("instance") for line in lines.getvalue().splitlines()].count(instance) == 1


def test_libraries_messages_pass_a_sieve():
    said = {
        'connection to server at "10.0.0.7", port 5432 failed: no password supplied': ["10.0.0.7"],
        "postgresql://ada:hunter2@db.example/x refused": ["hunter2", "db.example"],
        "at 1+x://hunter2/x, ://hunter2": ["hunter2"],
        "said « one « two » three » and « four": ["one", "two", "four"],
        "GET /m/qUOzXkV3T0m4gJm1s1yR0g/a?x=1 HTTP/1.1": ["qUOzXk", "x=1"],
        "password=hunter2 token: abc cookie=def": ["hunter2", "abc", "def"],
        "from 2001:db8::1 and fe80::1:2 and ::1": ["2001", "fe80", "::1"],
        "Key (name)=(Ada Lovelace) already exists": ["Ada"],
        "value 'one\ntwo' is wrong": ["one"],
        "tyt_" + "a" * 43: ["aaa"],
    }
    for message, hidden in said.items():
        shown = redact(message)
        assert not [text for text in hidden if text in shown], shown
        assert "\n" not in shown
    assert redact("worker 3 after 2.5 s") == "worker 3 after 2.5 s"


def test_a_line_is_json_whatever_is_in_it(lines):
    log_event("strange", name='quotes " and \n breaks \u2028', n=3, missing=None)
    log_failure("failed", ValueError("secret"))
    logging.getLogger("uvicorn.error").error("went wrong: %s", "x" * 40, exc_info=ValueError("secret"))
    logging.getLogger("uvicorn.access").info("never")
    logging.getLogger("somebody").warning("plain")
    entries = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [entry["event"] for entry in entries] == ["strange", "failed", "went wrong: <long>", "plain"]
    assert entries[1]["error"] == ["ValueError"]
    assert entries[2]["error"] == ["ValueError"]
    assert "secret" not in lines.getvalue()
