"""``tiltyard demo``: try Tiltyard without data of your own."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.cli.database_options import AsUser, serving_environment
from tiltyard.cli.options import refuse_beside
from tiltyard.cli.progress import counting_bar
from tiltyard.errors import MissingExtra

if TYPE_CHECKING:
    from tiltyard.arena.demo_arena import DemoScript
    from tiltyard.settings.environment import Environment
    from tiltyard.settings.serving_settings import ServingSettings
    from tiltyard.web.server.startup import StartupResult


_ARENA = "demo"
#: Variables that point to external resources. The demo ignores them.
_EXTERNAL_VARIABLES = (
    "DATABASE_URL",
    "TILTYARD_SESSION_DATABASE_URL",
    "TILTYARD_RESPONSES_URL",
    "TILTYARD_JUDGE_ROUNDS",
)

app = typer.Typer(invoke_without_command=True, rich_markup_mode=None)


@app.callback()
def demo(
    context: typer.Context,
    home: Annotated[
        Path | None, typer.Option(help="Folder to keep the demo in; by default it is deleted on exit.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port to bind; default 8420, 0 for any free port.")] = None,
    votes: Annotated[
        int, typer.Option(min=0, max=100_000, help="Number of simulated votes to start with.")
    ] = 4000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulated votes.")] = 7,
    as_user: AsUser = None,
) -> None:
    """Create a sample arena with votes, and serve it."""
    if context.invoked_subcommand is not None:
        refuse_beside(context, context.invoked_subcommand)
        return
    from importlib.util import find_spec

    from tiltyard.settings.serving_settings import read_serving

    if any(find_spec(name) is None for name in ("fastapi", "uvicorn", "psycopg", "argon2")):
        raise MissingExtra("arena", "tiltyard demo")
    with _home(home, open_to_others=as_user is not None) as folder:
        environment = _own_environment(folder)
        settings = read_serving(environment.variables, port=port, role="all")
        # Loads NumPy, which reads the environment.
        from tiltyard.web.server.startup import prepare_server, run_server

        exists = (environment.home / "postgres").exists()
        typer.echo("Opening the arena …" if exists else "Creating an arena of invented models …")

        async def prepare(url: str, served: ServingSettings) -> tuple[StartupResult, int]:
            prepared = await prepare_server(url, environment, served)
            with _counting(votes) as on_vote:
                return prepared, await _filled(url, environment, served, votes, seed, on_vote)

        run_server(environment, settings, prepare, _greet, as_user=as_user)
    typer.echo("Stopped." if home is not None else "Stopped; all demo data was deleted.")


@app.command("battles")
def battles(
    file: Annotated[Path, typer.Argument(help="File to write; its suffix selects the format.")] = Path(
        "battles.jsonl"
    ),
    n: Annotated[int, typer.Option("--n", min=1, help="Number of battles.")] = 3000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulated votes.")] = 7,
) -> None:
    """Write a sample file of battles between invented models."""
    from tiltyard.files import write_battles
    from tiltyard.simulation.demo.demo_roster import demo_battles

    write_battles(file, demo_battles(n, seed))
    typer.echo(f"Wrote {n:,} battles to {file}. Next: tiltyard rate {file}", err=True)


@contextmanager
def _home(given: Path | None, *, open_to_others: bool) -> Iterator[Path]:
    """Yield the given folder, or a temporary one that is deleted at the end."""
    if given is not None:
        yield given
        return
    made = Path(tempfile.mkdtemp(prefix="tiltyard-demo-"))
    try:
        if open_to_others:
            # The user that runs the database must be able to reach its data folder.
            made.chmod(0o711)
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


async def _filled(
    url: str,
    environment: Environment,
    settings: ServingSettings,
    votes: int,
    seed: int,
    on_vote: Callable[[int], None],
) -> int:
    from tiltyard.arena.demo_arena import fill_demo_arena
    from tiltyard.arena.operators.installation import forget_defences
    from tiltyard.arena.registry import open_registry

    # As on this machine only: on a public address, votes of new voters wait for a day before they count.
    if settings.has_public_address:
        await forget_defences(url)
    local = replace(settings, base_url=None, host="127.0.0.1")
    async with open_registry(url, environment, local) as registry:
        return await fill_demo_arena(registry, demo_script(), votes=votes, seed=seed, on_vote=on_vote)


def demo_script() -> DemoScript:
    """What happens in the demo's arena."""
    from tiltyard.arena.demo_arena import DemoScript
    from tiltyard.simulation.demo import demo_roster, model_answers

    return DemoScript(
        arena=_ARENA,
        title="Invented models",
        answers=tuple(model_answers.demo_answers()),
        people=demo_roster.human_preference(),
        judges=demo_roster.judge_preference(),
        retired=demo_roster.RETIRED,
        newcomer=demo_roster.NEWCOMER,
        pushed=demo_roster.PUSHED,
        remarks=demo_roster.REMARKS,
        complaint=demo_roster.COMPLAINT,
    )


def _own_environment(folder: Path) -> Environment:
    """The environment without any external database, bucket or judge."""
    from tiltyard.settings.environment import ONE_THREAD

    os.environ.update(dict.fromkeys(_EXTERNAL_VARIABLES, ""))
    # Must be set before NumPy is loaded: a rater runs in this process, as it does in the server.
    os.environ.update(ONE_THREAD)
    return serving_environment(folder)


@contextmanager
def _counting(votes: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _done: None
        return
    with counting_bar() as bar:
        task = bar.add_task("simulating votes", total=votes)
        yield lambda done: bar.update(task, completed=done)


def _greet(settings: ServingSettings, result: tuple[StartupResult, int]) -> None:
    address, (prepared, cast) = settings.address(), result
    if cast:
        typer.echo(f"Simulated voters have cast {cast:,} votes.")
    typer.echo(f"Tiltyard is ready: {address}/arenas/{_ARENA}")
    if prepared.link is not None:
        typer.echo(f"Create the operator account within the hour: {address}/claim/{prepared.link}")
    typer.echo("Press Ctrl-C to stop.")
    sys.stdout.flush()
