"""Migrations: what they give, one migrator at a time, and all of a step or nothing."""

import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.postgres_servers import fresh_database
from support.schema_listing import schema_of
from tiltyard.errors import StoreFault
from tiltyard.postgres import schema_migrations
from tiltyard.postgres.connections import connect
from tiltyard.postgres.schema_migrations import (
    OUTSIDE,
    Migration,
    check_schema,
    migrate,
    migrations,
    pending_migrations,
)
from tiltyard.postgres.statements import statements

EXPANDING = Migration(
    "9001_expands",
    """
    ALTER TABLE arenas ADD COLUMN colour text;
    CREATE TABLE colours (colour text PRIMARY KEY);
    """,
)
_INDEX = "DROP INDEX CONCURRENTLY IF EXISTS arenas_titles;\nCREATE {kind} INDEX CONCURRENTLY arenas_titles ON arenas (title);\n"
BROKEN = Migration("9002_broken", "CREATE TABLE half (x integer); SELECT 1 / 0;")


@pytest.fixture
def empty(server):
    with fresh_database(server) as url:
        yield url


def tables(url):
    with connect(url) as connection:
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        return {name for (name,) in rows}


def test_an_empty_database_gets_every_step_once(empty):
    names = [step.name for step in migrations()]
    assert names == sorted(names)
    assert pending_migrations(empty) == names
    assert migrate(empty) == names
    assert pending_migrations(empty) == []
    assert migrate(empty) == []
    with connect(empty) as connection:
        check_schema(connection)
        applied = connection.execute("SELECT name, sha256 FROM migrations ORDER BY name").fetchall()
    assert applied == [(step.name, step.sha256) for step in migrations()]


def test_the_oldest_and_the_newest_server_have_the_same_schema(server, debian):
    found = []
    for kind in (server, debian):
        with fresh_database(kind) as url:
            migrate(url)
            found.append(schema_of(url))
    assert found[0] == found[1]


def test_older_tables_are_refused_with_the_command_that_helps(empty):
    with (
        connect(empty) as connection,
        pytest.raises(StoreFault, match=r"lacks 0001.*run tiltyard arena migrate"),
    ):
        check_schema(connection)


def test_code_runs_on_tables_that_are_a_step_ahead(database):
    """The release before this one goes on while the tables are expanded for the next."""
    assert migrate(database, steps=[*migrations(), EXPANDING]) == [EXPANDING.name]
    with connect(database) as connection:
        check_schema(connection)
        assert statements_that_fail(connection) == {}
    assert pending_migrations(database) == []
    assert migrate(database) == []


def test_every_statement_is_understood(database):
    with connect(database) as connection:
        assert statements_that_fail(connection) == {}


def test_every_statement_is_understood_by_the_oldest_server(debian):
    with fresh_database(debian) as url:
        migrate(url)
        with connect(url) as connection:
            assert statements_that_fail(connection) == {}


def statements_that_fail(connection):
    """Statements that the server does not understand: it plans each, and does none."""
    failed = {}
    for name, text in statements().items():
        plain = numbered(text)
        if re.match(r"(SELECT|INSERT|UPDATE|DELETE|WITH|VALUES)\b", plain) and "%s" not in plain:
            try:
                connection.execute(f"PREPARE one AS {plain}")
                connection.execute("DEALLOCATE one")
            except Exception as error:
                failed[name] = str(error)
    return failed


def numbered(text):
    """A statement with PostgreSQL's own parameters instead of the driver's."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", text)))
    return re.sub(r"%\((\w+)\)s", lambda found: f"${names.index(found[1]) + 1}", text).replace("%%", "%")


def test_two_migrators_at_once_apply_each_step_once(empty):
    steps = [Migration(f"{n:04}_step", f"CREATE TABLE step_{n} ()") for n in range(6)]
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: migrate(empty, steps=steps), range(4)))
    assert sorted(name for names in done for name in names) == [step.name for step in steps]


def test_a_step_that_fails_leaves_nothing_behind(database):
    before = tables(database)
    with pytest.raises(StoreFault, match=r"cannot apply migration 9002_broken.*division by zero"):
        migrate(database, steps=[EXPANDING, BROKEN])
    assert tables(database) == before | {"colours"}, "the step before it stays"
    assert migrate(database, steps=[EXPANDING]) == []


def test_an_index_is_made_while_rows_are_written_and_again_after_a_failure(database):
    """Outside of a transaction: an attempt that failed leaves an invalid index, which the next one replaces."""
    unique, plain = (
        Migration("9003_index", f"{OUTSIDE} An index.\n{_INDEX.format(kind=kind)}") for kind in ("UNIQUE", "")
    )
    valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'arenas_titles'::regclass"
    add = "INSERT INTO arenas (arena, name, title, settings, bucket) OVERRIDING SYSTEM VALUE VALUES (%s, %s, '', '{}', %s)"
    with connect(database) as connection, ThreadPoolExecutor(1) as pool:
        for arena in (1, 2):
            connection.execute(add, (arena, f"a{arena}", arena))
        with pytest.raises(StoreFault, match="9003_index"):
            migrate(database, steps=[unique])
        assert connection.execute(valid).fetchall() == [(False,)]
        with connect(database) as writer, writer.transaction():
            writer.execute(add, (3, "a3", 3))
            waiting = pool.submit(migrate, database, steps=[plain])
            blocked = (
                "SELECT FROM pg_stat_activity WHERE application_name = 'tiltyard arena migrate' "
                "AND datname = current_database() AND wait_event_type = 'Lock'"
            )
            end = time.monotonic() + 60.0
            while not connection.execute(blocked).fetchall():
                assert not waiting.done()
                assert time.monotonic() < end
            connection.execute(add, (4, "a4", 4))
        assert waiting.result(60) == [plain.name]
        assert connection.execute(valid).fetchall() == [(True,)]
        assert migrate(database, steps=[plain]) == []


def test_a_table_in_use_is_not_waited_for_long(database):
    assert schema_migrations._LOCK_TIMEOUT == "5s"
    before = tables(database)
    with connect(database) as connection, connection.transaction():
        connection.execute("LOCK TABLE arenas IN ACCESS SHARE MODE")
        with pytest.raises(StoreFault, match=r"lock timeout.*another session holds the lock: retry"):
            migrate(database, steps=[EXPANDING], lock_timeout="200ms")
    assert tables(database) == before
    assert migrate(database, steps=[EXPANDING]) == [EXPANDING.name]


def test_a_step_that_was_changed_after_it_was_applied_is_noticed(database):
    changed = Migration(migrations()[0].name, "SELECT 1")
    with pytest.raises(StoreFault, match="was applied with a different text"):
        migrate(database, steps=[changed])


def test_another_encoding_is_refused(server):
    with connect(server) as connection:
        connection.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    url = server.replace("/postgres", "/latin")
    with pytest.raises(StoreFault, match="the encoding LATIN1; create one with CREATE DATABASE"):
        migrate(url)
    with connect(server) as connection:
        connection.execute("DROP DATABASE latin")
