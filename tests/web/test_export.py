"""Battles by HTTP: releases that everybody can rate and verify, and exact exports for operators."""

import hashlib
import io
import json
import zipfile

import pytest

import tiltyard
from support.live_arenas import made_arena
from support.postgres_servers import fresh_database
from support.served import make_token, served
from support.voted_arenas import close_window, lay_votes, rate, voted
from tiltyard.core.policy.state.policy import Policy
from tiltyard.postgres.connections import connect

BATTLES = "/api/v1/arenas/arena/battles"
EXACT = f"{BATTLES}/exact"
CONTAINERS = ("jsonl", "csv", "parquet")


@pytest.fixture(scope="module")
def running(server, template, tmp_path_factory):
    """One for all: exporting changes nothing."""
    with fresh_database(server, template) as url:
        voted(url, votes=25)
        with served(url, folder=tmp_path_factory.mktemp("responses")) as site:
            yield site


@pytest.mark.parametrize("container", CONTAINERS)
def test_the_file_is_read_by_rate(running, tmp_path, container):
    for table in ("voters", "ordered"):
        answer = running.client().get(BATTLES, params={"format": container, "table": table})
        assert answer.status_code == 200
        file = tmp_path / f"{table}.{container}"
        file.write_bytes(answer.content)
        assert tiltyard.read_table(str(file)).n_battles == 25
        position = answer.headers["tiltyard-position"]
        assert answer.headers["content-disposition"] == (
            f'attachment; filename="arena-{table}-{position}.{container}"'
        )
        assert answer.headers["cache-control"] == "no-store"


def test_an_arena_that_tells_no_names_gives_them_to_nobody_else(server, template):
    with fresh_database(server, template) as url:
        voted(url, votes=5)
        with connect(url) as connection:
            connection.execute('UPDATE arenas SET settings = settings || \'{"reveal": "never"}\'')
        with served(url) as site:
            assert site.client().get(BATTLES).status_code == 401
            judge = site.client(make_token(url, "judge", name="judge"))
            assert judge.get(BATTLES).status_code == 401
            reader = site.client(make_token(url, "read", name="read"))
            assert reader.get(BATTLES).content.count(b"\n") == 5


def test_an_arena_may_release_its_battles_without_voters_or_not_at_all(server, template):
    released = {"both": (200, 200, 200), "ordered": (401, 200, 401), "none": (401, 401, 401)}
    with fresh_database(server, template) as url:
        voted(url, votes=5)
        reader = make_token(url, "read", name="read")
        for value, expected in released.items():
            with connect(url) as connection:
                connection.execute(
                    "UPDATE arenas SET settings = settings || jsonb_build_object('releases', %s::text)",
                    (value,),
                )
            with served(url) as site:
                for table, status in zip(("voters", "ordered", "both"), expected, strict=True):
                    assert site.client().get(BATTLES, params={"table": table}).status_code == status
                    assert site.client(reader).get(BATTLES, params={"table": table}).status_code == 200


def test_everybody_gets_the_same_release_whatever_they_ask_for_twice(running):
    one, two = (running.client().get(BATTLES) for _ in range(2))
    assert one.content == two.content
    rows = [json.loads(line) for line in one.text.splitlines()]
    assert not [row for row in rows if row.get("position") or row.get("time")]


def test_the_exact_export_is_for_operators_and_in_the_audit_log(running):
    database = running.database
    named = {"release": "2026-11"}
    assert running.client().get(EXACT, params=named).status_code == 401
    for scope in ("read", "import", "judge"):
        client = running.client(make_token(database, scope, name=scope))
        assert client.get(EXACT, params=named).status_code == 403
    admin = running.client(make_token(database, "admin", name="admin"))
    one, same, other = (
        hashlib.sha256(admin.get(EXACT, params={"release": name}).content).hexdigest()
        for name in ("a", "a", "b")
    )
    assert one == same != other
    assert admin.get(EXACT).content != admin.get(EXACT).content
    with connect(database) as connection:
        entries = connection.execute(
            "SELECT actor, detail FROM audit WHERE action = 'export battles'"
        ).fetchall()
    assert [(actor, detail["release"]) for actor, detail in entries] == [
        ("token:admin", name) for name in ("a", "a", "b", None, None)
    ]


def test_an_exact_export_as_of_a_position_stays_what_it_was(running):
    database = running.database
    admin = running.client(make_token(database, "admin", name="admin"))
    first = admin.get(EXACT, params={"release": "r"})
    upto = int(first.headers["tiltyard-position"])
    assert admin.get(EXACT, params={"upto": upto + 1}).status_code == 422
    close_window(database)
    assert admin.get(EXACT, params={"release": "r", "upto": upto}).content == first.content
    for wrong in ({"upto": -1}, {"upto": 2**63}):
        assert admin.get(EXACT, params=wrong).status_code == 422


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"format": "xlsx"}, 422),
        ({"source": "me"}, 422),
        ({"table": "all"}, 422),
        ({"snapshot": "7"}, 422),
        ({"snapshot": "0" * 64}, 404),
    ],
)
def test_what_makes_no_sense_is_refused(running, wrong, status):
    assert running.client().get(BATTLES, params=wrong).status_code == status


def test_releases_end_at_permanent_boards_and_verify(server, template, tmp_path):
    with fresh_database(server, template) as url:
        made_arena(url, 3, 6, policy=Policy(evaluated_every=20))
        lay_votes(url, 1, 47, 3, 6)
        close_window(url)
        rate(url)
        with served(url) as site:
            reader = site.client()
            boards = reader.get("/api/v1/arenas/arena/snapshots").json()["snapshots"]
            newest, lasting = boards[0], [one for one in boards if one["evaluated"]]
            answer = reader.get(BATTLES, params={"table": "both", "format": "parquet"})
            assert answer.headers["content-type"] == "application/zip"
            assert answer.headers["tiltyard-snapshot"] == lasting[0]["snapshot"]
            assert newest["votes"] > lasting[0]["votes"]
            zipfile.ZipFile(io.BytesIO(answer.content)).extractall(tmp_path)
            result = tiltyard.verify(tmp_path / "release")
            assert result.passed, result.checks
            assert reader.get(BATTLES, params={"snapshot": newest["snapshot"]}).status_code == 422
            rows = reader.get(BATTLES, params={"snapshot": lasting[-1]["snapshot"]}).text.count("\n")
            assert rows == lasting[-1]["votes"]
