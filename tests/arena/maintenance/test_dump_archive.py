"""Archives of pg_dump: column options that only one server understands are left out."""

import pytest
from test_backup import everything

from support.bare_arenas import append, make_arena
from support.postgres_servers import fresh_database
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.maintenance import backup
from tiltyard.arena.maintenance.backup import back_up, remove_private_options, without_private_options
from tiltyard.arena.maintenance.restore import restore
from tiltyard.postgres.binaries import Binaries, bundled_folder, find_pg_dump_folder, without_password
from tiltyard.postgres.connections import connect
from tiltyard.postgres.schema_migrations import migrate

PRIVATE = b"ALTER TABLE ONLY public.a ALTER COLUMN x SET (pg_attver=26519624);"


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        (PRIVATE, b""),
        (b"ALTER FOREIGN TABLE ONLY public.a ALTER COLUMN x SET (pg_attver=1);", b""),
        (b'ALTER TABLE ONLY "a b" ALTER COLUMN " SET (" SET (pg_attver=1);', b""),
        (
            b"ALTER TABLE ONLY a ALTER COLUMN x SET (n_distinct=-0.5, pg_attver=1);",
            b"ALTER TABLE ONLY a ALTER COLUMN x SET (n_distinct=-0.5);",
        ),
        (
            b"ALTER TABLE ONLY a ALTER COLUMN x SET (later=1, n_distinct_inherited=5);",
            b"ALTER TABLE ONLY a ALTER COLUMN x SET (n_distinct_inherited=5);",
        ),
        (b"ALTER TABLE ONLY a ALTER COLUMN x SET (n_distinct=5);", None),
        (b"ALTER TABLE ONLY a ALTER COLUMN x SET STATISTICS 5;", None),
        (b"ALTER TABLE ONLY a ALTER COLUMN x SET DEFAULT nextval('s'::regclass);", None),
        (b"ALTER TABLE ONLY a SET (fillfactor=50);", None),
        (b"    note text DEFAULT 'SET (pg_attver=1);'", None),
        (b"", None),
    ],
)
def test_only_options_that_are_a_servers_own_are_left_out(line, kept):
    sql = b"CREATE TABLE a (x integer);\n" + line + b"\n"
    done = without_private_options(sql)
    assert len(done) == len(sql)
    expected = line if kept is None else kept
    assert [part.rstrip() for part in done.split(b"\n")] == [b"CREATE TABLE a (x integer);", expected, b""]


@pytest.fixture
def private(server):
    """A database whose columns have an option that the test server does not know, as those of 15.20 have."""
    with fresh_database(server) as url:
        migrate(url)
        arena = make_arena(url, "first")
        with connect(url) as connection:
            append(connection, arena, 20)
            connection.execute("SET allow_system_table_mods = on")
            connection.execute(
                "UPDATE pg_attribute SET attoptions = CASE attname WHEN 'name'"
                " THEN '{n_distinct=7,pg_attver=26519624}'::text[] ELSE '{pg_attver=26519624}' END"
                " WHERE attnum > 0 AND NOT attisdropped AND attrelid IN (SELECT oid FROM pg_class"
                " WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p'))"
            )
        yield url


def options_of(url):
    with connect(url) as connection:
        return connection.execute(
            "SELECT attrelid::regclass::text, attoptions FROM pg_attribute"
            " WHERE attoptions IS NOT NULL AND attrelid = 'arenas'::regclass"
        ).fetchall()


def test_a_backup_of_a_server_with_options_of_its_own_restores(private, server, tmp_path, monkeypatch):
    monkeypatch.setattr(backup, "find_pg_dump_folder", lambda _: bundled_folder())
    done = back_up(private, tmp_path, FolderStorage(tmp_path / "responses"))
    assert b"pg_attver" not in done.path.read_bytes()
    with fresh_database(server) as empty:
        restore(done.path, empty, tmp_path / "there", FolderStorage(tmp_path / "there"))
        assert everything(empty) == everything(private)
        assert options_of(empty) == [("arenas", ["n_distinct=7"])]


@pytest.mark.parametrize("major", [15, 16, 18])
def test_archives_of_every_pg_dump_are_understood(major, debian, tmp_path):
    """Its table of contents, entry by entry: the definitions of all tables are found and nothing is moved."""
    archive = tmp_path / "dump"
    folder = find_pg_dump_folder(150_000) if major == 15 else bundled_folder(major)
    with fresh_database(debian) as url:
        migrate(url)
        with connect(url) as connection:
            connection.execute("CREATE TABLE a (x integer, y text)")
            connection.execute("ALTER TABLE a ALTER x SET (n_distinct = 5)")
            connection.execute("COMMENT ON TABLE a IS 'ALTER TABLE ONLY a ALTER COLUMN x SET (later=1);'")
            connection.execute("INSERT INTO a VALUES (1, %s)", [PRIVATE.decode()])
        shown, add = without_password(url)
        Binaries(folder).run("pg_dump", "-Fc", "-Z", "0", "-f", archive, "-d", shown, add=add)
    data = archive.read_bytes()
    assert data.count(b"n_distinct=5") == 1
    archive.write_bytes(data.replace(b"n_distinct=5", b"other_name=5"))
    remove_private_options(archive)
    cleaned = archive.read_bytes()
    assert b"other_name" not in cleaned
    assert len(cleaned) == len(data)
    assert cleaned.count(PRIVATE) == 1, "rows are left alone"
    listed = Binaries(bundled_folder()).run("pg_restore", "-f", "-", archive)
    assert "COPY public.a" in listed
    assert "pg_attver" in listed


def test_what_is_no_archive_is_left_alone(tmp_path, private):
    path = tmp_path / "dump"
    shown, add = without_password(private)
    Binaries(bundled_folder()).run("pg_dump", "-Fc", "-f", path, "-d", shown, add=add)
    whole = path.read_bytes()
    newer = whole[:6] + bytes([99]) + whole[7:]
    for data in (b"", b"PGDM", b"PGDMP", b"not an archive", whole[:5000], newer, whole[:11] + b"\xff" * 60):
        path.write_bytes(data)
        remove_private_options(path)
        assert path.read_bytes() == data
