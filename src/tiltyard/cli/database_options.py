"""Options, typed values and database access shared by the commands that run a service."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from tiltyard.errors import BadOption

if TYPE_CHECKING:
    from tiltyard.postgres.connections import ConnectionPool
    from tiltyard.settings.environment import Environment


T = TypeVar("T")

Home = Annotated[
    Path | None, typer.Option(help="Folder for database, responses and keys; default TILTYARD_HOME.")
]
AsUser = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="When run as root: the user that runs the embedded database."),
]

BaseUrl = Annotated[str | None, typer.Option(help="Public URL of the server.")]

_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


def serving_environment(home: Path | None) -> Environment:
    """Read the environment. ``--home`` overrides TILTYARD_HOME, for child processes too."""
    from tiltyard.settings.environment import read_environment

    if home is not None:
        os.environ["TILTYARD_HOME"] = str(home.absolute())
    return read_environment()


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
def database(home: Path | None, as_user: str | None, *, migrating: bool = False) -> Iterator[str]:
    """Open the database of this home and yield its URL."""
    from tiltyard.postgres.embedded_server import open_database

    environment = serving_environment(home)
    with open_database(environment, as_user=as_user, on_wait=WaitNotice(), migrating=migrating) as url:
        yield url


def run_with_pool(
    home: Path | None,
    as_user: str | None,
    work: Callable[[ConnectionPool], Awaitable[T]],
    *,
    connections: int = 1,
    migrating: bool = False,
) -> T:
    """Run something on a pool of connections to the database of this home."""
    import asyncio

    from tiltyard.postgres.connections import open_pool

    async def working(url: str) -> T:
        async with open_pool(url, most=connections, name="tiltyard command") as pool:
            return await work(pool)

    with database(home, as_user, migrating=migrating) as url:
        return asyncio.run(working(url))


def link_address(environment: Environment, base_url: str | None) -> str:
    """How links to the server begin: its public URL, else where it runs now, else where it is configured to run."""
    from tiltyard.settings.serving_settings import read_serving
    from tiltyard.web.server.startup import read_address

    settings = read_serving(environment.variables, base_url=base_url)
    if settings.base_url is not None:
        return settings.base_url.rstrip("/")
    running = read_address(environment.home)
    if running is None:
        typer.echo(
            f"No server of {environment.home} is running: the link has the configured address. "
            "Give --base-url if people reach the server by another one.",
            err=True,
        )
    return (running or settings.address()).rstrip("/")


def read_secret(name: str) -> str:
    """A line from standard input; what a person types is hidden, and asked for twice."""
    if not sys.stdin.isatty():
        return sys.stdin.readline()
    return str(typer.prompt(name, hide_input=True, confirmation_prompt=True))


def moment_text(moment: datetime | None) -> str:
    """A moment to the minute, in UTC."""
    return "" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"


def parse_duration(text: str) -> timedelta:
    """A number of days, hours or minutes."""
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not (number.isascii() and number.isdigit()) or len(number) > 6:
        raise BadOption(f"--expires is {text[:100]!r}; expected a number and d, h or m, such as 14d")
    return int(number) * _UNITS[unit]
