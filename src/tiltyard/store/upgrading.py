"""The embedded database after a new major version of PostgreSQL: backed up, then upgraded beside the old.

The data of the old version are copied, not changed, and kept until somebody removes them.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from tiltyard.errors import BadOption, StoreFault
from tiltyard.store.backup import back_up
from tiltyard.store.bulky import Bulky
from tiltyard.store.connecting import connect
from tiltyard.store.programs import OnWait, Programs, shipped
from tiltyard.store.restoring import check_logs
from tiltyard.store.server import EmbeddedServer

__all__ = ["Upgraded", "upgrade_database"]


@dataclass(frozen=True)
class Upgraded:
    """What was upgraded: from which version to which, where the old data are kept, and the backup."""

    old: int
    new: int
    kept: Path
    backup: Path


def upgrade_database(
    home: Path,
    bulky: Bulky,
    *,
    user: str | None = None,
    old_binaries: Path | None = None,
    on_wait: OnWait | None = None,
) -> Upgraded | None:
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
    with EmbeddedServer(home, user=user, binaries=found, on_wait=on_wait) as before:
        made = back_up(before.url, home, bulky)
    with server.unused():
        _upgrade(server, found, kept)
    with server as after, connect(after.url) as connection:
        check_logs(connection, made.manifest.arenas)
        connection.execute("ANALYZE")
    return Upgraded(old, new, kept, made.path)


def _upgrade(server: EmbeddedServer, old_binaries: Path, kept: Path) -> None:
    server.shut_down()
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
    if code:
        shutil.rmtree(fresh, ignore_errors=True)
        told = "; ".join(line.strip() for line in printed.splitlines()[-12:] if line.strip())
        raise StoreFault(f"pg_upgrade failed, and the old database is as it was: {told}")
    settings = (server.data / "postgresql.auto.conf").read_text(encoding="utf-8")
    server.write(fresh / "postgresql.auto.conf", settings)
    server.data.rename(kept)
    fresh.rename(server.data)


def _take_back(server: EmbeddedServer) -> None:
    """Undo an upgrade that was cut off between its two last steps."""
    if not server.data.exists():
        kept = sorted(server.folder.glob("data-*"))
        if not kept:
            raise StoreFault(f"{server.folder} has no database yet; tiltyard serve makes one")
        kept[-1].rename(server.data)


def _binaries_of(major: int, named: Path | None) -> Path:
    """The programs of that version: where they were said to be, or among ours."""
    found = (named or shipped(major) or _customary(major)).absolute()
    if not (found / "postgres").is_file():
        raise BadOption(
            f"the data were made by PostgreSQL {major}, whose programs are not in {found}; install that version,"
            " and name the folder that holds its postgres and pg_dump with --old-binaries"
        )
    there = Programs(found).major()
    if there != major:
        raise BadOption(f"--old-binaries {found}: PostgreSQL {there}, and the data were made by {major}")
    return found


def _customary(major: int) -> Path:
    return Path(f"/usr/lib/postgresql/{major}/bin")


def _checksums(server: EmbeddedServer, old_binaries: Path) -> str:
    """initdb's option that makes pages like the old ones: pg_upgrade wants both alike."""
    told = Programs(old_binaries, server.programs.account).run(
        "pg_controldata", "-D", "data", cwd=server.folder
    )
    kept = re.search(r"Data page checksum version:\s+(\d+)", told)
    return "--no-data-checksums" if kept is not None and kept[1] == "0" else "--data-checksums"
