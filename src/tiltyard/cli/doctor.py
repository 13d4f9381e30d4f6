"""``tiltyard doctor``: check the installation for problems."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.cli.database_options import AsUser, Home, database, serving_environment
from tiltyard.report.terminal_escape import escape_controls

if TYPE_CHECKING:
    from tiltyard.arena.maintenance.doctor import HealthCheck
    from tiltyard.settings.environment import Environment


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON.")] = False,
    home: Home = None,
    as_user: AsUser = None,
) -> None:
    """Check database, disk, clock, raters, backup and keys."""
    from tiltyard.arena.maintenance.doctor import examine_home

    environment = serving_environment(home)
    checks = [*_database(environment, as_user), *examine_home(environment.home, environment.variables)]
    if as_json:
        typer.echo(json.dumps([asdict(check) for check in checks], indent=1))
    else:
        for check in checks:
            advice = f" → {check.advice}" if check.advice else ""
            typer.echo(escape_controls(f"{check.state:<4} {check.name}: {check.value}{advice}"))
    if any(check.state == "bad" for check in checks):
        raise typer.Exit(1)


def _database(environment: Environment, as_user: str | None) -> list[HealthCheck]:
    """Check the database. An embedded database that does not exist yet is not created."""
    from tiltyard.arena.maintenance.doctor import HealthCheck, examine_database
    from tiltyard.errors import StoreFault

    if environment.database_url is None and not (environment.home / "postgres" / "data").exists():
        return [
            HealthCheck("database", "look", f"none in {environment.home} yet", "tiltyard serve creates one")
        ]
    try:
        with database(environment, as_user, migrating=False) as url:
            return examine_database(
                url, embedded=environment.database_url is None, pooler_url=environment.pooler_url
            )
    except StoreFault as error:
        return [HealthCheck("database", "bad", "does not start", str(error))]
