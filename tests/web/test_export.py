"""Battles by HTTP: a file that the other door reads, streamed, under pseudonyms."""

import hashlib
import socket
import time
from contextlib import ExitStack

import pytest

import tiltyard
from live_arenas import made_arena
from postgres_servers import fresh_database
from served import make_token, served
from tiltyard.postgres.connections import connect
from voted_arenas import close_window, lay_votes, voted

BATTLES = "/api/v1/arenas/arena/battles"
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
    answer = running.client().get(BATTLES, params={"format": container})
    assert answer.status_code == 200
    file = tmp_path / f"battles.{container}"
    file.write_bytes(answer.content)
    table = tiltyard.read_table(str(file))
    assert table.n_battles == 25
    position = answer.headers["tiltyard-position"]
    assert answer.headers["content-disposition"] == (
        f'attachment; filename="arena-battles-{position}.{container}"'
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


def test_a_release_is_named_by_the_operator_only(running):
    database = running.database
    named = {"release": "2026-11"}
    nobody = running.client()
    assert nobody.get(BATTLES, params=named).status_code == 401
    for scope in ("read", "import", "judge"):
        client = running.client(make_token(database, scope, name=scope))
        assert client.get(BATTLES, params=named).status_code == 403
    admin = running.client(make_token(database, "admin", name="admin"))
    one, same, other = (
        hashlib.sha256(admin.get(BATTLES, params={"release": name}).content).hexdigest()
        for name in ("a", "a", "b")
    )
    assert one == same != other
    assert nobody.get(BATTLES).content != nobody.get(BATTLES).content


def test_an_export_as_of_a_position_stays_what_it_was(running):
    database = running.database
    admin = running.client(make_token(database, "admin", name="admin"))
    first = admin.get(BATTLES, params={"release": "r"})
    upto = int(first.headers["tiltyard-position"])
    assert admin.get(BATTLES, params={"upto": upto + 1}).status_code == 422
    close_window(database)
    assert admin.get(BATTLES, params={"release": "r", "upto": upto}).content == first.content


@pytest.mark.parametrize("wrong", [{"format": "xlsx"}, {"source": "me"}, {"upto": -1}, {"upto": 2**63}])
def test_what_makes_no_sense_is_refused(running, wrong):
    assert running.client().get(BATTLES, params=wrong).status_code == 422


@pytest.mark.slow
def test_a_reader_who_leaves_gives_up_its_place(database, tmp_path):
    made_arena(database, 4, 10)
    lay_votes(database, 1, 6_000, 4, 10)
    with served(database, folder=tmp_path) as running:
        for _ in range(6):
            client = running.client()
            with client.stream("GET", BATTLES) as answer:
                assert answer.status_code in {200, 503}
                next(answer.iter_bytes())
        last = running.client()
        end = time.monotonic() + 60
        while (answer := last.get(BATTLES)).status_code != 200:
            assert answer.headers["retry-after"] == "10"
            assert time.monotonic() < end, "readers who left keep their places"
            time.sleep(0.05)
        assert answer.text.count("\n") == 6_000


@pytest.mark.slow
def test_readers_who_take_nothing_give_up_their_places(database, tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO", "tiltyard.web.export_slots")
    monkeypatch.setattr("tiltyard.web.export_slots._STALLED_READER_SECONDS", 0.5)
    made_arena(database, 4, 10)
    lay_votes(database, 1, 12_000, 4, 10)
    with served(database, folder=tmp_path) as running, ExitStack() as stalled:
        host, _, port = running.url.removeprefix("http://").partition(":")
        for _ in range(2):
            idle = stalled.enter_context(socket.socket())
            idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            idle.connect((host, int(port)))
            idle.sendall(f"GET {BATTLES} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            assert idle.recv(12) == b"HTTP/1.1 200"
        slots = running.context.exports
        end = time.monotonic() + 60
        while caplog.text.count("the client read nothing") < 2 or len(slots):
            assert time.monotonic() < end, "stalled readers keep their places"
            time.sleep(0.02)
        assert running.client().get(BATTLES, params={"upto": 100}).status_code == 200
