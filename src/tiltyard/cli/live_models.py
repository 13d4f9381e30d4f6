"""Live arenas on the command line: the options of a models file, ``tiltyard arena live``, and what is printed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.cli.arena_entry import Name
from tiltyard.cli.database_options import (
    AsUser,
    BaseUrl,
    Home,
    link_address,
    run_with_pool,
    serving_environment,
)
from tiltyard.errors import BadOption
from tiltyard.report.terminal_escape import escape_controls

if TYPE_CHECKING:
    from tiltyard.arena.live.live_arena import NewEntrant
    from tiltyard.arena.operators.live_setup import LiveSetup
    from tiltyard.postgres.connections import ConnectionPool
    from tiltyard.settings.environment import Environment


def load_entrants(path: Path, environment: Environment) -> list[NewEntrant]:
    """Read a models file and check that every key is there; the processes of the server will need them.

    Keys from a ``.env`` beside the file are passed on to them.
    """
    from tiltyard.arena.live.live_arena import read_entrants
    from tiltyard.arena.live.safety import MODERATION_VARIABLE
    from tiltyard.settings.environment import read_environment
    from tiltyard.settings.live_models import load_live_models

    if not path.is_file():
        raise BadOption(f"{path}: file not found")
    models = load_live_models(path)
    known = read_environment(path.absolute().parent, variables=environment.variables)
    moderation = models.moderation
    checks = () if moderation is None else (moderation.endpoint, moderation.guard)
    if moderation is not None:
        moderation.read_rules(path.parent)
        os.environ[MODERATION_VARIABLE] = str(path.absolute())
    for entrant in (*models.entrants(), *(check for check in checks if check is not None)):
        known.api_key(entrant)
        known.route(entrant, asking=True)
        named = (entrant.api_key_env, *entrant.headers_env.values(), *entrant.query_env.values())
        for variable in named:
            if variable is not None and variable in known.variables:
                os.environ.setdefault(variable, known.variables[variable])
    return read_entrants(models)


def live(
    name: Name,
    models: Annotated[Path, typer.Option(metavar="FILE", help="Models that answer, as YAML.")],
    category: Annotated[
        list[str] | None, typer.Option(help="A category of prompts, for a new arena; may be repeated.")
    ] = None,
    budget: Annotated[
        float | None, typer.Option(min=0, help="Never spend more dollars than this in the arena.")
    ] = None,
    base_url: BaseUrl = None,
    home: Home = None,
    as_user: AsUser = None,
) -> None:
    """Make a live arena, or change its models."""
    from tiltyard.arena.content.blob_store import BlobStore
    from tiltyard.arena.content.object_storage import open_configured_storage
    from tiltyard.arena.operators.live_setup import LiveArenaRequest, set_up_live_arena
    from tiltyard.settings.serving_settings import read_serving

    environment = serving_environment(home)
    settings = read_serving(environment.variables, base_url=base_url)
    asked = LiveArenaRequest(name, load_entrants(models, environment), tuple(category or ()), budget)

    async def working(pool: ConnectionPool) -> LiveSetup:
        blobs = BlobStore(pool, open_configured_storage(environment))
        return await set_up_live_arena(pool, blobs, asked, shard=settings.shard)

    done = run_with_pool(environment, as_user, working)
    print_live_setup(done, link_address(environment, base_url))


def print_live_setup(done: LiveSetup, address: str) -> None:
    """Say what was done, and the link that lets people in."""
    arena, changes = escape_controls(done.arena), done.changes
    if changes is None:
        typer.echo(f"Live arena {arena} is made. Let people in: {address}/join/{done.code}")
        return
    parts = {
        "new": changes.added,
        "new version": changes.changed,
        "served again": changes.enabled,
        "retired": changes.retired,
    }
    said = "; ".join(f"{what}: {', '.join(names)}" for what, names in parts.items() if names)
    typer.echo(f"Live arena {arena}: {escape_controls(said) if said else 'no model has changed'}.")
    typer.echo(f"Let people in: tiltyard arena invite {arena} --batch NAME --uses 10")
