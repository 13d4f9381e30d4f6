"""Which database a command uses: that of DATABASE_URL, or the embedded one of its home."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tiltyard.postgres.binaries import OnWait
from tiltyard.postgres.schema_migrations import migrate
from tiltyard.settings.environment import Environment

__all__ = ["OpenedDatabase", "open_database", "open_long_lived_database"]


@dataclass(frozen=True)
class OpenedDatabase:
    """A database that can be used."""

    url: str
    #: Starts its server again if that has died, and says whether; nothing where the server is not ours.
    restart_if_dead: Callable[[], bool] | None = None


@contextmanager
def open_database(
    environment: Environment,
    *,
    as_user: str | None = None,
    on_wait: OnWait | None = None,
    migrating: bool = True,
) -> Iterator[str]:
    """The address of the database, for as long as the context lasts.

    Without a DATABASE_URL it is the home's own server, started or adopted, and stopped afterwards
    unless others use it. ``migrating``: bring its tables up to date; those of DATABASE_URL are left to
    whoever runs ``tiltyard migrate``.
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
    """The same, for those who use it so long that its server may die meanwhile."""
    if environment.database_url is not None:
        yield OpenedDatabase(environment.database_url)
        return
    from tiltyard.postgres.embedded_server import EmbeddedServer

    with EmbeddedServer(environment.home, user=as_user, on_wait=on_wait) as server:
        if migrating:
            migrate(server.url)
        yield OpenedDatabase(server.url, server.restart_if_dead)
