"""Migrations: the tables that this version needs, made one step at a time.

A step is one file of ``migrations/``, applied in one transaction under a lock that admits one migrator.
Steps first add, and take away only in a later release: a database may be ahead of the code that uses
it, never behind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING

from tiltyard.errors import StoreFault
from tiltyard.postgres.connections import connect, translate_errors
from tiltyard.postgres.statements import statement

if TYPE_CHECKING:
    import psycopg

__all__ = [
    "Migration",
    "applied_migrations",
    "check_schema",
    "migrate",
    "migrations",
    "pending_migrations",
    "use_custom_plans",
]

#: Live arenas go on while tables change: a step that waits longer than this for a lock gives up.
_LOCK_TIMEOUT = "5s"


@dataclass(frozen=True)
class Migration:
    """One step: its name, which is also its place in the order, and its SQL."""

    name: str
    text: str

    @cached_property
    def sha256(self) -> bytes:
        """The hash of its text: what was applied may not be changed afterwards."""
        return hashlib.sha256(self.text.encode()).digest()


def migrations() -> list[Migration]:
    """Every step this version knows, in order."""
    folder = files("tiltyard.postgres") / "migrations"
    found = [each for each in folder.iterdir() if each.name.endswith(".sql")]
    return sorted(
        (Migration(each.name.removesuffix(".sql"), each.read_text(encoding="utf-8")) for each in found),
        key=lambda each: each.name,
    )


def migrate(
    url: str, *, steps: Sequence[Migration] | None = None, lock_timeout: str = _LOCK_TIMEOUT
) -> list[str]:
    """Apply what is missing; the names of what was applied."""
    steps = migrations() if steps is None else steps
    with connect(url, name="tiltyard migrate") as connection:
        _check_encoding(connection)
        done = [step.name for step in steps if _apply(connection, step, lock_timeout)]
        use_custom_plans(connection)
        return done


def use_custom_plans(connection: psycopg.Connection) -> None:
    """Have statements planned for the values that they are executed with, as a default of our role.

    A plan for any arena would lock the partitions of all of them. A default of the role also holds behind a
    pooler, where a setting of the session would not.
    """
    from psycopg import sql

    alter = sql.SQL("ALTER ROLE CURRENT_USER IN DATABASE {} SET plan_cache_mode = force_custom_plan")
    with translate_errors("set how statements are planned"), connection.transaction():
        connection.execute(statement("lock_migrating"))
        if connection.execute(statement("plan_mode")).fetchone() != ("force_custom_plan",):
            connection.execute(alter.format(sql.Identifier(connection.info.dbname)))


def pending_migrations(url: str) -> list[str]:
    """The names of the steps that `migrate` would apply."""
    with connect(url, name="tiltyard migrate") as connection, translate_errors("read what was migrated"):
        return _missing(connection)


def check_schema(connection: psycopg.Connection) -> None:
    """Raise unless every step that this version knows was applied. Later ones are fine."""
    with translate_errors("read what was migrated"):
        missing = _missing(connection)
    if missing:
        raise StoreFault(
            f"the database lacks {', '.join(missing)}: its tables are older than this version of Tiltyard;"
            " run tiltyard migrate"
        )


def _missing(connection: psycopg.Connection) -> list[str]:
    known = applied_migrations(connection)
    return [step.name for step in migrations() if step.name not in known]


def applied_migrations(connection: psycopg.Connection) -> dict[str, bytes]:
    """The names and hashes of the steps that were applied."""
    there = connection.execute(statement("has_migrations_table")).fetchone()
    if there is None or not there[0]:
        return {}
    return {name: bytes(digest) for name, digest in connection.execute(statement("applied_migrations"))}


def _apply(connection: psycopg.Connection, step: Migration, lock_timeout: str) -> bool:
    """Whether the step was missing, and is applied now."""
    with (
        translate_errors(f"apply migration {step.name}, and nothing of it was applied"),
        connection.transaction(),
    ):
        # Another migrator is waited for; a table that is in use is not.
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
            f"migration {step.name} was applied with another text than this version has; the database"
            " was made by a version that was never released: restore a backup, or export and import"
        )
    return known is None


def _check_encoding(connection: psycopg.Connection) -> None:
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreFault(
            f"the database has the encoding {encoding}; make one with CREATE DATABASE … ENCODING 'UTF8'"
            " TEMPLATE template0, and name it in DATABASE_URL"
        )
