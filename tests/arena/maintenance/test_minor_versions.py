"""Every minor version of PostgreSQL 15 that Debian offers: backups, upgrades and the listing of the schema."""

import os
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest
from test_backup import everything
from test_major_upgrade import USER, check_upgraded, fill, upgrade

from support.bare_arenas import append, make_arena
from support.postgres_servers import DEBIAN, fresh_database, new_home, postgres
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.maintenance import backup
from tiltyard.arena.maintenance.backup import back_up
from tiltyard.arena.maintenance.restore import restore
from tiltyard.postgres.binaries import bundled_folder
from tiltyard.postgres.connections import connect
from tiltyard.postgres.schema_migrations import migrate

pytestmark = pytest.mark.slow

CACHE = Path(__file__).parents[3] / ".cache" / "postgresql-15"


def unpacked(version: str) -> Path:
    """The programs of one package of Debian, unpacked beside those that are installed."""
    folder = CACHE / version
    if not folder.exists():
        draft = CACHE / f".{version}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        names = (f"postgresql-15={version}", f"postgresql-client-15={version}")
        subprocess.run(["apt-get", "download", "-qq", *names], cwd=draft, check=True)
        for package in sorted(draft.glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", package, draft], check=True)
            package.unlink()
        draft.rename(folder)
    return folder / "usr" / "lib" / "postgresql" / "15" / "bin"


def offered() -> dict[str, Path]:
    """Each minor version that can be had here, with its programs."""
    if shutil.which("apt-cache") is None:
        return {}
    printed = subprocess.run(
        ["apt-cache", "madison", "postgresql-15"], check=True, capture_output=True, text=True
    ).stdout
    versions = {line.split("|")[1].strip() for line in printed.splitlines() if "|" in line}
    return {version.partition("-")[0]: unpacked(version) for version in sorted(versions)}


@pytest.fixture(scope="module")
def minors() -> dict[str, Path]:
    found = offered() or ({"installed": DEBIAN} if (DEBIAN / "initdb").exists() else {})
    if not found:
        assert "TILTYARD_TEST_NEEDS_DEBIAN" not in os.environ
        pytest.skip("no PostgreSQL 15 of Debian can be had here")
    print(f"PostgreSQL {', '.join(found)}")
    return found


@pytest.mark.parametrize("programs", ["own", "shipped"])
def test_backups_move_between_minor_versions_and_to_ours(programs, minors, server, tmp_path, monkeypatch):
    """Made by the server's own pg_dump and by the one that comes with Tiltyard."""
    with ExitStack() as stack:
        servers = {name: stack.enter_context(postgres(folder)) for name, folder in minors.items()}
        servers["ours"] = server
        for source, folder in minors.items():
            chosen = folder if programs == "own" else bundled_folder()
            monkeypatch.setattr(backup, "find_pg_dump_folder", lambda _, chosen=chosen: chosen)
            one = stack.enter_context(fresh_database(servers[source]))
            migrate(one)
            with connect(one) as connection:
                append(connection, make_arena(one, "first"), 20)
            made = back_up(one, tmp_path, FolderStorage(tmp_path / "responses"))
            for target, address in servers.items():
                there = tmp_path / f"{source}-{target}"
                with fresh_database(address) as other:
                    restore(made.path, other, there, FolderStorage(there))
                    assert everything(other) == everything(one)


def test_each_minor_version_becomes_18(minors):
    for folder in minors.values():
        home = new_home()
        try:
            fill(home, folder)
            done = upgrade(home, old_binaries=folder)
            print(f"{folder}: {done.problem or 'pg_upgrade'} (run by {USER})")
            check_upgraded(home, done, 15)
        finally:
            shutil.rmtree(home)
