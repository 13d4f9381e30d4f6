"""Backups: what was there at one instant, whole or not at all, and only into what is empty."""

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
from support.postgres_servers import fresh_database
from support.rewritten_logs import allow_rewriting
from tiltyard.arena.accounts import Accounts
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.maintenance import backup
from tiltyard.arena.maintenance.backup import BackupManifest, back_up, read_backup
from tiltyard.arena.maintenance.restore import (
    RestoredAccess,
    RestoredResponses,
    check_logs,
    read_access,
    restore,
)
from tiltyard.errors import InputError, NotAllowed, StoreFault, UnreadableFile
from tiltyard.postgres.connections import connect, open_pool
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
    assert (there / "secret.key").read_text() == (home / "secret.key").read_text()
    assert stat.S_IMODE((there / "secret.key").stat().st_mode) == 0o600
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
    async def worked():
        async with open_pool(url, most=2) as pool:
            return await work(Accounts(pool))

    return asyncio.run(worked())


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


def damaged(path, name):
    """Where in the file the middle of a member lies, with that byte changed."""
    with tarfile.open(path) as tar:
        found = tar.getmember(name)
    data = bytearray(path.read_bytes())
    data[found.offset_data + found.size // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("kind", ["database.dump", "secret.key", "responses/"])
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
    path = tmp_path / "some.tar"
    with tarfile.open(path, "w") as tar:
        info = tarfile.TarInfo("manifest.json")
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text))
    with pytest.raises(InputError, match=told):
        read_backup(path)


def test_nothing_is_replaced(filled, home, object_storage, empty, tmp_path):
    made = back_up(filled, home, object_storage)
    with pytest.raises(StoreFault, match=r"has public\."):
        restore(made.path, filled, tmp_path / "there", FolderStorage(tmp_path / "there"))
    with pytest.raises(StoreFault, match="exists already"):
        restore(made.path, empty, home, object_storage)
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
    path = tmp_path / "some.tar"
    data = b"evil"
    members = {name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}}
    manifest = BackupManifest(1, "", "", "", {}, members)
    with tarfile.open(path, "w") as tar:
        for inner, text in ((name, data), ("manifest.json", json.dumps(asdict(manifest)).encode())):
            info = tarfile.TarInfo(inner)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
    with pytest.raises(InputError, match=told):
        read_backup(path)


def test_bytes_that_are_withdrawn_meanwhile_are_left_out(filled, home, monkeypatch):
    class Withdrawing(FolderStorage):
        async def get(self, name):
            with connect(filled) as connection:
                connection.execute("DELETE FROM contents WHERE sha256 = %s", [bytes.fromhex(name)])
            raise StoreFault("gone")

    made = back_up(filled, home, Withdrawing(home / "responses"))
    assert sorted(made.manifest.members) == ["database.dump", "secret.key"]


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
