"""What the commands about the database share: which one, who runs it, and a word to whoever waits."""

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
    typer.Option(metavar="NAME", help="As root: the user that shall run the embedded database."),
]


class WaitNotice:
    """Tells once, on standard error, that something takes a while."""

    def __init__(self, after: float = 3.0) -> None:
        self._after = after
        self._told = False

    def __call__(self, seconds: float) -> None:
        if seconds > self._after and not self._told:
            self._told = True
            typer.echo("Waiting for the database; after a crash it may need minutes to recover.", err=True)


@contextmanager
def database(environment: Environment, as_user: str | None, *, migrating: bool = True) -> Iterator[str]:
    """The address of the database of this environment."""
    from tiltyard.postgres.database_url import open_database

    with open_database(environment, as_user=as_user, on_wait=WaitNotice(), migrating=migrating) as url:
        yield url
