"""Schema migrations.

A migration is one file of ``migrations/``, applied in one transaction; one that makes indexes on tables in use begins
with `OUTSIDE`, and its statements are run one after the other, outside of a transaction. One migrator works at a time.
Migrations first add; what is no longer used is dropped in a later release. So a database may be newer than the code that
uses it, but never older.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files

import psycopg

from tiltyard.errors import StoreFault
from tiltyard.postgres.connections import connect, translate_errors
from tiltyard.postgres.statements import statement

#: Arenas keep running during a migration: one that waits longer than this for a lock fails.
_LOCK_TIMEOUT = "5s"
#: How a migration begins that makes indexes with ``CONCURRENTLY``, so that nobody's writes wait for them. It must be one
#: that can be applied again from its beginning after it was interrupted: first it drops what it makes.
OUTSIDE = "-- Outside of a transaction."
#: How long a migrator waits for another one, and for the transactions that an index made concurrently waits for.
_OTHERS_SECONDS = 600.0
_OTHERS_PAUSE_SECONDS = 0.1


@dataclass(frozen=True)
class Migration:
    """One migration: its name, which also defines the order, and its SQL."""

    name: str
    text: str

    @cached_property
    def sha256(self) -> bytes:
        """The hash of its text: an applied migration must not change."""
        return hashlib.sha256(self.text.encode()).digest()


def migrations() -> list[Migration]:
    """All migrations of this version, in order."""
    folder = files("tiltyard.postgres") / "migrations"
    paths = [path for path in folder.iterdir() if path.name.endswith(".sql")]
    return sorted(
        (Migration(path.name.removesuffix(".sql"), path.read_text(encoding="utf-8")) for path in paths),
        key=lambda migration: migration.name,
    )


def migrate(
    url: str, *, steps: Sequence[Migration] | None = None, lock_timeout: str = _LOCK_TIMEOUT
) -> list[str]:
    """Apply the pending migrations and return their names."""
    steps = migrations() if steps is None else steps
    with connect(url, name="tiltyard arena migrate") as connection:
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise StoreFault(
                f"the database has the encoding {encoding}; create one with CREATE DATABASE … ENCODING 'UTF8'"
                " TEMPLATE template0, and name it in DATABASE_URL"
            )
        with _only_migrator(connection):
            done = [step.name for step in steps if _apply(connection, step, lock_timeout)]
        use_custom_plans(connection)
        return done


@contextmanager
def _only_migrator(connection: psycopg.Connection) -> Iterator[None]:
    """Be the only migrator. Others try again and again: one that waited in a statement would hold up an index."""
    until = time.monotonic() + _OTHERS_SECONDS
    with translate_errors("wait for another migrator"):
        while connection.execute(statement("try_migrating")).fetchone() != (True,):
            if time.monotonic() > until:
                raise StoreFault(
                    "another migration of this database has not ended; wait for it, and try again"
                )
            time.sleep(_OTHERS_PAUSE_SECONDS)
    try:
        yield
    finally:
        if not connection.broken:
            connection.execute(statement("end_migrating"))


def use_custom_plans(connection: psycopg.Connection) -> None:
    """Make custom plans the default of our role.

    Arenas of different sizes share tables, and a generic plan is made for the average one. A default of the role
    also works behind a connection pooler, where a session setting would not.
    """
    from psycopg import sql

    alter = sql.SQL("ALTER ROLE CURRENT_USER IN DATABASE {} SET plan_cache_mode = force_custom_plan")
    custom = ("force_custom_plan",)
    with translate_errors("set plan_cache_mode for the role"):
        if connection.execute(statement("plan_mode")).fetchone() == custom:
            return
        with connection.transaction():
            connection.execute(statement("lock_migrating"))
            connection.execute(alter.format(sql.Identifier(connection.info.dbname)))


def pending_migrations(url: str) -> list[str]:
    """The names of the migrations that `migrate` would apply."""
    with (
        connect(url, name="tiltyard arena migrate") as connection,
        translate_errors("read the applied migrations"),
    ):
        return _missing(connection)


def check_schema(connection: psycopg.Connection) -> None:
    """Raise unless all migrations of this version are applied. Newer ones are allowed."""
    with translate_errors("read the applied migrations"):
        missing = _missing(connection)
    if missing:
        raise StoreFault(
            f"the database lacks {', '.join(missing)}: its tables are older than this version of Tiltyard;"
            " run tiltyard arena migrate"
        )


def _missing(connection: psycopg.Connection) -> list[str]:
    known = applied_migrations(connection)
    return [step.name for step in migrations() if step.name not in known]


def applied_migrations(connection: psycopg.Connection) -> dict[str, bytes]:
    """The names and hashes of the applied migrations."""
    row = connection.execute(statement("has_migrations_table")).fetchone()
    if row is None or not row[0]:
        return {}
    return {name: bytes(digest) for name, digest in connection.execute(statement("applied_migrations"))}


def _apply(connection: psycopg.Connection, step: Migration, lock_timeout: str) -> bool:
    """Apply a migration if it is missing; return whether it was."""
    outside = step.text.startswith(OUTSIDE)
    # Arenas keep running: a table in use is not waited for, but an index waits until older transactions have ended.
    wait = f"{_OTHERS_SECONDS:.0f}s" if outside else lock_timeout
    undone = "retry: it begins again" if outside else "it was rolled back"
    with translate_errors(f"apply migration {step.name} ({undone})"):
        connection.execute(statement("make_migrations_table"))
        known = applied_migrations(connection).get(step.name)
        if known is None:
            connection.execute("SELECT set_config('lock_timeout', %s, false)", [wait])
            for text in step.text.split(";\n") if outside else ():
                connection.execute(text)
            with connection.transaction():
                if not outside:
                    connection.execute(step.text)
                connection.execute(statement("record_migration"), {"name": step.name, "sha256": step.sha256})
    if known not in {None, step.sha256}:
        raise StoreFault(
            f"migration {step.name} was applied with a different text than in this version; the database"
            " was created by an unreleased version: restore a backup, or export and import"
        )
    return known is None
