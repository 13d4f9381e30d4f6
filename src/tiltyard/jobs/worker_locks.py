"""Worker locks: each worker holds a lock that the operating system or PostgreSQL releases when it dies.

Unlike a heartbeat, a lock cannot mistake a slow worker for a dead one. A process that obtains the lock of
another worker knows that no worker has that name, and that none will while the lock is held.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, LiteralString
from urllib.parse import quote

from tiltyard.errors import BadOption, TiltyardError
from tiltyard.foundation.local_files import lock_file

if TYPE_CHECKING:
    import psycopg

_KEEPALIVE = "SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3"


@dataclass(frozen=True, slots=True)
class WorkerLock:
    """The exclusive right to a worker name, until released."""

    name: str
    release: Callable[[], None]


def lock_worker_name(locks: WorkerLocks, run: str | None) -> WorkerLock:
    """Take the lock of the first free worker name: ``worker-0``, ``worker-1``, … of the run.

    So a restarted worker reuses the name of a dead one and resumes its shards.
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
    """Seconds to hold another worker's lock before that worker counts as dead."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadOption(f"cannot create {folder}: {error.strerror or error}") from None

    def take(self, name: str) -> WorkerLock | None:
        """Take the lock of that name; ``None`` if it is held. Never waits."""
        path = self._path(name)
        while True:
            file = self._opened(path)
            if not lock_file(file, wait=False):
                file.close()
                return None
            if _is_at(file, path):
                return WorkerLock(name, functools.partial(_discard, file, path))
            file.close()

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """Held while the database is prepared, by one worker at a time."""
        with self._opened(self._path("starting")) as file:
            lock_file(file)
            yield

    def kept(self) -> bool:
        """Whether our locks are still held."""
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

    The server releases them when the session ends: at once if the process dies, after about a minute if
    its machine is lost. A session can also end while its worker is alive, when the server restarts or the
    network fails. The worker detects this within seconds (``kept``) and must stop; ``grace`` gives it time.
    A connection pooler that shares sessions between clients breaks these locks.
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
            raise BadOption(
                f"cannot connect to the PostgreSQL server of DATABASE_URL: {error}".strip()
            ) from None
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
        """Run a query that returns a boolean. After the first failure all locks are lost."""
        with self._turn:
            try:
                row = self._session.execute(query, (value,)).fetchone()
            except self._error as error:
                self._broken = True
                raise TiltyardError(f"lost the connection to PostgreSQL: {error}".strip()) from None
        return row is not None and bool(row[0])


#: Locks by name, shared by all workers of one database.
WorkerLocks = FileLocks | ServerLocks


def _number(name: str) -> int:
    """The 64-bit key of PostgreSQL's advisory lock for a name."""
    digest = hashlib.sha256(f"tiltyard worker {name}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def _is_at(file: IO[bytes], path: Path) -> bool:
    """Whether ``path`` is still the opened file: its previous holder may have removed it."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _discard(file: IO[bytes], path: Path) -> None:
    """Remove a locked file, then release the lock: other processes reopen the path."""
    if not file.closed:
        with contextlib.suppress(OSError):
            path.unlink()
        file.close()
