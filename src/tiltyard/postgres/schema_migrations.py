"""Schema migrations.

A migration is one file of ``migrations/``, applied in one transaction under a lock. Migrations first add;
what is no longer used is dropped in a later release. So a database may be newer than the code that uses it,
but never older.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files

import psycopg

from tiltyard.errors import StoreFault
from tiltyard.postgres.connections import connect, translate_errors
from tiltyard.postgres.statements import statement

#: Arenas keep running during a migration: one that waits longer than this for a lock fails.
_LOCK_TIMEOUT = "5s"


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
        done = [step.name for step in steps if _apply(connection, step, lock_timeout)]
        use_custom_plans(connection)
        return done


def use_custom_plans(connection: psycopg.Connection) -> None:
    """Make custom plans the default of our role.

    Arenas of different sizes share tables, and a generic plan is made for the average one. A default of the role
    also works behind a connection pooler, where a session setting would not.
    """
    from psycopg import sql

    alter = sql.SQL("ALTER ROLE CURRENT_USER IN DATABASE {} SET plan_cache_mode = force_custom_plan")
    with translate_errors("set plan_cache_mode for the role"), connection.transaction():
        connection.execute(statement("lock_migrating"))
        if connection.execute(statement("plan_mode")).fetchone() != ("force_custom_plan",):
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
    with (
        translate_errors(f"apply migration {step.name} (it was rolled back)"),
        connection.transaction(),
    ):
        # Wait long for another migrator, but not for a table in use.
        connection.execute("SELECT set_config('lock_timeout', '10min', true)")
        connection.execute(statement("lock_migrating"))
        connection.execute(statement("make_migrations_table"))
        connection.execute("SELECT set_config('lock_timeout', %s, true)", [lock_timeout])
        known = applied_migrations(connection).get(step.name)
        if known is None:
            connection.execute(step.text)
            connection.execute(statement("record_migration"), {"name": step.name, "sha256": step.sha256})
    if known not in {None, step.sha256}:
        raise StoreFault(
            f"migration {step.name} was applied with a different text than in this version; the database"
            " was created by an unreleased version: restore a backup, or export and import"
        )
    return known is None
