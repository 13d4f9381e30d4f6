"""Upgrades the embedded database to a new major version of PostgreSQL, after a backup.

The old data are copied, not changed, and kept until the operator deletes them.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tiltyard.arena.content.object_storage import ObjectStorage
from tiltyard.arena.maintenance.backup import BackupResult, back_up, record_backup
from tiltyard.arena.maintenance.restore import check_logs, restore_database
from tiltyard.errors import BadOption, StoreFault
from tiltyard.postgres.binaries import Binaries, OnWait, installed_folders, one_line
from tiltyard.postgres.connections import connect
from tiltyard.postgres.embedded_server import EmbeddedServer


@dataclass(frozen=True)
class UpgradeResult:
    """The old and new version, where the old data are kept, and the backup."""

    old: int
    new: int
    kept: Path
    backup: Path
    #: Why pg_upgrade failed and the backup was restored instead; empty if it succeeded.
    problem: str = ""


def upgrade_database(
    home: Path,
    object_storage: ObjectStorage,
    *,
    user: str | None = None,
    old_binaries: Path | None = None,
    on_wait: OnWait | None = None,
) -> UpgradeResult | None:
    """Upgrade the embedded database to the version that comes with Tiltyard; ``None`` if it has that version.

    ``old_binaries`` is the folder with the programs of the old version.
    """
    server = EmbeddedServer(home, user=user, on_wait=on_wait)
    if not server.folder.is_dir():
        raise StoreFault(
            f"{home} has no embedded database; upgrade a database of DATABASE_URL with its own tools"
        )
    with server.unused():
        _undo_interrupted_upgrade(server)
        old, new = server.major(), server.programs.major()
        if old == new:
            return None
        found = _binaries_of(old, old_binaries)
        kept = server.folder / f"data-{old}"
        if kept.exists():
            raise StoreFault(f"{kept} exists from an earlier upgrade; move it elsewhere, and try again")
        before = EmbeddedServer(home, user=user, binaries=found, on_wait=on_wait)
        with before.start_exclusively() as url:
            made = back_up(url, home, object_storage, binaries=found)
        fresh, problem = _copy(server, found)
        if problem:
            restored = EmbeddedServer(home, user=user, data="data.restored", on_wait=on_wait)
            fresh = _restore(restored, made, problem)
        settings = (server.data / "postgresql.auto.conf").read_text(encoding="utf-8")
        server.write(fresh / "postgresql.auto.conf", settings)
        server.data.rename(kept)
        fresh.rename(server.data)
    with server as after, connect(after.url) as connection:
        check_logs(connection, made.manifest.arenas)
        connection.execute("ANALYZE")
    return UpgradeResult(old, new, kept, made.path, problem)


def _copy(server: EmbeddedServer, old_binaries: Path) -> tuple[Path, str]:
    """Copy the data with pg_upgrade; return the new folder, and the error if it failed."""
    fresh, socket = server.folder / "data.new", server.make_socket()
    printed = Binaries(old_binaries, server.programs.account).run(
        "pg_controldata", "-D", "data", cwd=server.folder
    )
    # pg_upgrade requires the same option as in the old data.
    kept = re.search(r"Data page checksum version:\s+(\d+)", printed)
    without = kept is not None and kept[1] == "0"
    server.make_data(fresh, "--no-data-checksums" if without else "--data-checksums")
    password = (server.folder / "password").read_text(encoding="ascii").strip()
    arguments = ("-b", old_binaries, "-B", server.programs.folder, "-d", "data", "-D", fresh.name)
    access = ("-U", "tiltyard", "-s", socket)
    code, printed = server.programs.attempt(
        "pg_upgrade", *arguments, *access, cwd=server.folder, add={"PGPASSWORD": password}
    )
    server.remove_socket(socket)
    if not code:
        return fresh, ""
    problem = _first_error(fresh) or one_line(printed) or f"code {code}"
    shutil.rmtree(fresh, ignore_errors=True)
    return fresh, problem


def _first_error(fresh: Path) -> str:
    """The first error in the logs that pg_upgrade leaves in the new data folder."""
    for log in sorted(fresh.glob("pg_upgrade_output.d/*/log/*.log")):
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            if "error:" in line.lower():
                return line.strip()
    return ""


def _restore(restored: EmbeddedServer, made: BackupResult, problem: str) -> Path:
    shutil.rmtree(restored.data, ignore_errors=True)
    try:
        with restored.start_exclusively() as url, tempfile.TemporaryDirectory(dir=restored.folder) as room:
            restore_database(made.path, url, Path(room))
            record_backup(url, made)
    except StoreFault as error:
        shutil.rmtree(restored.data, ignore_errors=True)
        raise StoreFault(
            f"pg_upgrade failed: {problem}; so did dump and restore: {error}; the old database is unchanged"
        ) from None
    return restored.data


def _undo_interrupted_upgrade(server: EmbeddedServer) -> None:
    """Undo an upgrade that was interrupted between its last two steps."""
    if not server.data.exists():
        kept = sorted(server.folder.glob("data-*"))
        if not kept:
            raise StoreFault(f"{server.folder} has no database yet; tiltyard serve creates one")
        kept[-1].rename(server.data)


def _binaries_of(major: int, named: Path | None) -> Path:
    """The folder with the programs of a version: the given one, or a usual one."""
    candidates = [named] if named is not None else installed_folders(major)
    there = [folder.absolute() for folder in candidates if (folder / "postgres").is_file()]
    for folder in there:
        if Binaries(folder).major() == major:
            return folder
    if named is not None and there:
        found = Binaries(there[0]).major()
        raise BadOption(f"--old-binaries {named}: PostgreSQL {found}, but the data were made by {major}")
    place = f"not in {named}" if named is not None else "not found here"
    raise BadOption(
        f"the data were made by PostgreSQL {major}, whose programs are {place}; install that version,"
        " and give the folder with its postgres and pg_dump as --old-binaries"
    )
