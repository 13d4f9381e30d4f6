"""Options and database access shared by the maintenance commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tiltyard.settings.environment import Environment

__all__ = ["AsUser", "WaitNotice", "database"]

AsUser = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="When run as root: the user that runs the embedded database."),
]


class WaitNotice:
    """Prints one message to standard error if the database takes long to start."""

    def __init__(self, after: float = 3.0) -> None:
        self._after = after
        self._notified = False

    def __call__(self, seconds: float) -> None:
        if seconds > self._after and not self._notified:
            self._notified = True
            typer.echo("Waiting for the database; after a crash it may need minutes to recover.", err=True)


@contextmanager
def database(environment: Environment, as_user: str | None, *, migrating: bool = True) -> Iterator[str]:
    """Open the database of this environment and yield its URL."""
    from tiltyard.postgres.database_url import open_database

    with open_database(environment, as_user=as_user, on_wait=WaitNotice(), migrating=migrating) as url:
        yield url
