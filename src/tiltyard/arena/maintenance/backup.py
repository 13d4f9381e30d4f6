"""Backups: one file with the database and the bytes of responses, and without the secret key.

The database and the positions in the manifest are a consistent snapshot, whatever is written meanwhile.
A backup gets its name only when it is complete and synced to disk.

PostgreSQL 15.20 keeps an option of its own, ``pg_attver``, with every column. A pg_dump that does not
know it writes ``ALTER TABLE … ALTER COLUMN … SET (pg_attver=…)``, which other servers refuse.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import re
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, TypedDict

from tiltyard._version import __version__
from tiltyard.arena.content.object_storage import ObjectStorage
from tiltyard.arena.content.stored_conversations import MAX_RESPONSE_BYTES
from tiltyard.errors import InputError, StoreFault, UnreadableFile
from tiltyard.files.input_file import ARCHIVE_READ_BYTES
from tiltyard.foundation.local_files import open_regular, remove_drafts, replace_file
from tiltyard.postgres.binaries import Binaries, find_pg_dump_folder, without_password
from tiltyard.postgres.connections import connect, translate_errors
from tiltyard.postgres.statements import bucket_statement, statement
from tiltyard.runs.manifest import parse_document

if TYPE_CHECKING:
    import psycopg


_MANIFEST, DATABASE = "manifest.json", "database.dump"
RESPONSES = "responses/"
#: Names that a backup may contain: a restore never writes any other file.
_MEMBER = re.compile(r"database\.dump|responses/[0-9a-f]{64}")
#: Backups of version 1 had the secret key in them.
_FORMAT_VERSION = 2
_CHUNK_BYTES = 1 << 20
#: The longest manifest: it has a line for each response that is not in the database.
_MANIFEST_BYTES = 1 << 28


class Member(TypedDict):
    """The manifest's entry for a file in a backup."""

    sha256: str
    size: int


@dataclass(frozen=True)
class BackupManifest:
    """The contents of a backup, and the log positions that a restored database must have."""

    format: int
    made_at: str
    tiltyard: str
    postgresql: str
    #: Names of arenas and the last positions of their logs.
    arenas: dict[str, int]
    #: Entries of the file by name, each with its ``sha256`` and ``size``.
    members: dict[str, Member] = field(repr=False)


@dataclass(frozen=True)
class BackupResult:
    path: Path
    size: int
    seconds: float
    manifest: BackupManifest = field(repr=False)


def back_up(
    url: str,
    home: Path,
    object_storage: ObjectStorage,
    path: Path | None = None,
    *,
    binaries: Path | None = None,
) -> BackupResult:
    """Write a backup to ``path``; by default to a file named by the time, in the folder ``backups`` of the home.

    ``binaries`` is the folder with the pg_dump to use, if known.
    """
    began = time.monotonic()
    now = datetime.now(UTC)
    path = path or home / "backups" / f"tiltyard-{now:%Y%m%dT%H%M%S.%fZ}.tar"
    if path.exists():
        raise StoreFault(f"{path} exists already; choose another file")
    with connect(url, name="tiltyard arena backup") as connection, _draft(path) as draft:
        programs = Binaries(binaries or find_pg_dump_folder(connection.info.server_version))
        with tarfile.open(fileobj=draft, mode="w", format=tarfile.PAX_FORMAT) as tar:
            dump_to = partial(_dump, programs, url)
            manifest = _fill(tar, connection, dump_to, object_storage, now, path.parent)
            document = json.dumps(asdict(manifest), indent=1, sort_keys=True).encode()
            _add(tar, _MANIFEST, io.BytesIO(document), len(document))
        size = draft.tell()
    made = BackupResult(path, size, time.monotonic() - began, manifest)
    record_backup(url, made)
    return made


def record_backup(url: str, made: BackupResult) -> None:
    """Record the backup in the audit log."""
    detail = {"file": str(made.path.absolute()), "size": made.size, "arenas": made.manifest.arenas}
    with connect(url, name="tiltyard arena backup") as connection, translate_errors("record the backup"):
        connection.execute(statement("backup_recorded"), {"action": "backup", "detail": json.dumps(detail)})


def read_backup(path: Path) -> BackupManifest:
    """Read the manifest of a backup, and check the whole file against it."""
    try:
        with open_regular(path) as file, open_backup(path, file) as tar:
            return _checked(tar, path)
    except (OSError, tarfile.TarError) as error:
        raise UnreadableFile(f"{path}: cannot be read as a backup: {error}") from None


def open_backup(path: Path, file: BinaryIO) -> tarfile.TarFile:
    """The archive in an open file; a header that states to be too large is an error before it is read."""
    return tarfile.open(path, fileobj=_BoundedReads(path, file), mode="r:")


def open_member(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    """The content of a backup entry: one that is a plain file, and neither a link nor a file with holes."""
    try:
        info = tar.getmember(name)
        found = tar.extractfile(info) if info.isreg() and not info.issparse() else None
    except KeyError:
        found = None
    if found is None:
        raise InputError(f"{tar.name!s}: has no {name}; it is not a backup of Tiltyard, or it is incomplete")
    return found


def _fill(
    tar: tarfile.TarFile,
    connection: psycopg.Connection,
    dump_to: Callable[[Path, str], None],
    object_storage: ObjectStorage,
    now: datetime,
    folder: Path,
) -> BackupManifest:
    members: dict[str, Member] = {}
    with _snapshot(connection) as (snapshot, arenas, hashes), tempfile.TemporaryDirectory(dir=folder) as room:
        dump = Path(room) / DATABASE
        dump_to(dump, snapshot)
        with dump.open("rb") as file:
            members[DATABASE] = _add(tar, DATABASE, file, dump.stat().st_size)
    for digest in hashes:
        data = _bytes(connection, object_storage, digest)
        if data is not None:
            name = f"{RESPONSES}{digest.hex()}"
            members[name] = _add(tar, name, io.BytesIO(data), len(data))
    version = str(connection.info.parameter_status("server_version"))
    return BackupManifest(_FORMAT_VERSION, now.isoformat(), __version__, version, arenas, members)


@contextmanager
def _snapshot(connection: psycopg.Connection) -> Iterator[tuple[str, dict[str, int], list[bytes]]]:
    """A database snapshot that pg_dump can use too: its name, the last positions of the logs, and hashes of bytes."""
    with translate_errors("read what is to be backed up"), connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        row = connection.execute("SELECT pg_export_snapshot()").fetchone()
        assert row is not None
        heads: dict[str, int] = {}
        for name, arena, bucket in connection.execute(statement("backup_arenas")).fetchall():
            position = bucket_statement("log_position", bucket)
            ((heads[name],),) = connection.execute(position, {"arena": arena}).fetchall()
        hashes = [bytes(digest) for (digest,) in connection.execute(statement("backup_bulky"))]
        yield row[0], heads, hashes


def _dump(programs: Binaries, url: str, path: Path, snapshot: str) -> None:
    shown, add = without_password(url)
    # Unlogged tables live for minutes; keys of hashes of addresses must not outlive their day.
    without = ("--no-unlogged-table-data", "--exclude-table-data=network_keys")
    options = ("-Fc", "-Z", "3", "--no-owner", "--no-privileges", *without, f"--snapshot={snapshot}")
    programs.run("pg_dump", *options, "-f", path.absolute(), "-d", shown, add=add)
    remove_private_options(path)


def _bytes(connection: psycopg.Connection, object_storage: ObjectStorage, digest: bytes) -> bytes | None:
    """The bytes of a response; ``None`` if it was withdrawn during the backup."""
    problem = "they do not have that hash"
    try:
        data = asyncio.run(object_storage.get(digest.hex()))
        if hashlib.sha256(data).digest() == digest:
            return data
    except StoreFault as error:
        problem = str(error)
    with translate_errors("read what is to be backed up"):
        wanted = connection.execute(statement("backup_still_named"), {"sha256": digest}).fetchone()
    if wanted is None:
        return None
    raise StoreFault(
        f"the bytes of response {digest.hex()} cannot be backed up: {problem}; restore them from an older backup"
    )


def _add(tar: tarfile.TarFile, name: str, file: IO[bytes], size: int) -> Member:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o600, int(time.time())
    reading = _Hashing(file)
    tar.addfile(info, reading)
    return {"sha256": reading.sha256.hexdigest(), "size": size}


class _BoundedReads(io.RawIOBase):
    """A file for `tarfile`, which reads an extended header in one piece, however large that states to be."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        super().__init__()
        self._path = path
        self._file = file

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if size > ARCHIVE_READ_BYTES:
            raise UnreadableFile(f"{self._path}: a header is too large for a backup; use another backup")
        return self._file.read(ARCHIVE_READ_BYTES if size < 0 else size)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


class _Hashing:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        piece = self._file.read(size)
        self.sha256.update(piece)
        return piece


@contextmanager
def _draft(path: Path) -> Iterator[IO[bytes]]:
    """A temporary file, readable by its owner only, that gets its name when it is complete."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_drafts(path.parent, path.name)
        with replace_file(path, durable=True, private=True) as file:
            yield file
    except OSError as error:
        raise StoreFault(f"cannot write {path}: {error.strerror}; choose another path") from None


def _read_manifest(tar: tarfile.TarFile) -> BackupManifest:
    with open_member(tar, _MANIFEST) as file:
        if tar.getmember(_MANIFEST).size > _MANIFEST_BYTES:
            raise UnreadableFile(f"{_MANIFEST}: too large")
        manifest = BackupManifest(**parse_document(_MANIFEST, file.read()))
    positions, entries = list(manifest.arenas.values()), list(manifest.members.values())
    stated = [(entry["sha256"], entry["size"]) for entry in entries]
    fits = all(isinstance(one, int) for one in positions) and all(
        isinstance(sha256, str) and isinstance(size, int) for sha256, size in stated
    )
    if not fits:
        raise TypeError("a value has another type than those of a manifest")
    return manifest


def _checked(tar: tarfile.TarFile, path: Path) -> BackupManifest:
    try:
        manifest = _read_manifest(tar)
    except (UnreadableFile, AttributeError, KeyError, TypeError):
        raise InputError(f"{path}: {_MANIFEST} cannot be read; use another backup") from None
    if manifest.format != _FORMAT_VERSION:
        raise InputError(f"{path}: made by Tiltyard {manifest.tiltyard}; restore it with that version")
    for name, stated in manifest.members.items():
        if not _MEMBER.fullmatch(name):
            raise InputError(f"{path}: has an unexpected entry {name!r}; use another backup")
        digest = hashlib.sha256()
        if name.startswith(RESPONSES) and stated["size"] > MAX_RESPONSE_BYTES:
            raise InputError(f"{path}: {name} is larger than any response; use another backup")
        with open_member(tar, name) as file:
            while piece := file.read(_CHUNK_BYTES):
                digest.update(piece)
        named = name.removeprefix(RESPONSES) if name.startswith(RESPONSES) else stated["sha256"]
        if not digest.hexdigest() == stated["sha256"] == named:
            raise InputError(f"{path}: {name} is damaged; use another backup")
    return manifest


#: Column options that PostgreSQL documents: every supported server takes them.
_PUBLIC_OPTIONS = (b"n_distinct", b"n_distinct_inherited")
_STATEMENTS = (b"ALTER TABLE ONLY ", b"ALTER FOREIGN TABLE ONLY ")
_SET = b" SET ("
_MAGIC = b"PGDMP"
_CUSTOM_FORMAT_CODE = 1
#: Versions of the archive format that pg_dump 15 to 18 write; see pg_backup_archiver.c, ReadHead and ReadToc.
_ARCHIVE_VERSIONS = ((1, 14), (1, 15), (1, 16))
_BYTE_COMPRESSION_VERSION = (1, 15)
_STORED_KIND_VERSION = (1, 16)


def remove_private_options(archive: Path) -> None:
    """Take such options out of an archive made by ``pg_dump -Fc``.

    The text is overwritten by as many spaces, so that everything else stays where it is. An archive of
    an unknown version is left alone: pg_restore says what is wrong with it.
    """
    with archive.open("r+b") as file:
        try:
            definitions = _read_definitions(file)
        except (EOFError, ValueError, OverflowError):
            return
        for offset, definition in definitions:
            kept = without_private_options(definition)
            if kept != definition:
                file.seek(offset)
                file.write(kept)


def without_private_options(sql: bytes) -> bytes:
    """The same statements, as long as before, with spaces in place of options that are a server's own."""
    lines = sql.split(b"\n")
    for k, line in enumerate(lines):
        head, found, tail = line.rpartition(_SET)
        if found and line.startswith(_STATEMENTS) and b" ALTER COLUMN " in head and tail.endswith(b");"):
            options = tail[:-2].split(b", ")
            public = [option for option in options if option.partition(b"=")[0] in _PUBLIC_OPTIONS]
            kept = head + found + b", ".join(public) + b");" if public else b""
            lines[k] = kept.ljust(len(line))
    return b"\n".join(lines)


def _read_definitions(file: BinaryIO) -> list[tuple[int, bytes]]:
    """The SQL that defines each entry of the table of contents, and where in the file it is."""
    archive = _Archive(file)
    found = []
    for _ in range(archive.read_integer()):
        archive.read_integer()  # its number
        archive.read_integer()  # whether it has data
        for _name in ("table's oid", "oid", "tag", "description"):
            archive.read_text()
        archive.read_integer()  # section
        size = archive.read_integer()
        if size > 0:
            found.append((file.tell(), archive.read(size)))
        for _name in ("drop", "copy", "schema", "tablespace", "access method"):
            archive.read_text()
        if archive.version >= _STORED_KIND_VERSION:
            archive.read_integer()
        for _name in ("owner", "with oids"):
            archive.read_text()
        while archive.read_text() is not None:
            pass  # what it depends on
        archive.read(1 + archive.offset_size)
    return found


class _Archive:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = file.seek(0, 2)
        file.seek(0)
        if self.read(len(_MAGIC)) != _MAGIC:
            raise ValueError("not an archive of pg_dump")
        major, minor, _, self._integer_size, self.offset_size, kind = self.read(6)
        self.version = (major, minor)
        if self.version not in _ARCHIVE_VERSIONS or kind != _CUSTOM_FORMAT_CODE:
            raise ValueError("an archive of another version or format")
        if self.version >= _BYTE_COMPRESSION_VERSION:
            self.read(1)
        else:
            self.read_integer()
        for _ in range(7):
            self.read_integer()  # when it was made
        for _name in ("database", "version of the server", "version of pg_dump"):
            self.read_text()

    def read(self, size: int) -> bytes:
        # Memory is taken for as much as is asked for, and a damaged archive may ask for anything.
        if not 0 <= size <= self._size - self._file.tell():
            raise EOFError
        return self._file.read(size)

    def read_integer(self) -> int:
        negative, *digits = self.read(1 + self._integer_size)
        value = int.from_bytes(bytes(digits), "little")
        return -value if negative else value

    def read_text(self) -> bytes | None:
        size = self.read_integer()
        return None if size < 0 else self.read(size)
