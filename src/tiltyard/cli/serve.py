"""``tiltyard serve``: the live arenas, with everything they need."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.errors import BadOption, MissingExtra
from tiltyard.report.terminal_escape import escape_controls

if TYPE_CHECKING:
    from tiltyard.arena.content.answer_import import ImportResult
    from tiltyard.settings.environment import Environment
    from tiltyard.settings.serving_settings import ServingSettings
    from tiltyard.web.startup import StartupResult

__all__ = ["AsUser", "Home", "serve", "serving_environment"]

Home = Annotated[
    Path | None, typer.Option(help="Folder for database, bytes and keys, instead of TILTYARD_HOME.")
]
AsUser = Annotated[
    str | None, typer.Option(help="Who runs the embedded PostgreSQL when you are root, which it refuses.")
]


def serve(
    answers: Annotated[
        Path | None, typer.Argument(metavar="[ANSWERS]", help="A file of answers: makes an arena of them.")
    ] = None,
    arena: Annotated[
        str | None, typer.Option(help="Name of the arena that ANSWERS go to; the file's name unless given.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to bind; 127.0.0.1 unless given.")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to bind; 8420 unless given, 0 for a free one.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="Address that voters use. Needed where others can reach the port.")
    ] = None,
    trusted_proxies: Annotated[
        str | None, typer.Option(help="Proxies whose X-Forwarded headers are believed: 10.0.0.7,10.1.0.0/16.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Web processes; 1 unless given.")] = None,
    role: Annotated[
        str | None, typer.Option(help="What this machine does: all, web or rater; all unless given.")
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="A port of its own for /metrics, without a token.")
    ] = None,
    metrics_host: Annotated[str | None, typer.Option(help="Address to bind for it; 127.0.0.1.")] = None,
    log_requests: Annotated[
        bool, typer.Option("--log-requests", help="Log every request, not only those that fail.")
    ] = False,
    home: Home = None,
    as_user: AsUser = None,
) -> None:
    """Serve arenas: database, web processes and rater, until you stop it."""
    from tiltyard.settings.serving_settings import read_serving

    _check_installed()
    environment = serving_environment(home)
    proxies = None
    if trusted_proxies is not None:
        proxies = tuple(part.strip() for part in trusted_proxies.split(",") if part.strip())
    settings = read_serving(
        environment.variables,
        host=host,
        port=port,
        base_url=None if base_url is None else base_url.rstrip("/"),
        trusted_proxies=proxies,
        workers=workers,
        role=role,
        metrics_port=metrics_port,
        metrics_host=metrics_host,
        log_requests=log_requests or None,
    )
    if answers is not None and not answers.is_file():
        raise BadOption(f"{answers}: there is no such file of answers")
    _serve(environment, settings, answers, arena, as_user)


def serving_environment(home: Path | None) -> Environment:
    """The environment; an option for the home goes before its variable, for children too."""
    import os

    from tiltyard.settings.environment import read_environment

    if home is not None:
        os.environ["TILTYARD_HOME"] = str(home.absolute())
    return read_environment()


def _serve(
    environment: Environment,
    settings: ServingSettings,
    answers: Path | None,
    arena: str | None,
    as_user: str | None,
) -> None:
    import asyncio
    from contextlib import ExitStack

    from tiltyard.postgres.database_url import open_long_lived_database
    from tiltyard.web.logs import configure_logging
    from tiltyard.web.startup import prepare_server
    from tiltyard.web.supervisor import Supervisor, listening_socket

    configure_logging()
    # Until the supervisor listens to it, the signal must not leave a database running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with ExitStack() as stack:
        listening = None if settings.role == "rater" else stack.enter_context(listening_socket(settings))
        database = stack.enter_context(
            open_long_lived_database(environment, as_user=as_user, on_wait=_waiting("starting PostgreSQL"))
        )
        prepared = asyncio.run(
            prepare_server(database.url, environment, settings, answers=answers, arena=arena)
        )
        port = None if listening is None else listening.getsockname()[1]

        async def supervised() -> None:
            await Supervisor(database, settings, listening).run(lambda: _greet(settings, prepared, port))

        asyncio.run(supervised())
    typer.echo("Stopped.")


def _greet(settings: ServingSettings, prepared: StartupResult, port: int | None) -> None:
    address = settings.address(port)
    if settings.role == "rater":
        typer.echo("The rater is ready.")
        return
    typer.echo(f"Tiltyard is ready: {address}")
    if prepared.imported is not None:
        brought = prepared.imported
        typer.echo(
            f"Arena {prepared.arena}: {brought.responses:,} new responses of {brought.models:,} new models "
            f"to {brought.prompts:,} new prompts."
        )
        _warn(brought)
    elif prepared.arenas:
        typer.echo(f"Arenas: {escape_controls(', '.join(prepared.arenas))}.")
    else:
        typer.echo("There is no arena yet; stop, and start again with a file: tiltyard serve answers.jsonl")
    if prepared.link is not None:
        typer.echo(f"Become its operator, within the hour: {address}/claim/{prepared.link}")
    typer.echo("Ctrl-C stops it.")
    sys.stdout.flush()


def _warn(brought: ImportResult) -> None:
    """Responses that say a model's name."""
    for mention in brought.mentions:
        typer.echo(f"Warning: {escape_controls(str(mention))}.")
    if brought.mentioned > len(brought.mentions):
        typer.echo(f"Warning: so do {brought.mentioned - len(brought.mentions):,} more responses.")


def _waiting(what: str) -> Callable[[float], None]:
    """Say so once, if it takes longer than a person likes to wait in silence."""
    said = False

    def waiting(seconds: float) -> None:
        nonlocal said
        if seconds > 3 and not said:
            said = True
            typer.echo(f"{what} …", err=True)

    return waiting


def _check_installed() -> None:
    from importlib.util import find_spec

    if any(
        find_spec(name) is None for name in ("fastapi", "uvicorn", "psycopg", "argon2", "prometheus_client")
    ):
        raise MissingExtra("arena", "tiltyard serve")
