"""``tiltyard backup`` and ``tiltyard restore``: everything an arena keeps, in one file and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tiltyard.cli.database import AsUser, database
from tiltyard.report.printable import printable

__all__ = ["backup", "restore"]


def backup(
    file: Annotated[
        Path | None, typer.Argument(help="Where to write it; in the folder backups of the home unless given.")
    ] = None,
    as_user: AsUser = None,
) -> None:
    """Write the database, the bytes of responses and the keys into one file, while the arenas go on."""
    from tiltyard.settings.environment import read_environment
    from tiltyard.store.backup import back_up
    from tiltyard.store.bulky import bulky_of

    environment = read_environment()
    with database(environment, as_user, migrating=False) as url:
        made = back_up(url, environment.home, bulky_of(environment), file)
    typer.echo(
        f"Written to {printable(str(made.path))}: {made.size:,} bytes, {_arenas(made.manifest.arenas)}. It holds"
        " the keys too: keep it where only you can read it."
    )


def restore(
    file: Annotated[Path, typer.Argument(help="A file that `tiltyard backup` wrote.")],
    as_user: AsUser = None,
) -> None:
    """Bring a backup back, into an empty home or an empty database only, and check every log."""
    from tiltyard.settings.environment import read_environment
    from tiltyard.store.backup import read_backup
    from tiltyard.store.bulky import bulky_of
    from tiltyard.store.restoring import restore as restored

    environment = read_environment()
    read_backup(file)
    with database(environment, as_user, migrating=False) as url:
        manifest = restored(file, url, environment.home, bulky_of(environment))
    typer.echo(f"Restored what was there at {manifest.made_at}: {_arenas(manifest.arenas)}.")


def _arenas(heads: dict[str, int]) -> str:
    told = ", ".join(f"{printable(name)} up to event {head:,}" for name, head in heads.items())
    return told or "no arenas"
