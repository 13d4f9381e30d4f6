"""The database of a command: DATABASE_URL, or the embedded PostgreSQL server in Tiltyard's home.

The embedded server is started by the first command and stopped by the last. It listens on a socket in a folder that only its owner can enter, and requires a password as well.
Each process that uses it holds a shared lock; the last one to release it stops the server. A server whose
users were killed keeps running, and the next command adopts it.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self
from urllib.parse import quote

from tiltyard.errors import StoreFault
from tiltyard.foundation.local_files import lock_file, replace_file
from tiltyard.postgres.binaries import Binaries, OnWait, bundled_folder, choose_account, one_line
from tiltyard.postgres.connections import connect
from tiltyard.postgres.schema_migrations import migrate
from tiltyard.postgres.statements import statement
from tiltyard.settings.environment import Environment

#: Template with ``port`` and ``socket``, the folder of the socket.
SERVER_SETTINGS = """\
# Written by Tiltyard at every start. Use ALTER SYSTEM for settings of your own.
listen_addresses = ''
port = {port}
unix_socket_directories = '{socket}'
unix_socket_permissions = 0700
max_connections = 100
shared_buffers = 256MB
max_wal_size = 2GB
checkpoint_timeout = 15min
jit = off
timezone = 'UTC'
log_timezone = 'UTC'
# Seven daily log files, each overwritten after a week; without texts of prompts and responses.
logging_collector = on
log_directory = '../logs'
log_filename = 'postgresql-%a.log'
log_file_mode = 0600
log_truncate_on_rotation = on
log_rotation_age = 1d
log_rotation_size = 0
log_checkpoints = off
log_min_error_statement = panic
log_parameter_max_length = 0
log_parameter_max_length_on_error = 0
"""
_NAME = "tiltyard"
_PORT = 5432
#: Crash recovery of a large database takes minutes; a timeout would only make it start over.
_SERVER_WAIT_SECONDS = 600
#: Longest socket path, without the terminating zero: the limit of macOS, the lowest.
_MAX_SOCKET_PATH_BYTES = 103
#: How long the children of a killed server may still hold its shared memory.
_SHARED_MEMORY_WAIT_SECONDS = 60.0
#: How long to wait for a process that may be the server and does not answer.
_UNRESPONSIVE_SECONDS = 5.0
#: Timeout of a smart shutdown, which waits for clients to disconnect.
_SMART_SHUTDOWN_SECONDS = 3
_STARTING_MESSAGES = ("starting up", "recovery", "shutting down", "not yet accepting")


@dataclass(frozen=True)
class Postmaster:
    """The content of ``postmaster.pid``."""

    pid: int
    port: int
    socket: str

    @classmethod
    def read(cls, data: Path) -> Postmaster | None:
        """Read the file of a data folder; ``None`` if it is missing or incomplete."""
        try:
            lines = (data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
            return cls(int(lines[0]), int(lines[3]), lines[4])
        except (FileNotFoundError, NotADirectoryError, IndexError, ValueError):
            return None

    def alive(self) -> bool:
        """Whether a process with this ID exists; it may be a different program."""
        if _is_zombie(self.pid):
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True


def _is_zombie(pid: int) -> bool:
    """Whether a process has ended but was not reaped, as in containers whose process 1 does not reap."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] == "Z"


class EmbeddedServer:
    """The server of one home. ``with`` starts or adopts it, and stops it unless other processes use it."""

    def __init__(
        self,
        home: Path,
        *,
        user: str | None = None,
        binaries: Path | None = None,
        data: str = "data",
        on_wait: OnWait | None = None,
    ) -> None:
        self.folder = home.absolute() / "postgres"
        self.data = self.folder / data
        self.logs = self.folder / "logs"
        account = choose_account(user, self.folder)
        programs = binaries or bundled_folder()
        assert programs is not None
        self.programs = Binaries(programs, account, on_wait)
        self._using: IO[bytes] | None = None
        self._url: str | None = None

    @property
    def url(self) -> str:
        """The URL of its database. It contains the password: do not print it."""
        if self._url is None:
            raise StoreFault("the embedded database is not running")
        return self._url

    def start(self) -> str:
        """Start the server, or adopt a running one; return its URL."""
        self.prepare()
        with self.locked():
            self._using = self._opened(self.folder / "users.lock")
            lock_file(self._using, shared=True)
            try:
                self._open()
            except BaseException:
                self._using.close()
                self._using = None
                raise
        return self.url

    def restart_if_dead(self) -> bool:
        """Restart the server at the same URL if it has died; return whether it had."""
        with self.locked():
            postmaster = Postmaster.read(self.data)
            if postmaster is not None and postmaster.alive():
                return False
            self._launch(self._socket())
        return True

    def stop(self) -> bool:
        """Release the server, and stop it if no other process uses it; return whether it was stopped."""
        if self._using is None:
            return False
        with self.locked(), self._using as using:
            self._using = self._url = None
            if not lock_file(using, wait=False):
                return False
            self.shut_down()
            return True

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock for starting and stopping this server."""
        with self._opened(self.folder / "start.lock") as file:
            lock_file(file)
            yield

    @contextmanager
    def unused(self) -> Iterator[None]:
        """Hold the server exclusively; raise if another process uses it."""
        with self.locked(), self._opened(self.folder / "users.lock") as file:
            if not lock_file(file, wait=False):
                raise StoreFault(
                    f"the database in {self.folder} is in use; stop tiltyard serve and other commands that use it"
                )
            yield

    @contextmanager
    def start_exclusively(self) -> Iterator[str]:
        """Run the server for this caller only, inside `unused`; yield its URL."""
        self.prepare()
        self._open()
        try:
            yield self.url
        finally:
            self._url = None
            self.shut_down()

    def prepare(self) -> None:
        """Create the folder, owned by the server's user, and the password."""
        for folder in (self.folder, self.logs):
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._own(folder)
            except OSError as error:
                raise StoreFault(
                    f"cannot create {folder}: {error.strerror}; set TILTYARD_HOME to a folder that you can write to"
                ) from None
        self.programs.reach(self.folder)
        path = self.folder / "password"
        if not path.exists() and not self.data.exists():
            self.write(path, secrets.token_urlsafe(32))

    def check(self) -> None:
        """Raise if the data folder has another version, another owner, or is accessible to others."""
        if not self.data.exists():
            kept = sorted(self.folder.glob("data-*"))
            if kept:
                raise StoreFault(
                    f"an upgrade of the database was interrupted: {kept[-1]} exists and {self.data} does not;"
                    " run tiltyard arena upgrade-database again"
                )
            return
        status = self.data.stat()
        if status.st_mode & 0o077:
            raise StoreFault(f"{self.data} is accessible to other users: chmod 700 {self.data}")
        mine = os.geteuid() if self.programs.account is None else self.programs.account.pw_uid
        if status.st_uid != mine:
            raise StoreFault(f"{self.data} belongs to {_user(status.st_uid)}; run the command as that user")
        major, ours = self.major(), self.programs.major()
        if major != ours:
            raise StoreFault(
                f"{self.data} was created by PostgreSQL {major}, but this Tiltyard uses {ours}:"
                " run tiltyard arena upgrade-database"
            )

    def major(self) -> int:
        """The major version that created the data folder."""
        try:
            return int((self.data / "PG_VERSION").read_text(encoding="ascii"))
        except (OSError, ValueError) as error:
            raise StoreFault(
                f"{self.data} is not a PostgreSQL data folder ({error}); restore a backup into an empty home"
            ) from None

    def make_data(self, data: Path, *extra: str) -> None:
        """Create an empty data folder; ``extra`` are further options of initdb."""
        if data.exists():
            shutil.rmtree(data)
        arguments = ["-D", data.name, "-U", _NAME, "-E", "UTF8", "--auth=scram-sha-256", "--pwfile=password"]
        arguments += extra
        code, printed = self.programs.attempt("initdb", *arguments, "--locale=C.UTF-8", cwd=self.folder)
        if code and "invalid locale" in printed:
            builtin = ("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
            shutil.rmtree(data, ignore_errors=True)
            code, printed = self.programs.attempt("initdb", *arguments, *builtin, cwd=self.folder)
        if code:
            shutil.rmtree(data, ignore_errors=True)
            raise StoreFault(f"cannot create the database in {self.folder}: {one_line(printed)}")
        with self._opened(data / "postgresql.conf") as file:
            file.write(b"\ninclude_if_exists = 'tiltyard.conf'\n")

    def shut_down(self) -> None:
        """Stop the server: first a smart shutdown, so that queries can finish, then a fast one.

        The process ID of a dead server may belong to another process now, so only a server that answers
        is stopped.
        """
        for mode, seconds in (("smart", _SMART_SHUTDOWN_SECONDS), ("fast", _SERVER_WAIT_SECONDS)):
            if not self._answers(0.0):
                break
            command = ("stop", "-D", self.data.name, "-w", "-m", mode, "-t", seconds)
            code, printed = self.programs.attempt("pg_ctl", *command, cwd=self.folder)
            if not code:
                break
        else:
            raise StoreFault(f"cannot stop the database in {self.folder}: {one_line(printed)}")
        self.remove_socket(self._socket())

    def write(self, path: Path, text: str) -> None:
        """Write a file that only the server's owner can read."""
        with replace_file(path, durable=True, private=True) as file:
            file.write(text.encode())
            self._own(file.fileno())

    def _open(self) -> None:
        """Start or adopt the server and create its database. The caller holds the lock."""
        self.check()
        self._started()
        self._url = self._address(_NAME)
        with connect(self._address("postgres")) as connection:
            if connection.execute(statement("own_database")).fetchone() is None:
                connection.execute(statement("make_own_database"))

    def _started(self) -> None:
        """Make sure that a server of this folder runs: an existing one, or a new one."""
        if not self.data.exists():
            fresh = self.folder / "data.new"
            self.make_data(fresh)
            fresh.rename(self.data)
        if not self._answers(_SERVER_WAIT_SECONDS):
            self._launch(self.make_socket())

    def _answers(self, patience: float) -> bool:
        """Whether a server of this folder runs. Waits for one that is starting or recovering."""
        began = time.monotonic()
        while (postmaster := Postmaster.read(self.data)) is not None and postmaster.alive():
            waited = time.monotonic() - began
            coming = False
            try:
                connect(self._address("postgres", postmaster)).close()
            except StoreFault as error:
                if "password authentication failed" in str(error):
                    raise
                coming = any(word in str(error) for word in _STARTING_MESSAGES)
                answered = "FATAL" in str(error)
            else:
                answered = True
            if answered and not coming:
                return True
            if waited >= (patience if coming else min(patience, _UNRESPONSIVE_SECONDS)):
                return coming
            if self.programs.on_wait is not None:
                self.programs.on_wait(waited)
            time.sleep(0.1)
        return False

    def _launch(self, new: str) -> None:
        """Start a new server with its socket in the folder ``new``."""
        old = self._socket()
        claimed = self._claim(self.data / "postmaster.pid", Path(new) / f".s.PGSQL.{_PORT}.lock")
        self.write(self.data / "tiltyard.conf", SERVER_SETTINGS.format(port=_PORT, socket=new))
        began = time.monotonic()
        while True:
            self.write(self.logs / "start.log", "")
            sizes = self._log_sizes()
            command = (
                "start",
                "-D",
                self.data.name,
                "-w",
                "-t",
                _SERVER_WAIT_SECONDS,
                "-l",
                "logs/start.log",
            )
            code, printed = self.programs.attempt("pg_ctl", *command, cwd=self.folder)
            if not code:
                self.remove_socket(old, new)
                return
            # What was logged since the files had these sizes.
            added = [path.read_bytes()[sizes.get(path, 0) :] for path in self._log_sizes()]
            output = b"".join(added).decode(errors="replace") or printed
            if "is still in use" not in output or time.monotonic() - began > _SHARED_MEMORY_WAIT_SECONDS:
                for path, text in claimed.items():
                    self.write(path, text)
                raise StoreFault(f"the database in {self.folder} does not start: {one_line(output)}")
            time.sleep(0.5)

    def _claim(self, *paths: Path) -> dict[Path, str]:
        """Put our process ID into stale lock files, and return their old texts.

        The process ID of a dead server may belong to another process now, and a new server would refuse to
        start. It ignores the ID of its grandparent, which we are. It still checks the rest of the files:
        shared memory that a live server holds is found by its key.
        """
        texts = {path: path.read_text(encoding="utf-8") for path in paths if path.exists()}
        for path, text in texts.items():
            self.write(path, "\n".join([str(os.getpid()), *text.split("\n")[1:]]))
        return texts

    def _log_sizes(self) -> dict[Path, int]:
        return {path: path.stat().st_size for path in sorted(self.logs.glob("*.log"))}

    def make_socket(self) -> str:
        """Create a folder for the socket; a temporary one if the path is too long or needs quoting."""
        own = self.folder / "socket"
        text = str(own)
        if len(os.fsencode(f"{text}/.s.PGSQL.{_PORT}")) <= _MAX_SOCKET_PATH_BYTES and not set(text) & set(
            "'\"\\,@\n"
        ):
            own.mkdir(mode=0o700, exist_ok=True)
        else:
            own = Path(tempfile.mkdtemp(prefix="tiltyard-"))
        self._own(own)
        return str(own)

    def _socket(self) -> str:
        """The socket folder of the last start."""
        try:
            lines = (self.data / "tiltyard.conf").read_text(encoding="utf-8").splitlines()
        except OSError:
            return ""
        named = next((line for line in lines if line.startswith("unix_socket_directories")), "")
        return named.partition("'")[2].removesuffix("'")

    def remove_socket(self, old: str, new: str = "") -> None:
        """Remove the temporary socket folder of a stopped server."""
        folder = Path(old)
        if (
            old != new
            and folder.name.startswith("tiltyard-")
            and folder.parent == Path(tempfile.gettempdir())
        ):
            shutil.rmtree(folder, ignore_errors=True)

    def _address(self, database: str, postmaster: Postmaster | None = None) -> str:
        postmaster = postmaster or Postmaster.read(self.data)
        if postmaster is None:
            raise StoreFault(f"the database in {self.folder} has stopped; see the logs in {self.logs}")
        try:
            password = (self.folder / "password").read_text(encoding="ascii").strip()
        except OSError as error:
            raise StoreFault(
                f"cannot read {self.folder / 'password'}: {error.strerror}; it is the password of the"
                " database in the same folder: restore both from a backup"
            ) from None
        place = f"host={quote(postmaster.socket, safe='')}&port={postmaster.port}"
        return f"postgresql://{_NAME}:{quote(password, safe='')}@/{database}?{place}"

    def _opened(self, path: Path) -> IO[bytes]:
        # If we are root, another user owns the folder and could redirect us with a symbolic link.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        try:
            file = os.fdopen(os.open(path, flags, 0o600), "ab")
        except OSError as error:
            raise StoreFault(f"cannot write {path}: {error.strerror}; you must own it") from None
        self._own(file.fileno())
        return file

    def _own(self, file: Path | int) -> None:
        account = self.programs.account
        if account is not None:
            os.chown(file, account.pw_uid, account.pw_gid, follow_symlinks=isinstance(file, int))


def _user(uid: int) -> str:
    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return str(uid)


@dataclass(frozen=True)
class OpenedDatabase:
    url: str
    #: Restarts the server if it has died, and returns whether it had; ``None`` for an external server.
    restart_if_dead: Callable[[], bool] | None = None


@contextmanager
def open_database(
    environment: Environment,
    *,
    as_user: str | None = None,
    on_wait: OnWait | None = None,
    migrating: bool = True,
) -> Iterator[str]:
    """Yield the URL of the database.

    Without DATABASE_URL this is the embedded server, which is started if necessary and stopped afterwards
    unless others use it. ``migrating`` applies pending migrations to the embedded database; an external one
    is migrated by ``tiltyard arena migrate`` only.
    """
    with open_long_lived_database(
        environment, as_user=as_user, on_wait=on_wait, migrating=migrating
    ) as opened:
        yield opened.url


@contextmanager
def open_long_lived_database(
    environment: Environment,
    *,
    as_user: str | None = None,
    on_wait: OnWait | None = None,
    migrating: bool = True,
) -> Iterator[OpenedDatabase]:
    """Like `open_database`, for long-running processes that must restart a server that died."""
    if environment.database_url is not None:
        yield OpenedDatabase(environment.database_url)
        return
    with EmbeddedServer(environment.home, user=as_user, on_wait=on_wait) as server:
        if migrating:
            migrate(server.url)
        yield OpenedDatabase(server.url, server.restart_if_dead)
