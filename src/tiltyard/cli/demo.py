"""``tiltyard demo``: something to try, for those who have no data yet."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.cli.serve import AsUser, serving_environment
from tiltyard.errors import BadOption, MissingExtra

if TYPE_CHECKING:
    from tiltyard.arena.demo_arena import DemoScript
    from tiltyard.settings.environment import Environment
    from tiltyard.settings.serving_settings import ServingSettings
    from tiltyard.web.startup import StartupResult

__all__ = ["app"]

_ARENA = "demo"
#: Variables by which a house reaches what outlives it.
_OTHERS = ("DATABASE_URL", "TILTYARD_RESPONSES_URL", "TILTYARD_JUDGE_ROUNDS")

app = typer.Typer(invoke_without_command=True, rich_markup_mode=None)


@app.callback()
def demo(
    context: typer.Context,
    home: Annotated[
        Path | None, typer.Option(help="Folder to keep it in; otherwise it is gone when you stop.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to bind; 8420 unless given, 0 for a free one.")
    ] = None,
    votes: Annotated[
        int, typer.Option(min=0, max=100_000, help="Votes of invented people to begin with.")
    ] = 4000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the invented votes.")] = 7,
    as_user: AsUser = None,
) -> None:
    """Make an arena of invented models, let invented people vote in it, and serve it until you stop it."""
    if context.invoked_subcommand is not None:
        _refuse_unused(context)
        return
    from importlib.util import find_spec

    from tiltyard.settings.serving_settings import read_serving

    if any(find_spec(name) is None for name in ("fastapi", "uvicorn", "psycopg", "argon2")):
        raise MissingExtra("arena", "tiltyard demo")
    # Until the supervisor listens to it, the signal must not leave a database running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with _home(home, open_to_others=as_user is not None) as folder:
        environment = _own_environment(folder)
        settings = read_serving(environment.variables, port=port, role="all")
        _serve(environment, settings, as_user, votes, seed)
    typer.echo("Stopped." if home is not None else "Stopped; nothing of it is left.")


@app.command("battles")
def battles(
    file: Annotated[Path, typer.Argument(help="Where to write; the suffix decides the format.")] = Path(
        "battles.jsonl"
    ),
    n: Annotated[int, typer.Option("--n", min=1, help="How many battles.")] = 3000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the invented votes.")] = 7,
) -> None:
    """Write a sample file of battles between invented models."""
    from tiltyard.files import write_battles
    from tiltyard.simulate.demo import demo_battles

    write_battles(file, demo_battles(n, seed))
    typer.echo(f"Wrote {n:,} battles to {file}. Next: tiltyard rate {file}", err=True)


def _refuse_unused(context: typer.Context) -> None:
    """An option that would do nothing is an error, not a silence."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            what = f"tiltyard demo {context.invoked_subcommand}"
            raise BadOption(
                f"--{name.replace('_', '-')} stands before {context.invoked_subcommand} and does nothing there; "
                f"leave it out, or see {what} --help"
            )


@contextmanager
def _home(given: Path | None, *, open_to_others: bool) -> Iterator[Path]:
    """The folder that was given, or one that is removed at the end."""
    if given is not None:
        yield given
        return
    made = Path(tempfile.mkdtemp(prefix="tiltyard-demo-"))
    try:
        if open_to_others:
            # Whoever runs the database must be able to pass through to its own folder.
            made.chmod(0o711)
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _serve(
    environment: Environment, settings: ServingSettings, as_user: str | None, votes: int, seed: int
) -> None:
    import asyncio
    from contextlib import ExitStack

    from tiltyard.postgres.database_url import open_long_lived_database
    from tiltyard.web.logs import configure_logging
    from tiltyard.web.startup import prepare_server
    from tiltyard.web.supervisor import Supervisor, listening_socket

    configure_logging()
    with ExitStack() as stack:
        listening = stack.enter_context(listening_socket(settings))
        settings = replace(settings, port=listening.getsockname()[1])
        known = (environment.home / "postgres").exists()
        typer.echo("Opening the arena …" if known else "Making an arena of invented models …")
        database = stack.enter_context(open_long_lived_database(environment, as_user=as_user))
        prepared = asyncio.run(prepare_server(database.url, environment, settings))
        with _counting(votes) as on_vote:
            cast = asyncio.run(_filled(database.url, environment, settings, votes, seed, on_vote))

        async def supervised() -> None:
            supervisor = Supervisor(database, settings, listening)
            await supervisor.run(lambda: _greet(settings.address(), prepared, cast))

        asyncio.run(supervised())


async def _filled(
    url: str,
    environment: Environment,
    settings: ServingSettings,
    votes: int,
    seed: int,
    on_vote: Callable[[int], None],
) -> int:
    from tiltyard.arena.demo_arena import fill_demo_arena
    from tiltyard.web.child_process import open_registry

    async with open_registry(url, environment, settings) as house:
        return await fill_demo_arena(house, _demo_script(), votes=votes, seed=seed, on_vote=on_vote)


def _demo_script() -> DemoScript:
    from tiltyard.arena.demo_arena import DemoScript
    from tiltyard.simulate import demo as content

    return DemoScript(
        arena=_ARENA,
        title="Invented models",
        answers=tuple(content.demo_answers()),
        people=content.human_preference(),
        judges=content.judge_preference(),
        retired=content.RETIRED,
        newcomer=content.NEWCOMER,
        pushed=content.PUSHED,
        remarks=content.REMARKS,
        complaint=content.COMPLAINT,
    )


def _own_environment(folder: Path) -> Environment:
    """The environment, with nothing in it that leads to somebody's database, bucket or judges."""
    from tiltyard.settings.environment import ONE_THREAD

    os.environ.update(dict.fromkeys(_OTHERS, ""))
    # NumPy is not loaded yet: a rater fills the arena in this process, as those of the server will go on.
    os.environ.update(ONE_THREAD)
    return serving_environment(folder)


@contextmanager
def _counting(votes: int) -> Iterator[Callable[[int], None]]:
    """A bar where a person watches; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield lambda _done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("invented people vote", total=votes)
        yield lambda done: bar.update(task, completed=done)


def _greet(address: str, prepared: StartupResult, cast: int) -> None:
    if cast:
        typer.echo(f"Invented people have cast {cast:,} votes.")
    typer.echo(f"Tiltyard is ready: {address}/arenas/{_ARENA}")
    if prepared.link is not None:
        typer.echo(f"Become its operator, within the hour: {address}/claim/{prepared.link}")
    typer.echo("Ctrl-C stops it.")
    sys.stdout.flush()
