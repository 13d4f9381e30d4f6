"""``tiltyard backup`` and ``tiltyard restore``: save everything an arena stores in one file, and load it again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.cli.database_options import AsUser, Home, database, serving_environment
from tiltyard.report.terminal_escape import escape_controls

if TYPE_CHECKING:
    from tiltyard.arena.maintenance.restore import RestoreResult


def backup(
    file: Annotated[
        Path | None,
        typer.Argument(help="File to write; default: a new file in the folder backups of the home."),
    ] = None,
    home: Home = None,
    as_user: AsUser = None,
) -> None:
    """Back up database, responses and keys into one file.

    The arenas can keep running meanwhile.
    """
    from tiltyard.arena.content.object_storage import open_configured_storage
    from tiltyard.arena.maintenance.backup import back_up

    environment = serving_environment(home)
    with database(environment, as_user, migrating=False) as url:
        made = back_up(url, environment.home, open_configured_storage(environment), file)
    typer.echo(
        f"Written to {escape_controls(str(made.path))}: {made.size:,} bytes, {_arenas(made.manifest.arenas)}. It contains"
        " the keys: keep it where only you can read it."
    )


def restore(
    file: Annotated[Path, typer.Argument(help="A file that `tiltyard backup` wrote.")],
    revoke_all: Annotated[
        bool,
        typer.Option("--revoke-all", help="Revoke all restored tokens and operator passwords."),
    ] = False,
    home: Home = None,
    as_user: AsUser = None,
) -> None:
    """Restore a backup into an empty home or database.

    Checks the log of every arena afterwards.
    """
    from tiltyard.arena.content.object_storage import open_configured_storage
    from tiltyard.arena.maintenance.backup import read_backup
    from tiltyard.arena.maintenance.restore import restore as restore_backup

    environment = serving_environment(home)
    read_backup(file)
    with database(environment, as_user, migrating=False) as url:
        restored = restore_backup(
            file, url, environment.home, open_configured_storage(environment), revoke_all=revoke_all
        )
    manifest = restored.manifest
    typer.echo(f"Restored the state of {manifest.made_at}: {_arenas(manifest.arenas)}.")
    for line in _access_lines(restored):
        typer.echo(escape_controls(line))


def _access_lines(restored: RestoreResult) -> Iterator[str]:
    """Lists the access that a restore makes valid again: the backup cannot know what was revoked, changed or
    withdrawn after it was made.
    """
    access, since = restored.access, restored.manifest.made_at
    credentials = [f"token {number}: {description}" for number, description in access.tokens.items()]
    credentials += [f"the password of operator {name}" for name in access.operators]
    for count, what in (
        (access.operator_sessions, "operator sessions"),
        (access.operator_links, "operator links"),
        (access.invitations, "invitations and passcodes of private arenas"),
    ):
        credentials += [f"{count:,} {what}"] if count else []
    if restored.revoked:
        yield "Revoked all restored credentials:" if credentials else "The backup contains nothing to revoke."
    elif credentials:
        yield f"Valid again, even if revoked or changed after {since}:"
    yield from (f"  {line}" for line in credentials)
    if restored.revoked and credentials:
        yield "Create new ones: tiltyard token create, tiltyard token operator."
    elif credentials:
        yield "Revoke what should not be: tiltyard token revoke NUMBER; tiltyard token operator sets another password."
    if access.responses:
        yield f"Shown again, even if withdrawn after {since}; withdraw such responses and prompts again:"
    for counts in access.responses:
        yield (
            f"  arena {counts.arena}: {counts.shown:,} responses; {counts.withdrawn:,} withdrawn before stay withdrawn"
        )


def _arenas(heads: dict[str, int]) -> str:
    listed = ", ".join(f"{escape_controls(name)} up to event {head:,}" for name, head in heads.items())
    return listed or "no arenas"
