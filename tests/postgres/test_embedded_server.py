"""The embedded server: whoever is killed, the data stay, one server runs, and none is left behind."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from support import TESTS
from support.postgres_servers import account, new_home
from tiltyard.errors import BadOption, StoreFault
from tiltyard.postgres.binaries import Binaries, bundled_folder, choose_account, without_password
from tiltyard.postgres.connections import connect
from tiltyard.postgres.embedded_server import EmbeddedServer, Postmaster, open_database
from tiltyard.postgres.schema_migrations import pending_migrations
from tiltyard.settings.environment import read_environment

USER = None if account() is None else account().pw_name


@pytest.fixture
def home():
    """A folder that the server's user can enter; pytest's own are closed to it where tests run as root."""
    folder = new_home()
    yield folder
    found = Postmaster.read(folder / "postgres" / "data")
    if found is not None and found.alive():
        os.kill(found.pid, signal.SIGQUIT)
        wait_until(lambda: not found.alive())
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A home whose data folder was made once, to be copied: initdb takes most of a second."""
    folder = new_home()
    with embedded(folder) as server, connect(server.url) as connection:
        connection.execute("CREATE TABLE kept (number integer)")
        connection.execute("INSERT INTO kept VALUES (1)")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def used(home, made):
    """A home with a server that was used before and is stopped."""
    shutil.copytree(made / "postgres", home / "postgres")
    if account() is not None:
        for path in [home / "postgres", *(home / "postgres").rglob("*")]:
            os.chown(path, account().pw_uid, account().pw_gid)
    return home


def embedded(home, **more):
    return EmbeddedServer(home, user=USER, **more)


def wait_until(true, seconds=20.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


@contextmanager
def user_process(home):
    """Another process that uses the home's server, and the address it got."""
    script = TESTS / "support/server_process.py"
    process = subprocess.Popen(
        [sys.executable, script, home, USER or ""],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        url = process.stdout.readline().strip()
        assert url
        yield process, url
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def postmaster(home):
    return Postmaster.read(home / "postgres" / "data")


def numbers(url):
    with connect(url) as connection:
        return [row[0] for row in connection.execute("SELECT number FROM kept ORDER BY number")]


def test_nobody_is_trusted_and_nothing_is_open_to_others(made):
    folder = made / "postgres"
    rules = [
        line.split()
        for line in (folder / "data" / "pg_hba.conf").read_text().splitlines()
        if line.strip() and not line.startswith("#")
    ]
    assert rules
    assert {rule[-1] for rule in rules} == {"scram-sha-256"}
    for path in [folder, *folder.rglob("*")]:
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


def test_a_wrong_password_is_refused_and_no_address_listens(used):
    with embedded(used) as server:
        wrong = server.url.replace((used / "postgres" / "password").read_text(), "wrong")
        with pytest.raises(StoreFault, match="password authentication failed") as caught:
            connect(wrong)
        assert "wrong@" not in str(caught.value)
        with connect(server.url) as connection:
            assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
            assert connection.execute("SHOW server_encoding").fetchone() == ("UTF8",)


@pytest.mark.slow
def test_drivers_and_programs_understand_its_address(used):
    import sqlalchemy

    with embedded(used) as server:
        engine = sqlalchemy.create_engine(server.url.replace("postgresql:", "postgresql+psycopg:"))
        with engine.connect() as connection:
            assert connection.execute(sqlalchemy.text("SELECT number FROM kept")).all() == [(1,)]
        engine.dispose()
        shown, add = without_password(server.url)
        assert add["PGPASSWORD"] not in shown
        assert "CREATE TABLE public.kept" in Binaries(bundled_folder()).run("pg_dump", "-d", shown, add=add)


def test_the_first_start_makes_a_database_and_later_ones_keep_it(home):
    waits = []
    with embedded(home, on_wait=waits.append) as server, connect(server.url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS number")
        running = postmaster(home)
    assert waits
    wait_until(lambda: not running.alive())
    with embedded(home) as server:
        assert numbers(server.url) == [1]


def test_a_command_finds_the_embedded_database_with_its_tables(used):
    environment = read_environment(variables={"TILTYARD_HOME": str(used)})
    with open_database(environment, as_user=USER) as url:
        assert pending_migrations(url) == []
    assert postmaster(used) is None
    named = read_environment(variables={"TILTYARD_HOME": str(used), "DATABASE_URL": "postgresql://x/y"})
    with open_database(named) as url:
        assert url == "postgresql://x/y"
    assert postmaster(used) is None


@pytest.mark.parametrize("long", [False, True], ids=["own socket", "temporary socket"])
def test_one_that_died_is_started_again_at_the_same_address(used, long):
    """Also where its path is too long for a socket, which then lies elsewhere."""
    if long:
        used = (used / ("x" * 90)).resolve()
        shutil.copytree(used.parent / "postgres", used / "postgres", copy_function=shutil.move)
        if account() is not None:
            for path in [used, *used.rglob("*")]:
                os.chown(path, account().pw_uid, account().pw_gid)
    with embedded(used) as server:
        url, running = server.url, postmaster(used)
        assert not server.restart_if_dead()
        with connect(url) as connection:
            connection.execute("INSERT INTO kept VALUES (2)")
        os.kill(running.pid, signal.SIGKILL)
        wait_until(lambda: not running.alive())
        assert server.restart_if_dead()
        assert not server.restart_if_dead()
        assert (postmaster(used).socket, numbers(url)) == (running.socket, [1, 2])
    assert postmaster(used) is None


def test_many_who_start_at_once_get_one_server(used):
    servers = [embedded(used) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(EmbeddedServer.start, servers))) == 1
    running = postmaster(used)
    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(EmbeddedServer.stop, servers)) == 1
    wait_until(lambda: not running.alive())


def test_a_server_whose_owner_was_killed_is_adopted(used):
    with user_process(used) as (process, url):
        with connect(url) as connection:
            connection.execute("INSERT INTO kept VALUES (2)")
        running = postmaster(used)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert running.alive()
    with embedded(used) as server:
        assert postmaster(used) == running
        assert numbers(server.url) == [1, 2]
    wait_until(lambda: not running.alive())


def test_what_was_committed_survives_an_immediate_stop(used):
    server = embedded(used)
    with connect(server.start()) as connection:
        connection.execute("INSERT INTO kept SELECT generate_series(2, 1000)")
    running = postmaster(used)
    os.kill(running.pid, signal.SIGQUIT)
    wait_until(lambda: not running.alive())
    with embedded(used) as again:
        assert numbers(again.url) == [*range(1, 1001)]
    assert server.stop()


def test_a_number_of_a_process_that_is_not_the_server_misleads_nobody(used, monkeypatch):
    """After a reboot another process may have the number that the dead server had."""
    monkeypatch.setattr("tiltyard.postgres.embedded_server._UNRESPONSIVE_SECONDS", 0.5)
    server = embedded(used)
    server.start()
    path = used / "postgres" / "data" / "postmaster.pid"
    lines = path.read_text().splitlines(keepends=True)
    os.kill(int(lines[0]), signal.SIGQUIT)
    wait_until(lambda: (found := postmaster(used)) is None or not found.alive())
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        server.write(path, "".join([f"{sleeper.pid}\n", *lines[1:]]))
        assert server.stop()
        assert sleeper.poll() is None
        with embedded(used) as server:
            assert numbers(server.url) == [1]
        assert sleeper.poll() is None
    finally:
        sleeper.kill()
        sleeper.wait()


def test_a_server_that_lost_its_socket_is_not_started_twice(used, monkeypatch):
    monkeypatch.setattr("tiltyard.postgres.embedded_server._SHARED_MEMORY_WAIT_SECONDS", 0.5)
    monkeypatch.setattr("tiltyard.postgres.embedded_server._UNRESPONSIVE_SECONDS", 0.5)
    server = embedded(used)
    server.start()
    running = postmaster(used)
    shutil.rmtree(running.socket)
    with pytest.raises(StoreFault, match="still in use"):
        embedded(used).start()
    assert running.alive()
    assert postmaster(used) == running
    server.stop()


@pytest.mark.slow(but="quote'd")
@pytest.mark.parametrize(
    "name", ["with spaces", "long" * 30, "a,comma", "quote'd", 'do"uble', "$HOME`x`", "ü"]
)
def test_the_home_may_have_any_name(home, made, name):
    inner = home / name
    inner.mkdir()
    shutil.copytree(made / "postgres", inner / "postgres")
    if account() is not None:
        for path in [inner / "postgres", *(inner / "postgres").rglob("*")]:
            os.chown(path, account().pw_uid, account().pw_gid)
    with embedded(inner) as server:
        folder = Path(postmaster(inner).socket)
        assert not stat.S_IMODE(folder.stat().st_mode) & 0o077
        assert numbers(server.url) == [1]
    assert postmaster(inner) is None
    assert inner in folder.parents or not folder.exists()


def test_a_data_folder_that_is_open_to_others_is_refused(used):
    (used / "postgres" / "data").chmod(0o755)
    with pytest.raises(StoreFault, match="users: chmod 700"):
        embedded(used).start()


def test_data_of_another_version_are_refused(used):
    (used / "postgres" / "data" / "PG_VERSION").write_text("15\n")
    with pytest.raises(StoreFault, match="upgrade-database"):
        embedded(used).start()


def test_a_folder_that_is_no_database_is_refused(home):
    data = home / "postgres" / "data"
    data.mkdir(parents=True)
    data.chmod(0o700)
    for path in (data.parent, data):
        if account() is not None:
            os.chown(path, account().pw_uid, account().pw_gid)
    with pytest.raises(StoreFault, match="PostgreSQL data"):
        embedded(home).start()


def test_a_lost_password_is_told(used):
    (used / "postgres" / "password").unlink()
    with pytest.raises(StoreFault, match=r"cannot read .*password"):
        embedded(used).start()


def test_a_setting_that_makes_no_sense_is_told_from_the_log(used):
    with (used / "postgres" / "data" / "postgresql.auto.conf").open("a") as file:
        file.write("shared_buffers = 'much'\n")
    with pytest.raises(StoreFault, match="does not start"):
        embedded(used).start()


@pytest.mark.slow
def test_a_machine_without_the_locale_gets_that_of_postgresql(home, monkeypatch):
    """macOS has no C.UTF-8."""
    real = Binaries.attempt

    def attempt(self, program, *arguments, **more):
        if "--locale=C.UTF-8" in arguments:
            (home / "postgres" / "data.new").mkdir()
            return 1, 'initdb: error: invalid locale name "C.UTF-8"'
        return real(self, program, *arguments, **more)

    monkeypatch.setattr(Binaries, "attempt", attempt)
    with embedded(home) as server, connect(server.url) as connection:
        row = connection.execute(
            "SELECT datlocprovider, datlocale, pg_encoding_to_char(encoding) FROM pg_database WHERE datname = 'tiltyard'"
        ).fetchone()
        assert row == ("b", "C.UTF-8", "UTF8")


def test_a_first_start_that_fails_leaves_no_half_of_a_database(home, monkeypatch):
    monkeypatch.setattr(Binaries, "attempt", lambda *_, **__: (1, "initdb: error: no room"))
    with pytest.raises(StoreFault, match="cannot create"):
        embedded(home).start()
    assert not list((home / "postgres").glob("data*"))


def test_a_home_that_cannot_be_written_is_told(home):
    (home / "postgres").write_text("a file")
    with pytest.raises(StoreFault, match="TILTYARD_HOME"):
        embedded(home).start()


def test_programs_that_are_missing_are_told(used):
    with pytest.raises(StoreFault, match="set TILTYARD_HOME"):
        embedded(used, binaries=used / "nowhere").start()
    with pytest.raises(StoreFault, match="able"):
        Binaries(used / "nowhere").run("initdb")


def test_an_address_is_known_only_after_the_start(home):
    with pytest.raises(StoreFault, match="is not running"):
        _ = embedded(home).url


root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can name another user")


@root
def test_root_is_told_to_name_a_user(home):
    with pytest.raises(BadOption, match="--as-user NAME"):
        EmbeddedServer(home)
    with pytest.raises(BadOption, match="run as root"):
        EmbeddedServer(home, user="root")
    with pytest.raises(BadOption, match="no such user"):
        EmbeddedServer(home, user="nobody-of-that-name")


@root
def test_root_runs_the_server_as_the_user_to_whom_it_belongs(used):
    with EmbeddedServer(used):
        assert (used / "postgres" / "data" / "postmaster.pid").stat().st_uid == account().pw_uid
        assert used.stat().st_uid == 0, "only the database's own folder changes hands"
    with pytest.raises(BadOption, match="belongs to"):
        choose_account("daemon", used / "postgres")


@root
def test_a_home_that_the_user_cannot_enter_is_told(home):
    home.chmod(0o700)
    with pytest.raises(StoreFault, match="set TILTYARD_HOME"):
        embedded(home).start()
