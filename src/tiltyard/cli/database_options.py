"""Options, typed values and database access shared by the commands that run a service."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

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


#: The home and the user that the command which runs was given, as `database_command` has read them.
_PLACE: ContextVar[tuple[Path | None, str | None]] = ContextVar("place", default=(None, None))


def serving_environment(home: Path | None = None) -> Environment:
    """Read the environment. ``home``, or the ``--home`` of the command, overrides TILTYARD_HOME, for child processes too."""
    from tiltyard.settings.environment import read_environment

    stated = home or _PLACE.get()[0]
    if stated is not None:
        os.environ["TILTYARD_HOME"] = str(stated.absolute())
    return read_environment()


def database_user() -> str | None:
    """The ``--as-user`` of the command that runs."""
    return _PLACE.get()[1]


def database_command(
    app: typer.Typer, name: str, *, first: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a command that uses the database: with ``--home`` and ``--as-user`` after its options, or ``first``."""

    def register(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(*stated: Any, home: Path | None = None, as_user: str | None = None, **options: Any) -> None:
            before = _PLACE.set((home, as_user))
            try:
                command(*stated, **options)
            finally:
                _PLACE.reset(before)

        signature = inspect.signature(command, eval_str=True)
        own = list(signature.parameters.values())
        added = [
            inspect.Parameter(option, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=kind)
            for option, kind in (("home", Home), ("as_user", AsUser))
        ]
        parameters = [*added, *own] if first else [*own, *added]
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return app.command(name)(run)

    return register


class WaitNotice:
    """Prints one message to standard error if the database takes long to start."""

    def __init__(
        self,
        message: str = "Waiting for the database; after a crash it may need minutes to recover.",
        after: float = 3.0,
    ) -> None:
        self._message = message
        self._after = after
        self._notified = False

    def __call__(self, seconds: float) -> None:
        if seconds > self._after and not self._notified:
            self._notified = True
            typer.echo(self._message, err=True)


@contextmanager
def database(*, migrating: bool = False) -> Iterator[str]:
    """Open the database of the command that runs and yield its URL."""
    from tiltyard.postgres.embedded_server import open_database

    environment = serving_environment()
    with open_database(
        environment, as_user=database_user(), on_wait=WaitNotice(), migrating=migrating
    ) as url:
        yield url


def run_with_pool(
    work: Callable[[ConnectionPool], Awaitable[T]],
    *,
    connections: int = 1,
    migrating: bool = False,
) -> T:
    """Run something on a pool of connections to the database."""
    import asyncio

    from tiltyard.postgres.connections import open_pool

    async def working(url: str) -> T:
        async with open_pool(url, most=connections, name="tiltyard command") as pool:
            return await work(pool)

    with database(migrating=migrating) as url:
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
