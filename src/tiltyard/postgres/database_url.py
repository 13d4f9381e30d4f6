"""Opens the database of a command: DATABASE_URL, or the embedded server in its home."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tiltyard.postgres.binaries import OnWait
from tiltyard.postgres.schema_migrations import migrate
from tiltyard.settings.environment import Environment


@dataclass(frozen=True)
class OpenedDatabase:
    """An open database."""

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
    is migrated by ``tiltyard migrate`` only.
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
    from tiltyard.postgres.embedded_server import EmbeddedServer

    with EmbeddedServer(environment.home, user=as_user, on_wait=on_wait) as server:
        if migrating:
            migrate(server.url)
        yield OpenedDatabase(server.url, server.restart_if_dead)
