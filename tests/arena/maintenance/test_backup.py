"""Backups: what was there at one instant, whole or not at all, only into what is empty, and without options of one server."""

import asyncio
import hashlib
import io
import json
import random
import stat
import tarfile
import threading
import time
from dataclasses import asdict
from datetime import UTC, datetime

import pytest

from support.bare_arenas import append, make_arena
from support.pool_work import asked
from support.postgres_servers import fresh_database
from support.rewritten_logs import allow_rewriting
from tiltyard.arena.accounts import Accounts
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.maintenance import backup
from tiltyard.arena.maintenance.backup import (
    BackupManifest,
    back_up,
    read_backup,
    remove_private_options,
    without_private_options,
)
from tiltyard.arena.maintenance.restore import (
    RestoredAccess,
    RestoredResponses,
    check_logs,
    read_access,
    restore,
)
from tiltyard.errors import InputError, NotAllowed, StoreFault, UnreadableFile
from tiltyard.postgres.binaries import Binaries, bundled_folder, find_pg_dump_folder, without_password
from tiltyard.postgres.connections import connect
from tiltyard.postgres.schema_migrations import check_schema, migrate

BULKY = [b"<svg>\xff\x00large</svg>" * 5_000, random.Random(1).randbytes(100_000)]


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "secret.key").write_text("a key of thirty-two characters..\n")
    return folder


@pytest.fixture
def object_storage(home):
    return FolderStorage(home / "responses")


@pytest.fixture
def filled(database, object_storage):
    """Two arenas, one of them empty; bytes in the database and beside it."""
    arena = make_arena(database, "first")
    make_arena(database, "empty")
    with connect(database) as connection:
        append(connection, arena, 500)
        for data in BULKY:
            digest = hashlib.sha256(data).digest()
            asyncio.run(object_storage.put(digest.hex(), data))
            connection.execute("INSERT INTO contents (sha256, size) VALUES (%s, %s)", [digest, len(data)])
        small = "Ünïcode ' \" \\ \n".encode()
        connection.execute(
            "INSERT INTO contents VALUES (%s, %s, %s)", [hashlib.sha256(small).digest(), len(small), small]
        )
    return database


@pytest.fixture
def empty(server):
    with fresh_database(server) as url:
        yield url


def everything(url):
    """All rows of all tables but the audit, to which backups and restorations are added."""
    with connect(url) as connection:
        names = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
            " AND relname <> 'audit' ORDER BY 1"
        ).fetchall()
        return {
            name: connection.execute(f"SELECT t::text FROM {name} t ORDER BY 1").fetchall()
            for (name,) in names
        }


def test_a_backup_restores_into_an_empty_place(filled, home, object_storage, empty, tmp_path):
    made = back_up(filled, home, object_storage)
    assert made.path.parent == home / "backups"
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert made.size == made.path.stat().st_size
    assert [path.name for path in made.path.parent.iterdir()] == [made.path.name]
    assert made.manifest.arenas == {"empty": 0, "first": 500}
    there = tmp_path / "there"
    restored = restore(made.path, empty, there, FolderStorage(there / "responses"))
    assert restored.manifest == made.manifest == read_backup(made.path)
    assert everything(empty) == everything(filled)
    assert (home / "secret.key").read_bytes().strip() not in made.path.read_bytes()
    assert not (there / "secret.key").exists()
    assert sorted(path.read_bytes() for path in (there / "responses").iterdir()) == sorted(BULKY)
    with connect(empty) as connection:
        check_schema(connection)
        assert connection.execute("SELECT action FROM audit").fetchall() == [("restore",)]
    assert migrate(empty) == []


@pytest.mark.slow(but="debian-server")
@pytest.mark.parametrize(
    ("source", "target"), [("server", "debian"), ("debian", "server"), ("debian", "debian")]
)
def test_a_backup_of_one_version_restores_into_another(
    source, target, request, home, object_storage, tmp_path
):
    source, target = request.getfixturevalue(source), request.getfixturevalue(target)
    with fresh_database(source) as one, fresh_database(target) as other:
        migrate(one)
        arena = make_arena(one, "first")
        with connect(one) as connection:
            append(connection, arena, 20)
        made = back_up(one, home, object_storage)
        restore(made.path, other, tmp_path / "there", FolderStorage(tmp_path / "there"))
        assert everything(other) == everything(one)


def with_accounts(url, work):
    return asked(url, lambda pool: work(Accounts(pool)))


def test_access_that_was_ended_after_the_backup_is_told_and_can_be_revoked(
    filled, home, object_storage, server, tmp_path
):
    """A token, a password and a response that were gone when somebody restored an older backup."""

    async def before(accounts):
        await accounts.claim(await accounts.make_operator_link(), "Ada", "the first password")
        session = await accounts.sign_in("Ada", "the first password")
        first, _ = await accounts.make_token("cli", "nightly", ["import", "read"], arena="first")
        _, revoked = await accounts.make_token("cli", "old", ["admin"])
        await accounts.revoke_token("cli", revoked.api_token)
        return session, first

    session, token = with_accounts(filled, before)
    with connect(filled) as connection:
        connection.execute(
            "INSERT INTO invitations (arena, batch, code_sha256, uses_allowed, expires_at, revoked_at)"
            " VALUES (1, 'one', 'a', 1, now(), NULL), (1, 'other', 'b', 1, now(), now())"
        )
        connection.execute("INSERT INTO models (arena, model, name) VALUES (1, 0, 'm'), (1, 1, 'n')")
        connection.execute(
            "INSERT INTO prompts (arena, prompt, name, text, sha256) VALUES (1, 0, 'p', '', '')"
        )
        connection.execute(
            "INSERT INTO responses (arena, model, prompt, kind, media_type, sha256, size, withdrawn_at)"
            " SELECT 1, m, 0, 'text', 'text/plain', sha256, size, CASE m WHEN 1 THEN now() END"
            " FROM contents, generate_series(0, 1) m WHERE bytes IS NOT NULL"
        )
    made = back_up(filled, home, object_storage)
    for revoke_all in (False, True):
        there = tmp_path / str(revoke_all)
        with fresh_database(server) as empty:
            restored = restore(made.path, empty, there, FolderStorage(there), revoke_all=revoke_all)
            assert restored.access == RestoredAccess(
                {1: "nightly (import, read; arena first)"},
                ("Ada",),
                1,
                0,
                1,
                (RestoredResponses("first", 1, 1),),
            )
            assert restored.revoked == revoke_all

            async def now(accounts):
                found = [await accounts.find_token(token) is not None]
                found.append(await accounts.signed_in(session) is not None)
                try:
                    await accounts.sign_in("Ada", "the first password")
                except NotAllowed:
                    return [*found, False]
                return [*found, True]

            assert with_accounts(empty, now) == [not revoke_all] * 3
            with connect(empty) as connection:
                ((detail,),) = connection.execute(
                    "SELECT detail FROM audit WHERE action = 'restore'"
                ).fetchall()
                assert detail["revoked_all"] == revoke_all
                left = read_access(connection)
            if revoke_all:
                assert (left.tokens, left.operators, left.operator_sessions) == ({}, (), 0)
                assert left.invitations == 0

                async def again(accounts):
                    await accounts.claim(await accounts.make_operator_link(), "Ada", "another password")
                    return await accounts.sign_in("Ada", "another password")

                assert with_accounts(empty, again)


def test_it_is_recorded(filled, home, object_storage, tmp_path):
    made = back_up(filled, home, object_storage, tmp_path / "mine.tar")
    with connect(filled) as connection:
        ((actor, action, detail),) = connection.execute("SELECT actor, action, detail FROM audit").fetchall()
    assert (actor, action, detail["file"]) == ("cli", "backup", str(tmp_path / "mine.tar"))
    assert detail["arenas"] == made.manifest.arenas
    assert datetime.now(UTC) > datetime.fromisoformat(made.manifest.made_at)


def test_votes_that_are_being_written_are_in_it_up_to_one_instant(
    filled, home, object_storage, empty, tmp_path
):
    """Events, and a table that must always agree with them."""
    stop = threading.Event()
    written = []

    def write():
        with connect(filled) as connection:
            connection.execute("CREATE TABLE mirror AS SELECT 500::bigint AS head")
            while not stop.is_set():
                with connection.transaction():
                    append(connection, 1, 7)
                    connection.execute("UPDATE mirror SET head = head + 7")
                written.append(7)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while len(written) < 5:
            time.sleep(0.01)
        before = len(written)
        made = back_up(filled, home, object_storage)
        after = len(written)
    finally:
        stop.set()
        writer.join()
    assert after > before, "nothing was written meanwhile"
    head = made.manifest.arenas["first"]
    assert 500 + 7 * before <= head <= 500 + 7 * (after + 1)
    restore(made.path, empty, tmp_path / "there", FolderStorage(tmp_path / "there"))
    with connect(empty) as connection:
        assert connection.execute("SELECT head FROM mirror").fetchone() == (head,)
        assert check_logs(connection) == {"empty": 0, "first": head}


def tarred(path, *entries):
    with tarfile.open(path, "w") as tar:
        for name, text in entries:
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
    return path


def damaged(path, name):
    """Where in the file the middle of a member lies, with that byte changed."""
    with tarfile.open(path) as tar:
        found = tar.getmember(name)
    data = bytearray(path.read_bytes())
    data[found.offset_data + found.size // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("kind", ["database.dump", "responses/"])
def test_one_changed_byte_is_refused_before_anything_is_touched(
    kind, filled, home, object_storage, empty, tmp_path
):
    made = back_up(filled, home, object_storage)
    damaged(made.path, next(name for name in made.manifest.members if name.startswith(kind)))
    with pytest.raises(InputError, match=f"{kind}.* is damaged; use another backup"):
        restore(made.path, empty, tmp_path / "there", FolderStorage(tmp_path / "there"))
    assert everything(empty) == {}
    assert not (tmp_path / "there").exists()


def test_what_is_no_backup_is_refused(tmp_path, filled, home, object_storage):
    path = tmp_path / "some.tar"
    with pytest.raises(UnreadableFile, match="backup"):
        read_backup(path)
    path.write_bytes(b"not a tar file" * 100)
    with pytest.raises(UnreadableFile, match="backup"):
        read_backup(path)
    with tarfile.open(path, "w"):
        pass
    with pytest.raises(InputError, match=r"has no manifest.json"):
        read_backup(path)
    made = back_up(filled, home, object_storage)
    path.write_bytes(made.path.read_bytes()[: made.size // 2])
    with pytest.raises(InputError):
        read_backup(path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"{", "cannot be read"),
        (b'{"format": 1}', "cannot be read"),
        (b"[]", "cannot be read"),
        (
            json.dumps(
                {"format": 9, "made_at": "", "tiltyard": "9.0", "postgresql": "", "arenas": {}, "members": {}}
            ).encode(),
            r"made by Tiltyard 9.0; restore it with that version",
        ),
    ],
)
def test_a_manifest_that_is_not_ours_is_refused(tmp_path, text, told):
    with pytest.raises(InputError, match=told):
        read_backup(tarred(tmp_path / "some.tar", ("manifest.json", text)))


def test_nothing_is_replaced(filled, home, object_storage, empty, tmp_path):
    made = back_up(filled, home, object_storage)
    with pytest.raises(StoreFault, match=r"has public\."):
        restore(made.path, filled, tmp_path / "there", FolderStorage(tmp_path / "there"))
    key = (home / "secret.key").read_bytes()
    restore(made.path, empty, home, object_storage)
    assert (home / "secret.key").read_bytes() == key
    with pytest.raises(StoreFault, match="exists already; choose"):
        back_up(filled, home, object_storage, made.path)


def test_bytes_that_are_missing_or_damaged_make_no_backup(filled, home, object_storage):
    damaged_file = next((home / "responses").iterdir())
    whole = damaged_file.read_bytes()
    damaged_file.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    with pytest.raises(StoreFault, match="that hash"):
        back_up(filled, home, object_storage)
    damaged_file.unlink()
    with pytest.raises(StoreFault, match="cannot read"):
        back_up(filled, home, object_storage)
    assert list((home / "backups").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("responses/../../../etc/evil", "has an unexpected entry"),
        ("/etc/evil", "has an unexpected entry"),
        (f"responses/{'0' * 64}", "is damaged"),
    ],
)
def test_a_backup_that_would_write_elsewhere_is_refused(name, told, tmp_path):
    data = b"evil"
    members = {name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}}
    manifest = BackupManifest(2, "", "", "", {}, members)
    entries = ((name, data), ("manifest.json", json.dumps(asdict(manifest)).encode()))
    with pytest.raises(InputError, match=told):
        read_backup(tarred(tmp_path / "some.tar", *entries))


def test_bytes_that_are_withdrawn_meanwhile_are_left_out(filled, home, monkeypatch):
    class Withdrawing(FolderStorage):
        async def get(self, name):
            with connect(filled) as connection:
                connection.execute("DELETE FROM contents WHERE sha256 = %s", [bytes.fromhex(name)])
            raise StoreFault("gone")

    made = back_up(filled, home, Withdrawing(home / "responses"))
    assert sorted(made.manifest.members) == ["database.dump"]


def test_a_full_disk_leaves_no_half_of_a_backup(filled, home, object_storage, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backup, "_add", full)
    with pytest.raises(StoreFault, match="device; choose another"):
        back_up(filled, home, object_storage)
    assert list((home / "backups").iterdir()) == []


def test_a_hole_in_a_log_is_found(filled):
    with connect(filled) as connection:
        allow_rewriting(connection)
        assert check_logs(connection) == {"empty": 0, "first": 500}
        with pytest.raises(StoreFault, match="the backup states"):
            check_logs(connection, {"empty": 0, "first": 501})
        connection.execute("DELETE FROM events WHERE position = 250")
        with pytest.raises(StoreFault, match="499"):
            check_logs(connection)


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
