"""A full disk refuses votes; it does not lose any."""

import shutil
import time

import pytest

from support.faults.children import wait_until
from support.faults.mortal_server import MortalServer, end, new_folder
from support.faults.scenes import scene
from support.faults.small_disk import small_disk
from tiltyard.postgres.connections import connect


@pytest.fixture(scope="module")
def place():
    """A server whose tables have one small disk, and its write-ahead log another."""
    with small_disk(200) as tables, small_disk(96) as wal:
        folder = new_folder()
        server = MortalServer(folder)
        server.data = tables.folder / "data"
        try:
            server.init("--waldir", wal.folder / "wal", "--wal-segsize=1")
            server.start()
            with scene(server, raters=["quick rater"]) as made:
                yield made, tables, wal
        finally:
            end(server)
            shutil.rmtree(folder, ignore_errors=True)


def refused_since(crowd, before):
    return crowd.answers["503"] > before


@pytest.mark.slow
def test_a_full_disk_under_the_tables_refuses_votes_until_there_is_room(place):
    made, tables, _ = place
    with made.crowd() as crowd:
        crowd.next_vote(time.monotonic(), 60.0)
        refused = crowd.answers["503"]
        tables.fill()
        # Tables grow by pages: what has room on its last page is still taken.
        wait_until(lambda: refused_since(crowd, refused), 60.0, "a refusal")
        assert made.server.answers()
        assert "device" in made.server.said()
        tables.empty()
        crowd.next_vote(time.monotonic() + 0.5, 60.0)
    made.settle()


@pytest.mark.slow
def test_a_full_disk_under_the_write_ahead_log_refuses_votes_until_there_is_room(place):
    made, _, wal = place
    with made.crowd() as crowd:
        crowd.next_vote(time.monotonic(), 60.0)
        refused = crowd.answers["503"]
        wal.fill()
        with connect(made.server.url) as connection:
            connection.execute("CREATE TABLE ballast (line text)")
        wait_until(lambda: _write_much(made.server), 60.0, "a server that has no room")
        wait_until(lambda: refused_since(crowd, refused), 60.0, "a refusal")
        assert "PANIC" in made.server.said()
        wal.empty()
        wait_until(lambda: _is_up(made.server), 60.0, "a server that is up again")
        crowd.next_vote(time.monotonic() + 0.5, 60.0)
    made.settle()


def _is_up(server):
    """Whether it answers; one that has given up is started. It may give up a while after its panic."""
    if not server.running():
        server.start()
    return server.answers()


def _write_much(server):
    """Use up what is left of the log; whether that has failed."""
    try:
        with connect(server.url) as connection:
            connection.execute(
                "INSERT INTO ballast SELECT repeat(md5(n::text), 50) FROM generate_series(1, 2000) n"
            )
    except Exception:
        return True
    return False
