"""The ledger's database: a SQLite file or a PostgreSQL server.

Statements use the SQL subset that both support, with ``:name`` for parameters.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from tiltyard.errors import BadOption, MissingExtra, TiltyardError, UnreadableFile
from tiltyard.postgres.statements import load_statements

_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")
#: How long to wait for another process that writes to the same file.
_LOCK_WAIT_SECONDS = 120.0


def open_database(url: str) -> LedgerDatabase:
    """Connect, and create missing tables. ``url`` is ``sqlite:///path`` or ``postgresql://…``."""
    if url.startswith("sqlite:///"):
        return _Sqlite(Path(url.removeprefix("sqlite:///")))
    if url.startswith(("postgresql://", "postgres://")):
        return _Postgres(url)
    raise BadOption(
        f"DATABASE_URL {url.split(':', maxsplit=1)[0]}:… is not supported; expected postgresql://…"
    )


@cache
def ledger_statements() -> Mapping[str, str]:
    """The named statements of the ledger."""
    return load_statements(files("tiltyard.judges") / "sql")


def _schema() -> list[str]:
    text = (files("tiltyard.judges") / "sql" / "schema.sql").read_text(encoding="utf-8")
    plain = re.sub(r"--.*", "", text)
    return [part.strip() for part in plain.split(";") if part.strip()]


class _Sqlite:
    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                path, timeout=_LOCK_WAIT_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._write_ahead()
            # A paid reply must survive a power failure, not only a crash.
            self._connection.execute("PRAGMA synchronous = FULL")
            with self.transaction():
                for statement in _schema():
                    self._connection.execute(statement)
        except (OSError, sqlite3.Error) as error:
            raise UnreadableFile(f"{path}: {error}; name another folder in caches.judgments_dir") from None

    def _write_ahead(self) -> None:
        """Switch to the write-ahead log; retry, because SQLite allows only one process at a time to do it."""
        end = time.monotonic() + _LOCK_WAIT_SECONDS
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > end:
                    raise
                time.sleep(0.01)
            else:
                return

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Every change must be inside: commits, or rolls back on an error."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                # After a full disk SQLite has already rolled back.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise TiltyardError(f"cannot write {self._path}: {error}; the operation was stopped") from error

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise TiltyardError(f"cannot read {self._path}: {error}; the operation was stopped") from error

    def rows(self, statement: str, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        with self._reading():
            return self._connection.execute(statement, values).fetchall()

    def stream(self, statement: str, values: Mapping[str, object]) -> Iterator[tuple[Any, ...]]:
        """Rows one by one, without loading them all."""
        with self._reading():
            yield from self._connection.execute(statement, values)

    def lookup(self, statement: str, keys: Sequence[str]) -> list[tuple[Any, ...]]:
        """Rows of a statement that ends in ``IN``, for these keys."""
        marks = ", ".join("?" * len(keys))
        with self._reading():
            return self._connection.execute(f"{statement} ({marks})", keys).fetchall()

    def change(self, statement: str, values: Mapping[str, object]) -> int:
        """Execute a change; return the number of affected rows."""
        return self._connection.execute(statement, values).rowcount

    def change_many(self, statement: str, values: Iterable[Mapping[str, object]]) -> None:
        self._connection.executemany(statement, values)

    def close(self) -> None:
        self._connection.close()


class _Postgres:
    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ImportError:
            raise MissingExtra("judges", "PostgreSQL") from None
        try:
            self._connection = psycopg.connect(url, autocommit=True)
            with self.transaction(), self._connection.cursor() as cursor:
                # Serialise table creation by workers that start at the same time.
                cursor.execute("SELECT pg_advisory_xact_lock(7404017)")
                for statement in _schema():
                    cursor.execute(statement.encode())
        except psycopg.Error as error:
            raise UnreadableFile(f"DATABASE_URL: {str(error).strip()}") from None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._translated("write to"), self._connection.transaction():
            yield

    @contextmanager
    def _translated(self, verb: str) -> Iterator[None]:
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            problem = str(error).strip()
            raise TiltyardError(
                f"cannot {verb} DATABASE_URL: {problem}; the operation was stopped"
            ) from error

    def rows(self, statement: str, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        with self._translated("read"):
            return self._connection.execute(_for_postgres(statement), values).fetchall()

    def stream(self, statement: str, values: Mapping[str, object]) -> Iterator[tuple[Any, ...]]:
        with (
            self._translated("read"),
            self._connection.transaction(),
            self._connection.cursor("tiltyard_rows") as cursor,
        ):
            cursor.execute(_for_postgres(statement), values)
            yield from cursor

    def lookup(self, statement: str, keys: Sequence[str]) -> list[tuple[Any, ...]]:
        marks = ", ".join(["%s"] * len(keys))
        with self._translated("read"):
            return self._connection.execute(f"{statement} ({marks})".encode(), list(keys)).fetchall()

    def change(self, statement: str, values: Mapping[str, object]) -> int:
        return self._connection.execute(_for_postgres(statement), values).rowcount

    def change_many(self, statement: str, values: Iterable[Mapping[str, object]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(_for_postgres(statement), values)

    def close(self) -> None:
        self._connection.close()


#: One connection, to a file or to a server.
LedgerDatabase = _Sqlite | _Postgres


@cache
def _for_postgres(statement: str) -> bytes:
    return _PARAMETER.sub(r"%(\1)s", statement).encode()
