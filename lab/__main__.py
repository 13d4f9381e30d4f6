"""``python -m lab``: measure the ranking policy against its bars. `just suite` runs it at full size."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from lab.policy_suite import run_suite
from lab.suite_report import suite_markdown, suite_page, suite_svgs, suite_tables
from tiltyard.cli.progress import simulation_progress
from tiltyard.cli.simulate import document_json, prepare_folder, write_files
from tiltyard.errors import TiltyardError
from tiltyard.report.terminal import Terminal
from tiltyard.simulation.studies import lab_folder


class SuiteSizeName(StrEnum):
    SMALL = "small"
    FULL = "full"


def suite(
    size: Annotated[
        SuiteSizeName, typer.Option(help="How many seeds and votes to take.")
    ] = SuiteSizeName.SMALL,
    only: Annotated[
        list[str] | None, typer.Option(metavar="ROW", help="Measure only this row; may be repeated.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="Seeds of every row, instead of its own number.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=0, max=256, help="Worlds at once; 0: none beside this process.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write numbers, tables and charts to this folder.")] = None,
) -> None:
    """Measure every bar of the ranking policy in simulated worlds. Exits with 1 if one is missed."""
    prepare_folder(out)
    cores = os.cpu_count() or 1 if processes is None else processes
    with simulation_progress() as progress:
        measured = run_suite(
            size.value,
            seeds=seeds,
            folder=lab_folder(),
            processes=cores,
            on_progress=progress,
            only=only or [],
        )
    document = asdict(measured)
    Terminal().print(suite_tables(document))
    if out is not None:
        files = {"suite.md": suite_markdown(document), "suite.html": suite_page(document)}
        write_files(out, {"suite.json": document_json(document), **files, **suite_svgs(document)})
    if not measured.holds:
        raise typer.Exit(1)


def main() -> None:
    """Run the command; print errors of Tiltyard as one line."""
    try:
        typer.run(suite)
    except TiltyardError as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
