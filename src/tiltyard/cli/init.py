"""``tiltyard init``: a first tournament, ready to run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["init"]


def init(
    folder: Annotated[Path, typer.Argument(help="Where to write; made if it is not there.")] = Path(),
) -> None:
    """Write a small tournament that runs offline: configuration, prompts, answers and recorded replies."""
    from tiltyard.settings.sample_tournament import write_sample

    written = write_sample(folder)
    names = ", ".join(path.name for path in written)
    config = shlex.quote(str(folder / "tournament.yaml"))
    typer.echo(f"Wrote {names} to {folder}. Next: tiltyard run {config} --mode pilot", err=True)
