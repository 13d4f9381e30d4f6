"""Voters see, download and delete what is held about them; afterwards nothing holds it: no table, export, log, backup."""

import hashlib
import io
import logging
import secrets
import subprocess
import tarfile
import time
from uuid import UUID

import pytest

from support.live_arenas import made_arena
from support.postgres_servers import fresh_database
from support.served import make_token, served
from support.voted_arenas import close_window, rate_and_show
from tiltyard.arena.accounts import session_number_from
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.maintenance.backup import back_up
from tiltyard.arena.processes.shared_limits import NetworkKeys
from tiltyard.core.policy.validity.arena_fold import ArenaFold, decode_state
from tiltyard.postgres.binaries import find_pg_dump_folder
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.web.access.cookies import VOTER_COOKIE, read_voter_token
from tiltyard.web.edge.logs import JsonLogFormatter

MINE = "/arenas/arena/mine"
ASK = "/api/v1/arenas/arena/matchups"
ADDRESS = "203.0.113.77"
#: What one person writes, wherever the service takes texts.
TEXTS = {
    "remark": "The left one is by Ada Lovelace herself",
    "report": "This response shows my telephone number",
    "prompt": "Write a letter to my landlord in Elm Street",
    "answer": "Dear landlord of Elm Street",
    "name": "Augusta Ada King",
}


@pytest.fixture(scope="module")
def site(server, template):
    with fresh_database(server, template) as database:
        settings = ArenaSettings(reveal="vote", undo_seconds=0.0)
        made_arena(database, 4, 30, settings=settings)
        with served(database, settings=ServingSettings(port=0, trusted_proxies=("127.0.0.1",))) as running:
            yield running


@pytest.fixture
def logged():
    """All that the service logs meanwhile, as it is written."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLogFormatter())
    root, level = logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)


def vote(client, votes, texts=None):
    for k in range(votes):
        matchup = client.post(ASK, json={}).json()["matchup"]
        winner = ("model_a", "model_b", "tie")[k % 3]
        answer = client.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": winner})
        assert answer.status_code == 200, answer.text
        if texts and not k:
            remark = {"tags": [], "comment": texts["remark"]}
            assert client.put(f"/api/v1/matchups/{matchup}/remark", json=remark).status_code == 204
        if texts and k == 1:
            report = {"reason": "broken", "note": texts["report"]}
            made = client.post(f"/api/v1/matchups/{matchup}/report", json=report)
            assert made.status_code < 300, made.text
        client.post(f"/api/v1/matchups/{matchup}/reveal")


def session_of(client):
    return read_voter_token(client.cookies[VOTER_COOKIE].partition(".")[0], time.time())[0]


def furnish(site, session):
    """What the person would have besides in a live arena, after a sign-in, and at the gate."""
    digest = site.run(NetworkKeys().hash_of(site.registry.pool, f"network 1 {ADDRESS}"))
    account = session_number_from(digest)
    prompt = hashlib.sha256(TEXTS["prompt"].encode()).digest()
    hmac, token = secrets.token_bytes(32), secrets.token_bytes(32)
    values = {"s": session, "m": UUID(int=1), "p": [account], "account": account, "sha": prompt, **TEXTS}
    with connect(site.database) as connection:
        for text in (
            "INSERT INTO live_prompts (arena, number, sha256) VALUES (1, 1, %(sha)s)",
            (
                "INSERT INTO live_battles (arena, matchup, session, category, free_prompt, payers)"
                " VALUES (1, %(m)s, %(s)s, 0, 1, %(p)s)"
            ),
            (
                "INSERT INTO live_turns (arena, matchup, turn, prompt, answer_a, answer_b, state, ended_at)"
                " VALUES (1, %(m)s, 1, %(prompt)s, %(answer)s, %(answer)s, 'done', now())"
            ),
            (
                "INSERT INTO live_calls (arena, matchup, turn, side, model, session, day, max_tokens, state)"
                " VALUES (1, %(m)s, 1, 0, 0, %(s)s, current_date, 9, 'done')"
            ),
            "INSERT INTO live_slots (arena, session) VALUES (1, %(s)s)",
            (
                "INSERT INTO live_spending (arena, session, day, counted) VALUES (1, %(s)s, current_date, 5),"
                " (1, %(account)s, current_date - 1, 5)"
            ),
            "INSERT INTO sessions (session, source, gate) OVERRIDING SYSTEM VALUE VALUES (%(s)s, 0, 1)",
            "INSERT INTO consents (arena, session, sha256) VALUES (1, %(s)s, '\\x01')",
        ):
            connection.execute(text, values)
        connection.execute(
            "INSERT INTO people (identity_hmac, session, name, groups) VALUES (%s, %s, %s, '{}')",
            (hmac, session, TEXTS["name"]),
        )
        connection.execute(
            "INSERT INTO person_sign_ins (token_sha256, person, state_sha256, expires_at)"
            " SELECT %s, person, '\\x03', now() + interval '1 day' FROM people WHERE session = %s",
            (token, session),
        )
    return {
        "account": str(account),
        "prompt hash": prompt.hex(),
        "identity": hmac.hex(),
        "sign-in": token.hex(),
    }


def dumped(site, folder):
    """A backup by the product as text, with numbers that lie packed in compressed states spelled out."""
    made = back_up(site.database, folder, FolderStorage(folder / "responses"))
    with tarfile.open(made.path) as tar:
        (folder / "database.dump").write_bytes(tar.extractfile("database.dump").read())
    with connect(site.database) as connection:
        programs = find_pg_dump_folder(connection.info.server_version)
    command = [str(programs / "pg_restore"), "-f", "-", str(folder / "database.dump")]
    text = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    assert "COPY public.audit" in text
    return text + packed(site.database)


def packed(database):
    found = set()
    with connect(database) as connection:
        for (state,) in connection.execute("SELECT state FROM checkpoints").fetchall():
            for fold in ArenaFold.restore_all(bytes(state)):
                found |= set(fold.standing.vote_log.columns()["session"].tolist())
                found |= set(fold.standing.sessions.saved()["session"].tolist())
        for (explored,) in connection.execute("SELECT explored FROM report_sums").fetchall():
            found |= set(decode_state(bytes(explored))[0]["session"].tolist())
    return " ".join(map(str, sorted(found)))


def exported(site):
    """Every export: of battles, by an operator and by anybody."""
    client = site.client(make_token(site.database, "admin", name=secrets.token_hex(4)))
    texts = [client.get(f"/api/v1/arenas/arena/battles?format={form}").text for form in ("jsonl", "csv")]
    for path in ("audit", "complaints", "exclusions"):
        texts.append(client.get(f"/api/v1/arenas/arena/{path}").text)
    return "".join(texts)


def forms_of(session):
    """A number as it may be written: in decimals, and as bytes in hexadecimals."""
    return {str(session), session.to_bytes(8, "big").hex(), session.to_bytes(8, "little").hex()}


def board(site):
    close_window(site.database, 1)
    rate_and_show(site)
    found = site.client().get("/api/v1/arenas/arena/board").json()
    for row in found["rows"]:
        # How many votes a rule still needs is estimated from what was served: matchups that were open have ended.
        row["waiting"] = [{**rule, "missing": None} for rule in row["waiting"]]
    return found


def test_after_a_deletion_nothing_holds_the_voter(site, logged, tmp_path):
    other, ada = site.client(), site.client()
    ada.headers["x-forwarded-for"] = ADDRESS
    vote(other, 12)
    vote(ada, 9, TEXTS)
    session, cookie = session_of(ada), ada.cookies[VOTER_COOKIE]
    needles = {**TEXTS, **furnish(site, session), "cookie": cookie.partition(".")[0]}
    needles |= {f"number {k}": form for k, form in enumerate(sorted(forms_of(session)))}
    vote(other, 3)
    before = board(site)
    first = tmp_path / "first"
    first.mkdir()
    found = dumped(site, first)
    kept = {name for name, needle in needles.items() if needle in found}
    packed_forms = {name for name in needles if name.startswith("number ")} - {
        name for name, needle in needles.items() if needle == str(session)
    }
    assert kept >= needles.keys() - {"cookie"} - packed_forms

    data = ada.get(f"{MINE}/data.json").json()["voters"][0]
    assert data["session"] == str(session)
    assert data["account"]["name"] == TEXTS["name"]
    (held,) = data["arenas"]
    assert len(held["matchups"]) == 9
    assert held["remarks"][0]["comment"] == TEXTS["remark"]
    assert held["reports"][0]["note"] == TEXTS["report"]
    assert held["live_prompts"][0]["prompt"] == TEXTS["prompt"]
    assert all(one["model_a"] for one in held["matchups"])
    question = ada.get(f"{MINE}/delete", headers={"accept": "text/html"}).text
    assert "stay, without" in question

    answer = ada.post(f"{MINE}/delete")
    assert answer.status_code == 303
    assert VOTER_COOKIE not in ada.cookies
    assert ada.get(f"{MINE}/data.json").json()["voters"] == []
    after = board(site)
    assert after["rows"] == before["rows"]
    assert (before["votes"], after["votes"]) == (24, 24)
    later = tmp_path / "later"
    later.mkdir()
    texts = {
        "backup": dumped(site, later),
        "exports": exported(site),
        "logs": logged.getvalue(),
        "metrics": site.client(make_token(site.database, "metrics", name="m")).get("/metrics").text,
    }
    needles["address"] = ADDRESS
    left = {
        (place, name) for place, text in texts.items() for name, needle in needles.items() if needle in text
    }
    assert left == set()


def test_without_a_session_there_is_nothing(site):
    visitor = site.client()
    visitor.headers["accept"] = "text/html"
    for path in ("data", "delete"):
        page = visitor.get(f"{MINE}/{path}")
        assert page.status_code == 200
        assert page.headers["cache-control"] == "private, no-store"
        assert "Nothing is stored" in page.text
    assert visitor.post(f"{MINE}/delete").headers["location"] == f"{MINE}/data"
    assert "deleted" in visitor.get(f"{MINE}/deleted").text


def test_names_stay_hidden_until_they_were_shown(site):
    client = site.client()
    matchup = client.post(ASK, json={}).json()["matchup"]
    client.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": "tie"})
    (held,) = client.get(f"{MINE}/data.json").json()["voters"][0]["arenas"]
    assert [(one["model_a"], one["outcome"]) for one in held["matchups"]] == [(None, "tie")]
    assert f"{MINE}/data" in client.get(MINE).text


def test_every_column_with_a_voters_number_is_erased(site):
    """A new column that holds voters' numbers or addresses must be erased too: add it here and to the erasure."""
    known = {
        *{
            "complaints",
            "consents",
            "endings",
            "events",
            "live_battles",
            "live_calls",
            "live_slots",
            "live_spending",
            "matchups",
        },
        *{"panel_raters", "people", "remarks", "sessions", "told_responses"},
        # Sessions of operators, which have numbers of their own.
        "operator_sessions",
    }
    with connect(site.database) as connection:
        rows = connection.execute(
            "SELECT DISTINCT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
            " AND (column_name ~ 'session|network|address|voter|payer' OR column_name = 'person')"
            " AND table_name !~ '_b[0-9]+(_[0-9]+)?$'"
        ).fetchall()
    elsewhere = {
        ("battles", "session"),
        ("live_battles", "payers"),
        ("operator_sessions", "address"),
        ("person_sign_ins", "person"),
        ("people", "person"),
        ("processes", "address"),
        ("sessions", "network"),
    }
    assert {table for table, column in rows if column == "session" and table != "battles"} <= known
    assert {row for row in rows if row[1] != "session"} <= elsewhere
