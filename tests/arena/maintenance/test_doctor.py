"""The doctor: each thing that may be wrong is found, and nothing else is called wrong."""

import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.bare_arenas import append, make_arena
from support.bouncers import bouncer
from support.postgres_servers import fresh_database
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.maintenance import doctor
from tiltyard.arena.maintenance.backup import back_up
from tiltyard.arena.maintenance.doctor import examine_database, examine_home
from tiltyard.arena.maintenance.restore import restore
from tiltyard.postgres.binaries import KNOWN_ON, SECURITY_RELEASES, missing_releases
from tiltyard.postgres.connections import connect
from tiltyard.postgres.schema_migrations import Migration, migrate, migrations

ROOT = Path(__file__).parents[3]

#: The test server saves nothing to its disk, which the doctor rightly calls bad; and which security
#: releases a server lacks depends on the machine that tests run on.
KNOWN = {"durability", "security releases"}


def by_name(checks):
    return {check.name: check for check in checks}


def states(url):
    return {check.name: check.state for check in examine_database(url) if check.name not in KNOWN}


def test_a_new_database_only_lacks_a_backup(database):
    assert states(database) == {
        "database": "ok",
        "version": "ok",
        "schema": "ok",
        "plans": "ok",
        "connections": "ok",
        "pooling": "ok",
        "clock": "ok",
        "disk of the database": "ok",
        "backup": "look",
    }
    checks = by_name(examine_database(database))
    assert checks["pooling"].value.startswith("none:")
    assert all((check.state == "ok") == (not check.advice) for check in checks.values())


def test_debians_15_is_fine_too(debian):
    with fresh_database(debian) as url:
        migrate(url)
        assert {name for name, state in states(url).items() if state != "ok"} == {"backup"}


@pytest.mark.slow(but="server")
@pytest.mark.parametrize("kind", ["server", "debian"])
def test_no_superuser_is_needed(kind, request, tmp_path):
    """All that the commands do, as a user who owns the database and nothing else."""
    server = request.getfixturevalue(kind)
    with connect(server) as connection, fresh_database(server) as first, fresh_database(server) as second:
        connection.execute("CREATE ROLE plain LOGIN")
        for url in (first, second):
            connection.execute(f"ALTER DATABASE {urlsplit(url).path[1:]} OWNER TO plain")
        one, other = (url.replace("//tiltyard@", "//plain@") for url in (first, second))
        migrate(one)
        arena = make_arena(one, "first")
        with connect(one) as own:
            assert own.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone() == (
                False,
            )
            append(own, arena, 10)
        object_storage = FolderStorage(tmp_path / "responses")
        made = back_up(one, tmp_path, object_storage)
        assert {name for name, state in states(one).items() if state != "ok"} == set()
        assert restore(made.path, other, tmp_path / "there", object_storage).manifest.arenas == {"first": 10}
        for url in (first, second):
            with connect(url) as there:
                there.execute("REASSIGN OWNED BY plain TO tiltyard")
        connection.execute("DROP ROLE plain")


def test_a_server_that_is_not_there_is_bad_and_its_password_not_told():
    (check,) = examine_database("postgresql://someone:s3cret@127.0.0.1:1/nothing")
    assert (check.name, check.state) == ("database", "bad")
    assert "s3cret" not in check.advice


def test_a_database_without_tables_is_bad(server):
    with fresh_database(server) as url:
        checks = by_name(examine_database(url))
    assert checks["schema"].state == "bad"
    assert "run tiltyard arena migrate" in checks["schema"].advice
    assert checks["backup"].state == "bad", "a check that cannot be made does not stop the others"
    assert checks["clock"].state == "ok"


def test_a_role_whose_statements_may_lock_every_arena_is_told(database):
    with connect(database) as connection:
        name = connection.info.dbname
        connection.execute(f"ALTER ROLE CURRENT_USER IN DATABASE {name} RESET plan_cache_mode")
    check = by_name(examine_database(database))["plans"]
    assert check.state == "look"
    assert "run tiltyard arena migrate" in check.advice
    migrate(database)
    assert by_name(examine_database(database))["plans"].state == "ok"


def test_later_tables_are_fine(database):
    migrate(database, steps=[*migrations(), Migration("9001_later", "CREATE TABLE later ()")])
    check = by_name(examine_database(database))["schema"]
    assert check.state == "ok"
    assert "1 later steps" in check.value


@pytest.mark.parametrize(
    ("version", "lacked"),
    [
        (150_017, ["2026-05-14", "2026-08-13", "2026-11-13"]),
        (150_018, ["2026-08-13", "2026-11-13"]),
        (150_019, ["2026-11-13"]),
        (150_020, []),
        (160_015, ["2026-11-13"]),
        (180_004, ["2026-08-13", "2026-11-13"]),
        (180_005, ["2026-08-13", "2026-11-13"]),
        (180_006, ["2026-11-13"]),
        (180_007, []),
        (140_024, None),
        (190_000, None),
    ],
)
def test_security_releases_that_a_server_lacks_are_known(version, lacked):
    """The minor versions of 2026-11-13 are known of 15 alone: of others, whatever came before lacks it."""
    missing = missing_releases(version)
    assert (None if missing is None else [str(release.day) for release in missing]) == lacked


def test_an_embedded_server_without_the_newest_security_release_is_told(database, monkeypatch):
    def told(release, **more):
        monkeypatch.setattr(doctor, "missing_releases", lambda _: release)
        return by_name(examine_database(database, **more))["security releases"]

    missing = [SECURITY_RELEASES[-1]]
    check = told(missing, embedded=True)
    assert (check.state, check.value) == ("look", f"lacks 2026-11-13 (known on {KNOWN_ON})")
    assert "own PostgreSQL" in check.advice
    assert "newest minor version" in told(missing).advice
    assert "18.6" in told([SECURITY_RELEASES[1]]).advice
    assert told([]).state == "ok"
    assert "were not known" in told(None).value


def test_the_documentation_shows_the_security_releases_that_the_doctor_knows():
    page = (ROOT / "docs" / "how-to" / "postgresql.md").read_text(encoding="utf-8")
    assert f"As of {KNOWN_ON}" in page
    for release in SECURITY_RELEASES:
        minors = " | ".join(
            f"{major}.{release.minors[major]}" if major in release.minors else "not known here"
            for major in (15, 16, 17, 18)
        )
        assert f"| [{release.day}]({release.source}) | {minors} |" in page


def test_settings_that_lose_votes_are_bad(database):
    check = by_name(examine_database(database))["durability"]
    assert (check.state, check.value) == ("bad", "off: fsync")
    with connect(database) as connection:
        connection.execute(f"ALTER DATABASE {urlsplit(database).path[1:]} SET synchronous_commit = off")
    assert by_name(examine_database(database))["durability"].value == "off: fsync, synchronous_commit"


def test_the_age_of_the_last_backup_is_told(database, tmp_path):
    back_up(database, tmp_path, FolderStorage(tmp_path / "responses"), tmp_path / "one.tar")
    check = by_name(examine_database(database))["backup"]
    assert check.state == "ok"
    assert check.value.endswith(f"ago: {tmp_path / 'one.tar'}")
    with connect(database) as connection:
        connection.execute("UPDATE audit SET at = at - interval '3 days'")
    check = by_name(examine_database(database))["backup"]
    assert (check.state, check.value) == ("look", f"3 days ago: {tmp_path / 'one.tar'}")


@pytest.mark.parametrize(("minutes", "state"), [(0, "ok"), (5, "look"), (60, "bad")])
def test_a_rater_that_stands_still_is_told(database, minutes, state):
    arena = make_arena(database, "first")
    with connect(database) as connection:
        append(connection, arena, 10)
        connection.execute(
            "UPDATE raters SET position = 4, leader = 'one', updated_at = now() - %s * interval '1 minute'",
            [minutes],
        )
        check = by_name(examine_database(database))["rater of first"]
        assert check.state == state
        assert check.value.startswith("4 of 10 events")
        connection.execute("UPDATE raters SET position = 10")
    assert by_name(examine_database(database))["rater of first"].state == "ok", "nothing to do is no fault"


def test_clocks_that_differ_are_told(database, monkeypatch):
    monkeypatch.setitem(
        __import__("tiltyard.postgres.statements", fromlist=["x"]).statements(),
        "doctor_clock",
        "SELECT clock_timestamp() + interval '5 seconds'",
    )
    check = by_name(examine_database(database))["clock"]
    assert check.state == "look"
    assert check.value.endswith("s ahead")


def test_few_free_connections_are_told(database):
    held = [connect(database) for _ in range(47)]
    try:
        check = by_name(examine_database(database))["connections"]
    finally:
        for one in held:
            one.close()
    assert check.state in {"look", "bad"}
    assert "of 57 in use" in check.value


def test_a_full_disk_is_bad(tmp_path, monkeypatch):
    usage = shutil._ntuple_diskusage
    for free, state in ((1 << 40, "ok"), (4 << 30, "look"), (1 << 20, "bad")):
        monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _, free=free: usage(1 << 41, 0, free))
        check = by_name(examine_home(tmp_path / "not" / "there" / "yet", {}))["disk of the home"]
        assert check.state == state


def test_a_key_that_others_can_read_is_bad(tmp_path):
    def state():
        return by_name(examine_home(tmp_path, {}))["secret key"].state

    assert state() == "ok"
    (tmp_path / "secret.key").write_text("key")
    (tmp_path / "secret.key").chmod(0o640)
    assert state() == "bad"
    assert by_name(examine_home(tmp_path, {"TILTYARD_SECRET_KEY": "x"}))["secret key"].state == "ok"
    (tmp_path / "secret.key").chmod(0o600)
    assert state() == "ok"


@pytest.mark.parametrize(
    ("mode", "state", "value"), [("session", "ok", "by session"), ("transaction", "bad", "by transaction")]
)
def test_a_pooler_is_recognised_by_what_it_does(database, mode, state, value):
    with bouncer(database, mode) as url:
        for _ in range(3):
            check = by_name(examine_database(url))["pooling"]
            assert (check.state, check.value) == (state, value)


def test_a_pooler_beside_the_database_itself_is_what_web_processes_may_use(server, database):
    with bouncer(database, "transaction") as pooler:
        checks = by_name(examine_database(database, pooler_url=pooler))
        assert (checks["pooling"].state, checks["pooler"].state) == ("ok", "ok")
        assert checks["pooling"].value.startswith("none:")
        assert checks["pooler"].value.startswith("by transaction")
        elsewhere = by_name(examine_database(server, pooler_url=pooler))["pooler"]
        assert elsewhere.state == "bad"
        assert "different databases" in elsewhere.advice
    direct = by_name(examine_database(database, pooler_url=database))["pooler"]
    assert (direct.state, direct.advice.split(":")[0]) == ("look", "unset TILTYARD_SESSION_DATABASE_URL")
    gone = by_name(examine_database(database, pooler_url=pooler))["pooler"]
    assert (gone.state, gone.value) == ("bad", "the check failed")
