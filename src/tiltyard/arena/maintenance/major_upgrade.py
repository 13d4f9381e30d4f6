"""The embedded database after a new major version of PostgreSQL: backed up, then upgraded beside the old.

The data of the old version are copied, not changed, and kept until somebody removes them.
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

__all__ = ["UpgradeResult", "upgrade_database"]


@dataclass(frozen=True)
class UpgradeResult:
    """What was upgraded: from which version to which, where the old data are kept, and the backup."""

    old: int
    new: int
    kept: Path
    backup: Path
    #: Why pg_upgrade could not do it, and the backup was restored instead; empty if it could.
    problem: str = ""


def upgrade_database(
    home: Path,
    object_storage: ObjectStorage,
    *,
    user: str | None = None,
    old_binaries: Path | None = None,
    on_wait: OnWait | None = None,
) -> UpgradeResult | None:
    """Upgrade the home's own database to the version that Tiltyard comes with; ``None`` if it is that already.

    ``old_binaries``: the folder with the programs of the version that made the data.
    """
    server = EmbeddedServer(home, user=user, on_wait=on_wait)
    if not server.folder.is_dir():
        raise StoreFault(f"{home} has no database of its own; one of DATABASE_URL is upgraded by its owner")
    with server.unused():
        _take_back(server)
        old, new = server.major(), server.programs.major()
        if old == new:
            return None
        found = _binaries_of(old, old_binaries)
        kept = server.folder / f"data-{old}"
        if kept.exists():
            raise StoreFault(f"{kept} is there from an upgrade before; move it away, and try again")
        before = EmbeddedServer(home, user=user, binaries=found, on_wait=on_wait)
        with before.start_exclusively() as url:
            made = back_up(url, home, object_storage, binaries=found)
        fresh, problem = _copy(server, found)
        if problem:
            restored = EmbeddedServer(home, user=user, data="data.restored", on_wait=on_wait)
            fresh = _restore(restored, made, problem)
        _replace(server, fresh, kept)
    with server as after, connect(after.url) as connection:
        check_logs(connection, made.manifest.arenas)
        connection.execute("ANALYZE")
    return UpgradeResult(old, new, kept, made.path, problem)


def _copy(server: EmbeddedServer, old_binaries: Path) -> tuple[Path, str]:
    """A copy of the data made by pg_upgrade, and why there is none."""
    fresh, socket = server.folder / "data.new", server.make_socket()
    server.make_data(fresh, _checksums(server, old_binaries))
    password = (server.folder / "password").read_text(encoding="ascii").strip()
    arguments = ("-b", old_binaries, "-B", server.programs.folder, "-d", "data", "-D", fresh.name)
    code, printed = server.programs.attempt(
        "pg_upgrade",
        *arguments,
        "-U",
        "tiltyard",
        "-s",
        socket,
        cwd=server.folder,
        add={"PGPASSWORD": password},
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
    """A data folder of the new version with the backup's contents."""
    shutil.rmtree(restored.data, ignore_errors=True)
    try:
        with restored.start_exclusively() as url, tempfile.TemporaryDirectory(dir=restored.folder) as room:
            restore_database(made.path, url, Path(room))
            record_backup(url, made)
    except StoreFault as error:
        shutil.rmtree(restored.data, ignore_errors=True)
        raise StoreFault(
            f"pg_upgrade failed: {problem}; so did dump and restore: {error}; the old database is as it was"
        ) from None
    return restored.data


def _replace(server: EmbeddedServer, fresh: Path, kept: Path) -> None:
    """Put the new data in the place of the old, with the old settings."""
    settings = (server.data / "postgresql.auto.conf").read_text(encoding="utf-8")
    server.write(fresh / "postgresql.auto.conf", settings)
    server.data.rename(kept)
    fresh.rename(server.data)


def _take_back(server: EmbeddedServer) -> None:
    """Undo an upgrade that was cut off between its two last steps."""
    if not server.data.exists():
        kept = sorted(server.folder.glob("data-*"))
        if not kept:
            raise StoreFault(f"{server.folder} has no database yet; tiltyard serve creates one")
        kept[-1].rename(server.data)


def _binaries_of(major: int, named: Path | None) -> Path:
    """The programs of that version: where they were said to be, or where they usually are."""
    candidates = [named] if named is not None else installed_folders(major)
    there = [folder.absolute() for folder in candidates if (folder / "postgres").is_file()]
    for folder in there:
        if Binaries(folder).major() == major:
            return folder
    if named is not None and there:
        found = Binaries(there[0]).major()
        raise BadOption(f"--old-binaries {named}: PostgreSQL {found}, and the data were made by {major}")
    place = f"not in {named}" if named is not None else "not found here"
    raise BadOption(
        f"the data were made by PostgreSQL {major}, whose programs are {place}; install that version,"
        " and name the folder that holds its postgres and pg_dump with --old-binaries"
    )


def _checksums(server: EmbeddedServer, old_binaries: Path) -> str:
    """initdb's option that makes pages like the old ones: pg_upgrade wants both alike."""
    told = Binaries(old_binaries, server.programs.account).run(
        "pg_controldata", "-D", "data", cwd=server.folder
    )
    kept = re.search(r"Data page checksum version:\s+(\d+)", told)
    return "--no-data-checksums" if kept is not None and kept[1] == "0" else "--data-checksums"
