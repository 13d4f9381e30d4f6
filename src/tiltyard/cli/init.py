"""``tiltyard init``: write a sample tournament."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["init"]


def init(
    folder: Annotated[
        Path, typer.Argument(help="Folder to write to; created if it does not exist.")
    ] = Path(),
) -> None:
    """Write a sample tournament that runs offline."""
    from tiltyard.settings.sample_tournament import write_sample

    written = write_sample(folder)
    names = ", ".join(path.name for path in written)
    config = shlex.quote(str(folder / "tournament.yaml"))
    typer.echo(f"Wrote {names} to {folder}. Next: tiltyard run {config} --mode pilot", err=True)
