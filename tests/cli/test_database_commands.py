"""The commands about the database, as they are typed."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from support.bare_arenas import append, make_arena
from support.postgres_servers import account, fresh_database, new_home
from tiltyard.arena.maintenance import major_upgrade
from tiltyard.arena.maintenance.major_upgrade import UpgradeResult
from tiltyard.cli.app import app
from tiltyard.cli.database_options import WaitNotice
from tiltyard.errors import BadOption, StoreFault
from tiltyard.postgres.connections import connect
from tiltyard.postgres.embedded_server import Postmaster

AS_USER = [] if account() is None else ["--as-user", account().pw_name]


def run(*arguments):
    done = CliRunner().invoke(app, ["arena", *map(str, arguments)])
    if isinstance(done.exception, Exception):
        raise done.exception
    return done


@pytest.fixture
def home(monkeypatch):
    folder = new_home()
    monkeypatch.setenv("TILTYARD_HOME", str(folder))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.chdir(folder)
    yield folder
    shutil.rmtree(folder)


def test_a_home_without_a_database_is_left_without(home):
    done = run("doctor", *AS_USER)
    assert done.exit_code == 0
    assert f"look database: none in {home} yet → tiltyard serve creates one\n" in done.stdout
    assert list(home.iterdir()) == []


def test_the_embedded_database_from_the_first_tables_to_a_restored_backup(home, monkeypatch):
    done = run("migrate", "--check", *AS_USER)
    assert done.exit_code == 1
    assert "pending: 0001_first\n" in done.stdout
    assert "applied: 0001_first\n" in run("migrate", *AS_USER).stdout
    assert run("migrate", *AS_USER).stdout == "The tables are up to date.\n"
    assert run("migrate", "--check", *AS_USER).exit_code == 0
    assert "already has this" in run("upgrade-database", *AS_USER).stdout
    done = run("backup", home / "one.tar", *AS_USER)
    assert done.stdout.startswith(f"Written to {home / 'one.tar'}: ")
    assert "no arenas" in done.stdout
    with pytest.raises(StoreFault, match="the database is not empty"):
        run("restore", home / "one.tar", *AS_USER)
    other = home / "other"
    other.mkdir()
    monkeypatch.setenv("TILTYARD_HOME", str(other))
    assert run("restore", home / "one.tar", *AS_USER).stdout.startswith("Restored the state of 2")
    checks = {check["name"]: check for check in json.loads(run("doctor", "--json", *AS_USER).stdout)}
    releases = checks.pop("security releases")
    assert releases["state"] == "ok" or "own PostgreSQL" in releases["advice"]
    assert {name: check["state"] for name, check in checks.items() if check["state"] != "ok"} == {
        "backup": "look"
    }
    assert Postmaster.read(other / "postgres" / "data") is None, "nothing is left running"
    assert Postmaster.read(home / "postgres" / "data") is None


@pytest.mark.slow
def test_a_home_can_be_named(home, monkeypatch):
    """Instead of TILTYARD_HOME, as for `tiltyard serve`."""
    monkeypatch.setenv("TILTYARD_HOME", str(home / "elsewhere"))
    one, other = home / "one", home / "other"
    assert "applied: 0001_first\n" in run("migrate", "--home", one, *AS_USER).stdout
    assert run("backup", "--home", one, *AS_USER).stdout.startswith(f"Written to {one / 'backups'}/tiltyard-")
    (made,) = (one / "backups").iterdir()
    assert run("restore", made, "--home", other, *AS_USER).exit_code == 0
    assert (other / "postgres" / "data").is_dir()
    assert f"look database: none in {home / 'new'} yet" in run("doctor", "--home", home / "new").stdout
    assert "ok   schema: " in run("doctor", "--home", other, *AS_USER).stdout
    assert "already has this" in run("upgrade-database", "--home", other, *AS_USER).stdout
    assert not (home / "elsewhere").exists()


@pytest.mark.slow(but="options1")
@pytest.mark.parametrize("options", [[], ["--revoke-all"]])
def test_a_restoration_says_what_is_valid_again(options, home, database, server, monkeypatch):
    arena = make_arena(database, "first")
    monkeypatch.setenv("DATABASE_URL", database)
    with connect(database) as connection:
        connection.execute(
            "INSERT INTO api_tokens (name, token_sha256, scopes) VALUES ('nightly\u202e', 'x', '{admin}')"
        )
        connection.execute("INSERT INTO operators (name, password_argon2) VALUES ('Ada', 'x')")
        connection.execute("INSERT INTO models (arena, model, name) VALUES (%s, 0, 'm')", [arena])
        connection.execute(
            "INSERT INTO prompts (arena, prompt, name, text, sha256) VALUES (%s, 0, 'p', '', '')", [arena]
        )
        connection.execute(
            "INSERT INTO contents VALUES ('x', 1, 'x');"
            " INSERT INTO responses (arena, model, prompt, kind, media_type, sha256, size)"
            " SELECT arena, 0, 0, 'text', 'text/plain', 'x', 1 FROM arenas"
        )
    run("backup", home / "one.tar")
    with fresh_database(server) as empty:
        monkeypatch.setenv("DATABASE_URL", empty)
        printed = run("restore", home / "one.tar", *options).stdout
    said, *lines = printed.splitlines()[1:]
    assert "put secret.key" in said
    assert lines[1] == "  token 1: nightly\\u202e (admin; every arena)"
    assert lines[2] == "  the password of operator Ada"
    if options:
        assert lines[0] == "Revoked all restored credentials:"
        assert lines[3] == "Create new ones: tiltyard arena token create, tiltyard arena token operator."
    else:
        assert lines[0].startswith("Valid again, even if revoked or changed after 2")
        assert "token revoke NUMBER" in lines[3]
    assert lines[4].startswith("Shown again, even if withdrawn after 2")
    assert lines[5] == "  arena first: 1 responses; 0 withdrawn before stay withdrawn"


def test_an_upgrade_says_when_the_backup_was_restored_instead(home, monkeypatch):
    done = UpgradeResult(15, 18, home / "kept", home / "one.tar", 'ERROR:  unrecognized parameter "x"')
    monkeypatch.setattr(major_upgrade, "upgrade_database", lambda *_, **__: done)
    printed = run("upgrade-database").stdout
    assert printed.startswith(
        'pg_upgrade failed: ERROR:  unrecognized parameter "x". The backup was restored '
    )
    assert "from PostgreSQL 15" in printed


def test_a_server_of_ones_own(home, database, server, monkeypatch):
    arena = make_arena(database, "first")
    with connect(database) as connection:
        append(connection, arena, 1234)
    monkeypatch.setenv("DATABASE_URL", database)
    assert run("migrate").stdout == "The tables are up to date.\n"
    assert "to event 1,234" in run("backup", home / "one.tar").stdout
    with pytest.raises(BadOption, match="an external server is upgraded by its administrator"):
        run("upgrade-database")
    done = run("doctor")
    assert done.exit_code == 1, "the test server does not write to its disk"
    assert "bad  durability: off: fsync → " in done.stdout
    with fresh_database(server) as empty:
        monkeypatch.setenv("DATABASE_URL", empty)
        assert "to event 1,234." in run("restore", home / "one.tar").stdout
    assert not (home / "postgres").exists()


def test_a_damaged_home_is_told_by_the_doctor(home):
    data = home / "postgres" / "data"
    data.mkdir(parents=True)
    data.chmod(0o755)
    done = run("doctor", *AS_USER)
    assert done.exit_code == 1
    assert "bad  database: does" in done.stdout


def test_whoever_waits_is_told_once(capsys):
    tell = WaitNotice(after=1.0)
    for seconds in (0.5, 1.5, 2.5):
        tell(seconds)
    assert capsys.readouterr().err.count("Waiting for the database") == 1
