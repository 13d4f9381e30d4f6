"""``tiltyard migrate`` and ``tiltyard upgrade-database``: upgrade the schema, and upgrade PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tiltyard.cli.database_options import AsUser, Home, WaitNotice, database, serving_environment
from tiltyard.errors import BadOption
from tiltyard.report.terminal_escape import escape_controls


def migrate(
    home: Home = None,
    as_user: AsUser = None,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 1 if migrations are pending.")
    ] = False,
) -> None:
    """Migrate the tables to this version. The arenas can keep running."""
    from tiltyard.postgres.schema_migrations import migrate as migrated
    from tiltyard.postgres.schema_migrations import pending_migrations

    with database(serving_environment(home), as_user, migrating=False) as url:
        names = pending_migrations(url) if check else migrated(url)
    for name in names:
        typer.echo(f"{'pending' if check else 'applied'}: {name}")
    if not names:
        typer.echo("The tables are up to date.")
    elif check:
        raise typer.Exit(1)


def upgrade_database(
    old_binaries: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of the PostgreSQL programs that created the data."),
    ] = None,
    home: Home = None,
    as_user: AsUser = None,
) -> None:
    """Upgrade the embedded database to a new PostgreSQL.

    Makes a backup first.
    """
    from tiltyard.arena.content.object_storage import open_configured_storage
    from tiltyard.arena.maintenance.major_upgrade import upgrade_database as upgraded

    environment = serving_environment(home)
    if environment.database_url is not None:
        raise BadOption(
            "DATABASE_URL is set: an external server is upgraded by its administrator; unset it to upgrade the "
            "embedded database"
        )
    done = upgraded(
        environment.home,
        open_configured_storage(environment),
        user=as_user,
        old_binaries=old_binaries,
        on_wait=WaitNotice(),
    )
    if done is None:
        typer.echo("The database already has this version.")
        return
    if done.problem:
        typer.echo(
            escape_controls(f"pg_upgrade failed: {done.problem}.")
            + " The backup was restored into a new database instead."
        )
    typer.echo(
        f"Upgraded from PostgreSQL {done.old} to {done.new}. Backup: {escape_controls(str(done.backup))}. The old data"
        f" are in {escape_controls(str(done.kept))}; delete them once you have checked the new database."
    )
