"""``tiltyard demo``: an arena that is filled through the real desk, served, and gone afterwards."""

import asyncio
import json
import os
import pwd
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest

from support.command import run
from support.live_arenas import made_arena
from tiltyard.arena import demo_arena
from tiltyard.arena.boards.snapshots import latest_snapshot
from tiltyard.arena.content.arenas import find_arena
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.demo_arena import fill_demo_arena
from tiltyard.arena.operators.exclusions import list_exclusions
from tiltyard.arena.registry import ArenaRegistry
from tiltyard.cli.demo import _filled, demo_script
from tiltyard.errors import Conflict, TiltyardError
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.environment import Environment
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.simulation.demo.demo_roster import NEWCOMER, RETIRED
from tiltyard.web.server.startup import prepare_server

PATIENCE = 120.0
#: Its pictures and sounds are drawn once: two seconds of CPU.
script = cache(demo_script)


def filled(url, folder, votes, seed=7, on_vote=lambda _done: None):
    """How many votes were cast to fill a database's arena."""

    async def filling():
        async with open_pool(url, most=8) as pool:
            registry = ArenaRegistry(ServingSettings(), url, pool, BlobStore(pool, FolderStorage(folder)))
            return await fill_demo_arena(registry, script(), votes=votes, seed=seed, on_vote=on_vote)

    return asyncio.run(filling())


def looked(url, look):
    async def looking():
        async with open_pool(url, most=1) as pool, pool.connection() as connection:
            return await look(connection, (await find_arena(connection, "demo")).arena)

    return asyncio.run(looking())


def board(url, source=0):
    found = looked(url, lambda connection, arena: latest_snapshot(connection, arena, source))
    return json.loads(found.document)


@pytest.mark.slow
def test_a_filled_arena_shows_something_on_every_page(database, tmp_path):
    heard = []
    assert filled(database, tmp_path, 300, on_vote=heard.append) == 300
    assert heard == list(range(301))
    people, judges = board(database), board(database, source=1)
    assert people["votes"] == 300
    assert judges["votes"] >= 50
    rows = {row["model"]: row for row in people["rows"]}
    assert len(rows) == 10
    assert rows[RETIRED]["rank"] is None
    assert rows[NEWCOMER]["badge"] == "provisional"
    assert rows[NEWCOMER]["votes"] > 0
    (excluded,) = looked(database, list_exclusions)
    assert (excluded.votes, excluded.restored) == (15, None)
    with connect(database) as connection:
        assert connection.execute("SELECT reason FROM complaints").fetchall() == [("broken",)]
        kinds = {kind for (kind,) in connection.execute("SELECT DISTINCT kind FROM events").fetchall()}
        (remarks,) = connection.execute("SELECT count(*) FROM remarks").fetchone()
    assert kinds >= {0, 1, 2, 4, 5, 6, 9, 10, 12, 13}
    assert remarks > 0


def test_voters_who_change_their_minds_cannot_once_the_names_are_told(database, tmp_path, monkeypatch):
    """The last vote of a session tells its names, so that it cannot be undone."""
    monkeypatch.setattr(demo_arena, "_SKIP_PROBABILITY", 0.0)
    monkeypatch.setattr(demo_arena, "_UNDO_PROBABILITY", 1.0)
    monkeypatch.setattr(demo_arena, "_CONCURRENT_VOTER_COUNT", 1)
    monkeypatch.setattr(demo_arena, "_MEAN_SESSION_MATCHUPS", 10_000)
    assert filled(database, tmp_path, 25) == 25


@pytest.mark.slow
def test_a_second_run_goes_on_and_a_third_has_nothing_to_do(database, tmp_path):
    assert filled(database, tmp_path, 25) == 25
    assert filled(database, tmp_path, 90, seed=8) == 30
    before = board(database)
    assert filled(database, tmp_path, 90) == 0
    assert board(database) == before
    assert len(looked(database, list_exclusions)) == 1


@pytest.mark.slow
def test_votes_count_at_once_also_on_a_public_address(database, tmp_path):
    """As for somebody whose own service has a `TILTYARD_BASE_URL`."""
    environment = Environment(home=tmp_path, database_url=database, variables={})
    public = ServingSettings(
        host="0.0.0.0", base_url="https://arena.example.org", trusted_proxies=("127.0.0.1",)
    )
    for votes in (10, 0):
        asyncio.run(prepare_server(database, environment, public))
        assert asyncio.run(_filled(database, environment, public, 10, 7, lambda _done: None)) == votes
    assert board(database)["votes"] == 10


@pytest.mark.slow
def test_nobody_votes_in_an_arena_of_others_that_has_the_same_name(database, tmp_path):
    made_arena(database, name="demo")
    with pytest.raises(Conflict, match="does not have the demo's models"):
        filled(database, tmp_path, 10)
    with connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM matchups").fetchone() == (0,)


def test_an_option_of_the_arena_does_nothing_for_a_file(tmp_path):
    ran = run("demo", "--votes", "5", "battles", tmp_path / "battles.jsonl")
    assert ran.code == 2
    assert "--votes" in ran.err
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken_is_told_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TILTYARD_HOME", "kept")
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            ran = run("demo", "--port", taken.getsockname()[1])
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert ran.code == 2
    assert "--port" in ran.err
    assert list(tmp_path.iterdir()) == []


class SlowBoards:
    """Boards that come in four steps."""

    def __init__(self):
        self.votes = 0

    def newest(self, _arena):
        self.votes += 25
        return [SimpleNamespace(source=source, votes=self.votes // (1 + source)) for source in (0, 1)]


@pytest.mark.parametrize("works", [True, False])
def test_a_slow_rater_is_waited_for_and_one_that_ended_is_not(works, monkeypatch, caplog):
    monkeypatch.setattr(demo_arena, "_TELLING_SECONDS", 0.01)
    registry, queue = SimpleNamespace(boards=SlowBoards(), pool=None), SimpleNamespace(arena=1)
    play = demo_arena._DemoRun(registry, queue, script(), 7, lambda _done: None)
    play.people, play.judges = 100, 50
    rater = SimpleNamespace(is_alive=lambda: works or registry.boards.votes < 50)
    with nullcontext() if works else pytest.raises(TiltyardError, match="75 of 150"):
        asyncio.run(play.published(rater))
    assert "37 of 150" in caplog.text
    assert registry.boards.votes == (100 if works else 50)


def unprivileged():
    known = {one.pw_name for one in pwd.getpwall()}
    return ["--as-user", "postgres" if "postgres" in known else "nobody"] if os.getuid() == 0 else []


@contextmanager
def started(folder, *arguments):
    """The command as a person starts it; what it says goes to a file."""
    out, err = folder / "out.txt", folder / "err.txt"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TILTYARD_")}
    command = [sys.executable, "-m", "tiltyard", "demo", "--port", "0", *map(str, arguments), *unprivileged()]
    with out.open("w") as said, err.open("w") as logged:
        others = {
            "DATABASE_URL": "postgresql://nowhere.invalid/none",
            "TILTYARD_RESPONSES_URL": "s3://nowhere/x",
        }
        environment = kept | others
        process = subprocess.Popen(command, stdout=said, stderr=logged, env=environment, cwd=folder)
        try:
            yield process, out, err
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(PATIENCE)


def address(process, out, err):
    end = time.monotonic() + PATIENCE
    while "Ctrl-C" not in out.read_text():
        assert process.poll() is None, err.read_text()
        assert time.monotonic() < end, err.read_text()
        time.sleep(0.1)
    return re.search(r"ready: (http\S+)/arenas/demo", out.read_text())[1]


@pytest.mark.slow
def test_one_command_makes_fills_serves_and_removes_everything(tmp_path):
    before = set(Path(tempfile.gettempdir()).glob("tiltyard-demo-*"))
    with started(tmp_path, "--votes", 40) as (process, out, err):
        url = address(process, out, err)
        assert httpx2.get(f"{url}/api/v1/arenas/demo/board").json()["votes"] == 40
        assert re.search(rf"{url}/claim/[\w-]{{43}}\n", out.read_text())
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    assert out.read_text().endswith("Stopped; all demo data was deleted.\n")
    assert set(Path(tempfile.gettempdir()).glob("tiltyard-demo-*")) == before


@pytest.mark.slow
def test_a_given_home_is_kept_and_goes_on():
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        place.chmod(0o755)
        for votes, cast in ((30, "30 votes"), (30, "")):
            with started(place, "--votes", votes, "--home", place / "home") as (process, out, err):
                url = address(process, out, err)
                assert httpx2.get(f"{url}/api/v1/arenas/demo/board").json()["votes"] == 30
                assert ("have cast" in out.read_text()) == bool(cast)
                assert cast in out.read_text()
                process.send_signal(signal.SIGINT)
                assert process.wait(PATIENCE) == 0
        assert (place / "home" / "postgres" / "data").is_dir()


@pytest.mark.slow
def test_stopped_while_it_fills_it_leaves_nothing(tmp_path):
    before = set(Path(tempfile.gettempdir()).glob("tiltyard-demo-*"))
    with started(tmp_path, "--votes", 50_000) as (process, _, err):
        end = time.monotonic() + PATIENCE
        while "rating arena demo" not in err.read_text():
            assert time.monotonic() < end, err.read_text()
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130, err.read_text()
    assert set(Path(tempfile.gettempdir()).glob("tiltyard-demo-*")) == before
