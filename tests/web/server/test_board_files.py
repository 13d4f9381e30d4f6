"""Boards as files: what strangers may read and nothing else, in a bucket and in a folder; what a static server needs."""

import asyncio
import json
import re
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from moto.server import ThreadedMotoServer
from obstore.store import S3Store

from support.live_arenas import made_arena
from support.served import served
from support.voted_arenas import close_window, rate, voted
from tiltyard.arena.boards.snapshots import latest_snapshot
from tiltyard.arena.content.object_storage import PublicFiles
from tiltyard.arena.operators.arena_changes import change_settings, withdraw
from tiltyard.arena.operators.exclusions import VoteSelection, exclude
from tiltyard.arena.operators.voter_data import erase_session
from tiltyard.arena.processes.process_leases import ProcessRing
from tiltyard.errors import BadOption
from tiltyard.postgres.connections import connect
from tiltyard.web.pages import board, charts
from tiltyard.web.server import board_files
from tiltyard.web.server.board_files import KEPT_SECONDS, BoardFiles

POINTER = "api/v1/arenas/arena/newest"
NOTE = "written/1.json"


@pytest.fixture(scope="module")
def bucket():
    """The settings of a local S3 server with a bucket."""
    server = ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    options = {"endpoint": address, "access_key_id": "a", "secret_access_key": "b", "region": "us-east-1"}
    import urllib.request

    urllib.request.urlopen(urllib.request.Request(f"{address}/boards", method="PUT"))
    assert S3Store("boards", client_options={"allow_http": True}, **options)
    yield {
        "AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1",
    }  # fmt: skip
    server.stop()


@pytest.fixture
def plain(monkeypatch):
    """Without pictures, which take seconds to draw."""
    monkeypatch.setattr(charts, "_charts_available", lambda: False)
    monkeypatch.setattr(board, "charts_available", lambda: False)


@contextmanager
def writing(database, url, variables=None):
    """A server, and a writer that does what `turn` says."""
    with served(database) as running:
        files = PublicFiles(url, variables or {})

        def writer():
            return BoardFiles(running.app, running.registry, files, ProcessRing(1))

        made = SimpleNamespace(now=writer())

        def turn(*, new=False):
            made.now = writer() if new else made.now
            made.now._written_at.clear()

            async def work():
                await made.now.look()
                await made.now.write_due()

            asyncio.run_coroutine_threadsafe(work(), running.loop).result(300)
            return sorted(name for name in files.list("") if not name.startswith("assets/"))

        yield SimpleNamespace(running=running, files=files, turn=turn, pool=running.registry.pool)


def newest(database):
    """The hash of the newest board."""

    async def read():
        from tiltyard.postgres.connections import connect_async

        async with await connect_async(database) as connection:
            return (await latest_snapshot(connection, 1, 0)).sha256

    return asyncio.run(read())


def hashes(names):
    return set(re.findall(r"[0-9a-f]{64}", " ".join(names)))


@pytest.mark.usefixtures("plain")
def test_a_folder_has_what_the_service_answers(database, tmp_path):
    voted(database, votes=20)
    rate(database)
    with writing(database, f"file://{tmp_path}/boards") as place:
        names = place.turn()
        client = place.running.client()
        sha256 = newest(database)
        assert hashes(names) == {sha256}
        assert {f"arenas/arena/in={one}/index.html" for one in ("en", "fr", "ar")} < set(names)
        assert {
            POINTER,
            NOTE,
            "api/v1/arenas/arena/board",
            "arenas/arena/board.csv",
            "arenas/arena/badge.svg",
        } < set(names)
        assert f"arenas/arena/snapshot={sha256}/board.csv" in names
        for name, address in {
            "arenas/arena/in=fr/index.html": "/arenas/arena?in=fr",
            "arenas/arena/in=en/index.html": "/arenas/arena",
            POINTER: f"/{POINTER}",
            f"api/v1/arenas/arena/snapshots/{sha256}": f"/api/v1/arenas/arena/snapshots/{sha256}",
            "arenas/arena/badge.svg": "/arenas/arena/badge.svg",
        }.items():
            answer = client.get(address, headers={"cookie": "tiltyard_theme=dark; tiltyard_language=ar"})
            assert place.files.find(name) == answer.content, name
            assert "cookie" not in answer.headers.get("vary", "").lower(), name
        assert json.loads(place.files.find(POINTER))["snapshots"]["human"] == sha256
        page = place.files.find("arenas/arena/in=en/index.html").decode()
        loaded = re.findall(r'(?:src|href)="(/assets/[^"]+)"', page)
        assert loaded
        for one in loaded:
            assert place.files.find(one.strip("/")) is not None
            assert (tmp_path / "boards" / (one.strip("/") + ".gz")).is_file() or one.endswith(".woff2")
        before = {name: place.files.list("")[name] for name in names}
        assert place.turn(new=True) == names
        assert {name: place.files.list("")[name] for name in names} == before, "nothing is written again"


@pytest.mark.usefixtures("plain")
def test_old_files_and_those_of_a_killed_writer_are_collected(database, tmp_path, monkeypatch):
    voted(database, votes=20)
    rate(database)
    with writing(database, f"file://{tmp_path}") as place:
        put, old = place.files.put, newest(database)
        place.files.put = lambda name, *rest: killed() if name == POINTER else put(name, *rest)
        with pytest.raises(RuntimeError):
            place.turn()
        place.files.put = put
        with connect(database) as connection:
            connection.execute('UPDATE arenas SET settings = settings || \'{"visibility": "closed"}\'')
        assert place.turn(new=True) == [], "killed before its end, and the arena was closed"
        with connect(database) as connection:
            connection.execute('UPDATE arenas SET settings = settings || \'{"visibility": "open"}\'')
        assert hashes(place.turn(new=True)) == {old}
        more_votes(place, database)
        assert newest(database) != old
        assert hashes(place.turn()) == {old, newest(database)}, "open pages may still load the old ones"
        monkeypatch.setattr(board_files, "KEPT_SECONDS", -KEPT_SECONDS)
        more_votes(place, database)
        assert hashes(place.turn()) == {newest(database)}


def killed():
    raise RuntimeError


def more_votes(place, database):
    from support.voted_arenas import cast

    async def scene():
        await cast(
            await place.running.registry.voting_queue("arena"), 10, seed=len(newest_of(database)), voters=3
        )

    place.running.run(scene())
    close_window(database)
    rate(database)


def newest_of(database):
    with connect(database) as connection:
        return connection.execute("SELECT sha256 FROM snapshots").fetchall()


@pytest.mark.usefixtures("plain")
def test_in_a_bucket_what_is_closed_excluded_taken_down_or_erased_leaves_the_files(database, bucket):
    """After one turn, which comes within seconds: nothing is left that strangers may not read any more."""
    voted(database, votes=40)
    rate(database)
    with writing(database, "s3://boards/of/tests", bucket) as place:
        first = newest(database)
        assert hashes(place.turn()) == {first}

        def run(change):
            place.running.run(change)
            close_window(database)
            rate(database)
            return place.turn()

        # Taken down: the text of a prompt was never in a file, nor what models answered to it.
        with connect(database) as connection:
            prompt, text = connection.execute("SELECT name, text FROM prompts WHERE prompt = 0").fetchone()
            model = connection.execute("SELECT name FROM models WHERE model = 0").fetchone()[0]
        blobs = place.running.registry.blobs
        run(withdraw(place.pool, blobs, "arena", prompt, model, reason="asked", actor="cli"))
        names = run(withdraw(place.pool, blobs, "arena", prompt, None, reason="asked", actor="cli"))
        assert not any(text.encode() in place.files.find(name) for name in names)
        # Excluded: the board with these votes goes at once, and not after a while.
        names = run(exclude(place.pool, "arena", VoteSelection(sessions=(1,)), "asked", actor="cli"))
        second = newest(database)
        assert hashes(names) == {second} != {first}
        # Erased.
        names = run(erase_session(place.pool, "arena", 2, reason="asked", actor="cli"))
        assert hashes(names) <= {second, newest(database)}
        assert newest(database) in hashes(names)
        for settings in ({"visibility": "closed"}, {"entry": "passcode"}):
            place.running.run(change_settings(place.pool, "arena", settings, actor="cli"))
            assert place.turn() == []
            back = {"visibility": "open", "entry": "open"}
            place.running.run(change_settings(place.pool, "arena", back, actor="cli"))
            assert newest(database) in hashes(place.turn(new=True))
        with connect(database) as connection:
            connection.execute('UPDATE arenas SET settings = settings || \'{"stage": "deleted"}\'')
        assert place.turn() == []


@pytest.mark.usefixtures("plain")
def test_only_what_is_public_and_this_process_s_share_is_written(database, tmp_path):
    made_arena(database)
    with writing(database, f"file://{tmp_path}") as place:
        assert place.turn() == [], "there is no board"


@pytest.mark.parametrize("url", ["boards", "https://example.org/boards", "file://boards", "s3://", "s3:///x"])
def test_other_places_are_refused(url):
    with pytest.raises(BadOption, match="boards_url"):
        PublicFiles(url, {})
