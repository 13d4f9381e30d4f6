"""Upgrading the embedded database, for real: from PostgreSQL 15 and 16 to 18."""

import shutil

import pytest

from support.bare_arenas import append, make_arena
from support.postgres_servers import DEBIAN, account, new_home
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.maintenance import major_upgrade
from tiltyard.arena.maintenance.backup import read_backup
from tiltyard.arena.maintenance.major_upgrade import upgrade_database
from tiltyard.errors import BadOption, StoreFault
from tiltyard.postgres.binaries import Binaries, bundled_folder
from tiltyard.postgres.connections import connect
from tiltyard.postgres.embedded_server import EmbeddedServer
from tiltyard.postgres.schema_migrations import migrate

USER = None if account() is None else account().pw_name


@pytest.fixture
def home():
    folder = new_home()
    yield folder
    shutil.rmtree(folder)


def fill(home, binaries):
    with EmbeddedServer(home, user=USER, binaries=binaries) as server:
        migrate(server.url)
        arena = make_arena(server.url, "first")
        with connect(server.url) as connection:
            append(connection, arena, 100)
            connection.execute("ALTER SYSTEM SET work_mem = '7MB'")


def upgrade(home, **more):
    return upgrade_database(home, FolderStorage(home / "responses"), user=USER, **more)


def check_upgraded(home, done, old):
    assert (done.old, done.new) == (old, 18)
    assert read_backup(done.backup).arenas == {"first": 100}
    assert read_backup(done.backup).postgresql.startswith(str(old))
    assert (done.kept / "PG_VERSION").read_text() == f"{old}\n"
    with EmbeddedServer(home, user=USER) as server, connect(server.url) as connection:
        assert connection.info.server_version // 10_000 == 18
        assert connection.execute("SELECT count(*), max(position) FROM events").fetchone() == (100, 100)
        assert connection.execute("SHOW work_mem").fetchone() == ("7MB",)
        append(connection, 1, 1)
    assert upgrade(home) is None


@pytest.mark.slow
def test_debians_15_becomes_18(home, debian):
    fill(home, DEBIAN)
    with pytest.raises(StoreFault, match="PostgreSQL 15"):
        EmbeddedServer(home, user=USER).start()
    check_upgraded(home, upgrade(home, old_binaries=DEBIAN), 15)


def without_pg_upgrade(monkeypatch):
    """Programs among which pg_upgrade fails, as it does where the old server keeps what ours does not know."""
    attempt = Binaries.attempt

    def refusing(self, program, *arguments, **more):
        if program == "pg_upgrade":
            logs = more["cwd"] / "data.new" / "pg_upgrade_output.d" / "20261116" / "log"
            logs.mkdir(parents=True)
            (logs / "pg_upgrade_dump_5.log").write_text(
                "command: pg_restore\nERROR:  unrecognized parameter\n"
            )
            return 1, "Restoring database schemas\n*failure*"
        return attempt(self, program, *arguments, **more)

    monkeypatch.setattr(Binaries, "attempt", refusing)


@pytest.mark.slow
def test_where_pg_upgrade_fails_the_backup_is_restored_instead(home, debian, monkeypatch):
    fill(home, DEBIAN)
    without_pg_upgrade(monkeypatch)
    done = upgrade(home, old_binaries=DEBIAN)
    assert done.problem == "ERROR:  unrecognized parameter"
    check_upgraded(home, done, 15)
    assert sorted(path.name for path in (home / "postgres").glob("data*")) == ["data", "data-15"]
    with EmbeddedServer(home, user=USER) as server, connect(server.url) as connection:
        assert connection.execute("SELECT action FROM audit").fetchall() == [("backup",)]


@pytest.mark.slow
def test_where_that_fails_too_the_old_data_stay(home, debian, monkeypatch):
    fill(home, DEBIAN)
    without_pg_upgrade(monkeypatch)

    def failing(*_):
        raise StoreFault("pg_restore failed: no room")

    with monkeypatch.context() as patch:
        patch.setattr(major_upgrade, "restore_database", failing)
        with pytest.raises(StoreFault, match="pg_upgrade failed"):
            upgrade(home, old_binaries=DEBIAN)
    assert sorted(path.name for path in (home / "postgres").glob("data*")) == ["data"]
    # The backup of the failed attempt has another name.
    check_upgraded(home, upgrade(home, old_binaries=DEBIAN), 15)


@pytest.mark.slow
def test_the_wheels_16_becomes_18_with_the_programs_that_are_there(home):
    fill(home, bundled_folder(16))
    with (
        EmbeddedServer(home, user=USER, binaries=bundled_folder(16)),
        pytest.raises(StoreFault, match="is in use"),
    ):
        upgrade(home)
    with pytest.raises(BadOption, match="18, but the"):
        upgrade(home, old_binaries=bundled_folder(18))
    with pytest.raises(BadOption, match="PostgreSQL 16, whose"):
        upgrade(home, old_binaries=home / "nowhere")
    done = upgrade(home)
    check_upgraded(home, done, 16)
    shutil.move(home / "postgres" / "data", home / "postgres" / "data.new")
    with pytest.raises(StoreFault, match="upgrade-database again"):
        EmbeddedServer(home, user=USER).start()
    check_upgraded(home, upgrade(home), 16)


def test_a_home_without_a_database_is_told(home):
    with pytest.raises(StoreFault, match="embedded database"):
        upgrade(home)
