"""``tiltyard verify``: check a run folder against its battles."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tiltyard.report.terminal_escape import escape_controls


def verify(
    folder: Annotated[
        Path,
        typer.Argument(
            help="Folder written by `tiltyard rate --out`, `run` or `place`, or an arena's release."
        ),
    ],
) -> None:
    """Check a run folder and recompute its numbers.

    Checks the hash of every file, then recomputes every number from the battles.
    """
    from tiltyard.runs.run_verification import verify_run

    result = verify_run(folder)
    for check in result.checks:
        typer.echo(escape_controls(f"{'ok  ' if check.passed else 'FAIL'} {check.name}: {check.detail}"))
    typer.echo(result.summary)
    if not result.passed:
        raise typer.Exit(1)
