"""``tiltyard demo``: something to try, for those who have no data yet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["app"]

app = typer.Typer(help="Samples to try Tiltyard with.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _samples() -> None:
    """Samples to try Tiltyard with."""


@app.command("battles")
def battles(
    file: Annotated[Path, typer.Argument(help="Where to write; the suffix decides the format.")] = Path(
        "battles.jsonl"
    ),
    n: Annotated[int, typer.Option("--n", min=1, help="How many battles.")] = 3000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the invented votes.")] = 7,
) -> None:
    """Write a sample file of battles between invented models."""
    from tiltyard.formats import write_battles
    from tiltyard.lab.demo import demo_battles

    write_battles(file, demo_battles(n, seed))
    typer.echo(f"Wrote {n:,} battles to {file}. Next: tiltyard rate {file}", err=True)
