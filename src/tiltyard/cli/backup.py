"""``tiltyard backup`` and ``tiltyard restore``: everything an arena keeps, in one file and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.cli.database_options import AsUser, database
from tiltyard.cli.serve import Home, serving_environment
from tiltyard.report.terminal_escape import escape_controls

if TYPE_CHECKING:
    from tiltyard.arena.maintenance.restore import RestoreResult

__all__ = ["backup", "restore"]


def backup(
    file: Annotated[
        Path | None, typer.Argument(help="Where to write it; in the folder backups of the home unless given.")
    ] = None,
    home: Home = None,
    as_user: AsUser = None,
) -> None:
    """Write the database, the bytes of responses and the keys into one file, while the arenas go on."""
    from tiltyard.arena.content.object_storage import open_configured_storage
    from tiltyard.arena.maintenance.backup import back_up

    environment = serving_environment(home)
    with database(environment, as_user, migrating=False) as url:
        made = back_up(url, environment.home, open_configured_storage(environment), file)
    typer.echo(
        f"Written to {escape_controls(str(made.path))}: {made.size:,} bytes, {_arenas(made.manifest.arenas)}. It holds"
        " the keys too: keep it where only you can read it."
    )


def restore(
    file: Annotated[Path, typer.Argument(help="A file that `tiltyard backup` wrote.")],
    revoke_all: Annotated[
        bool,
        typer.Option("--revoke-all", help="Revoke the tokens and operators' passwords that it brings back."),
    ] = False,
    home: Home = None,
    as_user: AsUser = None,
) -> None:
    """Bring a backup back, into an empty home or an empty database only, and check every log."""
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
    typer.echo(f"Restored what was there at {manifest.made_at}: {_arenas(manifest.arenas)}.")
    for line in _access_lines(restored):
        typer.echo(escape_controls(line))


def _access_lines(restored: RestoreResult) -> Iterator[str]:
    """What was revoked, changed or withdrawn after the backup may be valid again: it does not say."""
    access, since = restored.access, restored.manifest.made_at
    credentials = [f"token {number}: {told}" for number, told in access.tokens.items()]
    credentials += [f"the password of operator {name}" for name in access.operators]
    for count, what in (
        (access.operator_sessions, "operator sessions"),
        (access.operator_links, "operator links"),
    ):
        credentials += [f"{count:,} {what}"] if count else []
    if restored.revoked:
        yield "Revoked all that it brought back:" if credentials else "It brought back nothing to revoke."
    elif credentials:
        yield f"Valid again, even if revoked or changed after {since}:"
    yield from (f"  {line}" for line in credentials)
    if restored.revoked and credentials:
        yield "Make new ones: tiltyard token create, tiltyard token operator."
    elif credentials:
        yield "Revoke what should not be: tiltyard token revoke NUMBER; tiltyard token operator sets another password."
    if access.responses:
        yield f"Shown again, even if withdrawn after {since}; withdraw such responses and prompts again:"
    for found in access.responses:
        yield f"  arena {found.arena}: {found.shown:,} responses; {found.withdrawn:,} withdrawn before stay withdrawn"


def _arenas(heads: dict[str, int]) -> str:
    told = ", ".join(f"{escape_controls(name)} up to event {head:,}" for name, head in heads.items())
    return told or "no arenas"
