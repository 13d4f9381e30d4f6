"""Who is alive: each worker holds a lock that its operating system or its server frees when it dies.

A lock, unlike a heartbeat, cannot mistake a slow worker for a dead one. Whoever obtains the lock
of another worker knows that nobody works under that name, and that nobody will while it is held.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, LiteralString, Protocol
from urllib.parse import quote

from tiltyard.errors import BadOption, TiltyardError

if TYPE_CHECKING:
    import psycopg

__all__ = ["FileLocks", "ServerLocks", "WorkerLock", "WorkerLocks", "lock_worker_name"]

_KEEPALIVE = "SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3"


@dataclass(frozen=True, slots=True)
class WorkerLock:
    """The right to work under a name, for as long as it is not released."""

    name: str
    release: Callable[[], None]


class WorkerLocks(Protocol):
    """Locks by name, shared by every worker of one database."""

    grace: float
    """Seconds for which another worker's lock must be held before that worker is taken for dead."""

    def take(self, name: str) -> WorkerLock | None:
        """The lock of that name, or nothing if somebody holds it. Never waits."""

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """Held while the database is prepared: one worker after the other."""

    def kept(self) -> bool:
        """Whether what was taken is still ours."""

    def close(self) -> None:
        """Give back everything."""


def lock_worker_name(locks: WorkerLocks, run: str | None) -> WorkerLock:
    """The lock of the first free worker name: ``worker-0``, ``worker-1``, … of the run.

    Restarted workers thus take the names of the dead, and find what those left behind.
    """
    prefix = "" if run is None else f"{run}/"
    for number in itertools.count():
        lock = locks.take(f"{prefix}worker-{number}")
        if lock is not None:
            return lock
    raise AssertionError


class FileLocks:
    """Locks on files in a folder on a local disk, for workers of one machine."""

    grace = 0.0

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadOption(f"cannot make {folder}: {error.strerror or error}") from None

    def take(self, name: str) -> WorkerLock | None:
        path = self._path(name)
        while True:
            file = self._opened(path)
            if not _lock(file, wait=False):
                file.close()
                return None
            if _is_at(file, path):
                return WorkerLock(name, functools.partial(_discard, file, path))
            file.close()

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        with self._opened(self._path("starting")) as file:
            _lock(file, wait=True)
            yield

    def kept(self) -> bool:
        return True

    def close(self) -> None:
        pass

    def _path(self, name: str) -> Path:
        return self._folder / f"{quote(name, safe='')}.lock"

    def _opened(self, path: Path) -> IO[bytes]:
        try:
            return path.open("ab")
        except OSError as error:
            raise BadOption(f"cannot write {path}: {error.strerror or error}") from None


class ServerLocks:
    """Advisory locks of a PostgreSQL session, for workers anywhere.

    The server frees them when the session ends: at once if the process dies, after about a minute
    if its machine vanishes. A session can also end while its worker lives, when the server restarts
    or the network fails. The worker finds out within seconds (``kept``) and must stop; ``grace``
    leaves it the time. A pooler that shares sessions between clients breaks these locks.
    """

    grace = 3.0

    def __init__(self, database: str) -> None:
        import psycopg

        try:
            self._session: psycopg.Connection = psycopg.connect(
                database,
                autocommit=True,
                connect_timeout=10,
                tcp_user_timeout=5000,
                application_name="tiltyard worker",
            )
            self._session.execute(_KEEPALIVE)
        except psycopg.Error as error:
            raise BadOption(f"cannot reach the PostgreSQL of DATABASE_URL: {error}".strip()) from None
        self._error = psycopg.Error
        self._turn = threading.Lock()
        self._broken = False

    def take(self, name: str) -> WorkerLock | None:
        if not self._ask("SELECT pg_try_advisory_lock(%s)", _number(name)):
            return None
        return WorkerLock(name, lambda: self._release(name))

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        yield

    def kept(self) -> bool:
        with contextlib.suppress(TiltyardError):
            self._ask("SELECT %s > 0", 1)
        return not self._broken

    def close(self) -> None:
        self._session.close()

    def _release(self, name: str) -> None:
        with contextlib.suppress(TiltyardError):
            self._ask("SELECT pg_advisory_unlock(%s)", _number(name))

    def _ask(self, query: LiteralString, value: int) -> bool:
        """A yes or no from the session. Once it has failed, all its locks are lost for good."""
        with self._turn:
            try:
                row = self._session.execute(query, (value,)).fetchone()
            except self._error as error:
                self._broken = True
                raise TiltyardError(f"lost the connection to PostgreSQL: {error}".strip()) from None
        return row is not None and bool(row[0])


def _number(name: str) -> int:
    """A name as the 64-bit number by which PostgreSQL knows an advisory lock."""
    digest = hashlib.sha256(f"tiltyard worker {name}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def _is_at(file: IO[bytes], path: Path) -> bool:
    """Whether ``path`` still leads to the opened file; the holder before us removed its own."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _discard(file: IO[bytes], path: Path) -> None:
    """Remove a locked file, then let go of the lock: those who wait for it look again."""
    if not file.closed:
        with contextlib.suppress(OSError):
            path.unlink()
        file.close()


if sys.platform == "win32":
    import msvcrt

    def _lock(file: IO[bytes], *, wait: bool) -> bool:
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _lock(file: IO[bytes], *, wait: bool) -> bool:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
