"""A PostgreSQL that keeps its word on a crash, to be killed and started again."""

import contextlib
import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from support.postgres_servers import account
from tiltyard.errors import StoreFault
from tiltyard.postgres.binaries import Binaries, bundled_folder
from tiltyard.postgres.connections import connect

#: As an operator would run it: what is acknowledged is on the disk.
_DURABLE = "-c fsync=on -c synchronous_commit=on -c full_page_writes=on -c max_connections=80"
_GONE = 60.0


def free_port() -> int:
    """A port that nobody listens on."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class MortalServer:
    """One server: its folder, its port, and the ways it can end."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.data = folder / "data"
        #: Chosen when it first starts; it keeps it.
        self.port = 0
        self.options = options
        binaries = bundled_folder()
        assert binaries is not None
        self.programs = Binaries(binaries, account())

    @property
    def url(self) -> str:
        return f"postgresql://tiltyard@127.0.0.1:{self.port}/postgres"

    def init(self, *options: str) -> None:
        """An empty cluster."""
        where = ("-D", self.data, "-U", "tiltyard", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8")
        self.programs.run("initdb", *where, *options)

    def copy_of(self, primary: "MortalServer", *, standby: bool = True) -> None:
        """A copy of another server: a standby that streams from it, or its base backup."""
        dsn = f"host=127.0.0.1 port={primary.port} user=tiltyard application_name=standby"
        how = ("-R", "-X", "stream") if standby else ("-X", "none")
        self.programs.run("pg_basebackup", "-D", self.data, "-d", dsn, *how, "-c", "fast")

    def start(self) -> None:
        """Start it, and wait until it has recovered."""
        log, first = self.folder / "log", not self.port
        deadline = time.monotonic() + _GONE
        while True:
            if first:
                self.port = free_port()
            listening = f"-p {self.port} -k {self.folder} -h 127.0.0.1"
            options = " ".join((listening, _DURABLE, *self.options))
            where = ("-D", self.data, "-w", "-t", "60", "-l", log, "-o", options)
            code, printed = self.programs.attempt("pg_ctl", *where, "start")
            if not code:
                return
            if time.monotonic() > deadline:
                raise AssertionError(f"PostgreSQL does not start: {printed}\n{self.said()[-2000:]}")
            # Those whom a killed postmaster left behind hold its memory for a moment.
            time.sleep(0.1)

    def running(self) -> bool:
        """Whether its postmaster lives."""
        pid = self.pid()
        return pid is not None and _alive(pid)

    def pid(self) -> int | None:
        with contextlib.suppress(OSError, ValueError, IndexError):
            return int((self.data / "postmaster.pid").read_text().splitlines()[0])
        return None

    def family(self) -> list[int]:
        """The postmaster and its processes."""
        pid = self.pid()
        return [] if pid is None else [pid, *_children_of(pid)]

    def stop_immediately(self) -> None:
        """``pg_ctl stop -m immediate``: nothing is written any more; the next start recovers."""
        self.programs.attempt("pg_ctl", "-D", self.data, "-w", "-m", "immediate", "stop")

    def kill_postmaster(self) -> None:
        """kill -9 of the postmaster alone; its processes notice by themselves."""
        _kill([pid] if (pid := self.pid()) is not None else [])

    def kill_everything(self) -> None:
        """kill -9 of all its processes at once, as when a machine is lost."""
        _kill(self.family())

    def promote(self) -> None:
        """From now on this standby takes writes."""
        self.programs.run("pg_ctl", "-D", self.data, "-w", "promote")

    def cut_connections(self) -> int:
        """Every connection is closed by the server."""
        with connect(self.url) as connection:
            found = connection.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            ).fetchone()
        assert found is not None
        return int(found[0])

    def said(self) -> str:
        """Its log."""
        return (self.folder / "log").read_text(errors="replace")

    def answers(self) -> bool:
        """Whether it takes connections."""
        try:
            connect(self.url).close()
        except StoreFault:
            return False
        return True


@contextmanager
def mortal_server(*options: str, folder: Path | None = None) -> Iterator[MortalServer]:
    """A new server that runs; it and its folder are gone afterwards."""
    made = folder or new_folder()
    server = MortalServer(made, *options)
    try:
        server.init()
        server.start()
        yield server
    finally:
        end(server)
        if folder is None:
            shutil.rmtree(made, ignore_errors=True)


def new_folder() -> Path:
    """A folder that the server's user owns."""
    folder = Path(tempfile.mkdtemp(prefix="tiltyard-faults-"))
    own(folder)
    return folder


def own(folder: Path) -> None:
    owner = account()
    if owner is not None:
        os.chown(folder, owner.pw_uid, owner.pw_gid)


def end(*servers: MortalServer) -> None:
    """Leave nothing running, whatever state it is in."""
    for server in servers:
        family: Sequence[int] = server.family()
        server.stop_immediately()
        _kill([pid for pid in family if _alive(pid)])


def _children_of(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == parent:
                    found.append(int(entry.name))
    return found


def _alive(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _kill(pids: Sequence[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + _GONE
    while any(_alive(pid) for pid in pids):
        assert time.monotonic() < deadline, "processes do not die"
        time.sleep(0.01)
