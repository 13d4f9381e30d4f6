"""Restore a backup into an empty database, checked before and after.

Tokens, invitations and passwords that were revoked or changed after the backup are valid again, and responses withdrawn after it
are shown again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tiltyard.arena.content.object_storage import ObjectStorage
from tiltyard.arena.maintenance.backup import (
    DATABASE,
    RESPONSES,
    BackupManifest,
    open_backup,
    open_member,
    read_backup,
)
from tiltyard.errors import StoreFault
from tiltyard.foundation.local_files import open_regular
from tiltyard.postgres.binaries import Binaries, bundled_folder, without_password
from tiltyard.postgres.connections import connect, translate_errors
from tiltyard.postgres.schema_migrations import use_custom_plans
from tiltyard.postgres.statements import bucket_statement, statement

if TYPE_CHECKING:
    import psycopg


@dataclass(frozen=True)
class RestoredResponses:
    """The responses of one arena: how many are shown, and how many had been withdrawn before the backup."""

    arena: str
    shown: int
    withdrawn: int


@dataclass(frozen=True)
class RestoredAccess:
    """Credentials that are valid, and responses that are shown."""

    #: Valid tokens by number, each described by its name, scopes and arena.
    tokens: dict[int, str]
    #: Names of operators who can sign in with the passwords they had.
    operators: tuple[str, ...]
    #: How many operator sessions, and links that set a password, can be used.
    operator_sessions: int
    operator_links: int
    #: How many invitations to private arenas are not revoked.
    invitations: int
    responses: tuple[RestoredResponses, ...]


def read_access(connection: psycopg.Connection) -> RestoredAccess:
    """The access that a database currently grants, and what it shows."""
    with translate_errors("list what was restored"):
        tokens = {
            number: f"{name} ({', '.join(scopes)}; {'every arena' if arena is None else f'arena {arena}'})"
            for number, name, scopes, arena in connection.execute(statement("restored_tokens"))
        }
        operators = tuple(name for (name,) in connection.execute(statement("restored_operators")))
        row = connection.execute(statement("restored_operator_sessions")).fetchone()
        invited = connection.execute(statement("restored_invitations")).fetchone()
        assert row is not None
        assert invited is not None
        responses = tuple(
            RestoredResponses(*found) for found in connection.execute(statement("restored_responses"))
        )
    return RestoredAccess(tokens, operators, row[0], row[1], invited[0], responses)


def revoke_access(connection: psycopg.Connection) -> None:
    """Revoke every token, invitation, sign-in, operator session and link, and void operators' passwords, all at once.

    Voters' sessions stay valid: a voter with a new session would count as one who knows no names.
    """
    with translate_errors("revoke what was restored"), connection.transaction():
        connection.execute(statement("end_operator_sessions"))
        for name in ("tokens", "operator_links", "invitations", "sign_ins", "passwords"):
            connection.execute(statement(f"revoke_restored_{name}"))


#: The first version that has a transaction_timeout.
_TRANSACTION_TIMEOUT_VERSION = 170_000


@dataclass(frozen=True)
class RestoreResult:
    """What was restored, and which access is valid again, or was ``revoked``."""

    manifest: BackupManifest
    access: RestoredAccess
    revoked: bool


def restore(
    path: Path, url: str, home: Path, object_storage: ObjectStorage, *, revoke_all: bool = False
) -> RestoreResult:
    """Restore a backup. Never overwrites: fails if the target is not empty.

    The database is restored in one transaction. With ``revoke_all``, all tokens, and
    passwords and sessions of operators, are revoked.
    """
    manifest = read_backup(path)
    _check_empty(url)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (
        open_regular(path) as opened,
        open_backup(path, opened) as tar,
        tempfile.TemporaryDirectory(dir=home) as room,
    ):
        for name in manifest.members:
            if name.startswith(RESPONSES):
                with open_member(tar, name) as file:
                    asyncio.run(object_storage.put(name.removeprefix(RESPONSES), file.read()))
        _load(url, tar, Path(room))
        with connect(url, name="tiltyard arena restore") as connection:
            use_custom_plans(connection)
            access = read_access(connection)
            if revoke_all:
                revoke_access(connection)
    _check_restored(url, object_storage, manifest)
    with (
        connect(url, name="tiltyard arena restore") as connection,
        translate_errors("record the restoration"),
    ):
        detail = {"file": str(path.absolute()), "made_at": manifest.made_at, "revoked_all": revoke_all}
        connection.execute(statement("backup_recorded"), {"action": "restore", "detail": json.dumps(detail)})
    return RestoreResult(manifest, access, revoke_all)


def restore_database(path: Path, url: str, room: Path) -> None:
    """Restore only the database of a backup, into an empty one. ``room`` is a folder for temporary files."""
    with open_regular(path) as opened, open_backup(path, opened) as tar:
        _load(url, tar, room)
    with connect(url, name="tiltyard arena restore") as connection:
        use_custom_plans(connection)


def check_logs(connection: psycopg.Connection, heads: dict[str, int] | None = None) -> dict[str, int]:
    """Check that every arena's log is dense from 1, and ends at ``heads`` if given; return the last positions."""
    with translate_errors("count the logs"):
        arenas = connection.execute(statement("backup_arenas")).fetchall()
        counts: dict[int, tuple[int, int, int]] = {}
        for bucket in {bucket for _, _, bucket in arenas}:
            rows = connection.execute(
                bucket_statement("backup_counts", bucket), {"bucket": bucket}
            ).fetchall()
            counts |= {arena: (head, first, count) for arena, head, first, count in rows}
    found = {}
    for name, arena, _ in arenas:
        head, first, count = counts.get(arena, (0, 1, 0))
        found[name] = head
        if first != 1 or count != head:
            raise StoreFault(
                f"the log of arena {name} runs from {first} to {head} and has {count} events: some are"
                " missing; restore an older backup into an empty database"
            )
    if heads is not None and found != heads:
        raise StoreFault(
            f"the logs end at {found}, and the backup states {heads}; restore it into an empty database again"
        )
    return found


def _check_empty(url: str) -> None:
    with (
        connect(url, name="tiltyard arena restore") as connection,
        translate_errors("look into the database"),
    ):
        there = [name for (name,) in connection.execute(statement("backup_relations"))]
    if there:
        raise StoreFault(
            f"the database is not empty: it has {', '.join(there)}; restore into an empty one, or give"
            " an empty folder with --home"
        )


def _load(url: str, tar: tarfile.TarFile, room: Path) -> None:
    dump = room / DATABASE
    with open_member(tar, DATABASE) as file, dump.open("wb") as written:
        shutil.copyfileobj(file, written)
    shown, add = without_password(url)
    found = bundled_folder()
    assert found is not None
    programs = Binaries(found)
    with connect(url, name="tiltyard arena restore") as connection:
        version = connection.info.server_version
    if version >= _TRANSACTION_TIMEOUT_VERSION:
        options = ("--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges")
        programs.run("pg_restore", *options, "-d", shown, dump, add=add)
        return
    script = dump.with_suffix(".sql")
    programs.run("pg_restore", "--no-owner", "--no-privileges", "-f", script, dump)
    with script.open("r+b") as file:
        # Our pg_restore always sets it, and older servers do not support it.
        at = file.read(10_000).find(b"SET transaction_timeout")
        if at >= 0:
            file.seek(at)
            file.write(b"--- ")
    asked = ("-X", "-q", "--single-transaction", "-v", "ON_ERROR_STOP=1")
    programs.run("psql", *asked, "-d", shown, "-f", script, add=add)


def _check_restored(url: str, object_storage: ObjectStorage, manifest: BackupManifest) -> None:
    with connect(url, name="tiltyard arena restore") as connection:
        check_logs(connection, manifest.arenas)
        connection.execute("ANALYZE")
    for name, stated in manifest.members.items():
        if name.startswith(RESPONSES):
            data = asyncio.run(object_storage.get(name.removeprefix(RESPONSES)))
            if hashlib.sha256(data).hexdigest() != stated["sha256"]:
                raise StoreFault(f"{name} was not restored correctly; check the disk, and restore again")
