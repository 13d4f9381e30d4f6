"""Which database a command uses: that of DATABASE_URL, or the embedded one of its home."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tiltyard.settings.environment import Environment
from tiltyard.store.migrating import migrate
from tiltyard.store.programs import OnWait

__all__ = ["opened_database"]


@contextmanager
def opened_database(
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
    if environment.database_url is not None:
        yield environment.database_url
        return
    from tiltyard.store.server import EmbeddedServer

    with EmbeddedServer(environment.home, user=as_user, on_wait=on_wait) as server:
        if migrating:
            migrate(server.url)
        yield server.url
