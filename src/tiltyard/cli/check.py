"""``tiltyard check``: what is wrong with files of battles, with the commands that repair it."""

from __future__ import annotations

import shlex
import sys

import typer

from tiltyard.cli.options import Columns, Files, Format, Outcomes, Rename, SkipInvalid, read_options
from tiltyard.cli.progress import show_read_progress
from tiltyard.report.escapes import escape_controls

#: Something was found that an option repairs.
_REPAIRABLE_EXIT_CODE = 1


def check(
    files: Files,
    columns: Columns = None,
    outcomes: Outcomes = None,
    skip_invalid: SkipInvalid = False,
    rename: Rename = None,
    format: Format = None,
) -> None:
    """Check files of battles, with commands that repair what is found."""
    from tiltyard.report.terminal import Terminal, findings_list
    from tiltyard.runs.log_check import check_log

    reading = read_options(format, columns, outcomes, rename, skip_invalid=skip_invalid)
    with show_read_progress([None]) as progress:
        checked = check_log(files, reading, progress)
    console, board = Terminal(), checked.rated.board
    for source in checked.sources:
        console.print(escape_controls(f"{source.path}: {source.format}"))
    count = len(checked.found) or "no"
    console.print(f"{board.n_battles:,} battles of {len(board.rows)} models; findings: {count}")
    for finding, option in checked.found:
        console.print()
        console.print(findings_list((finding,)))
        if option:
            _print_command(option)
    if len(checked.repairs) > 1:
        console.print("\nAll at once:")
        _print_command(" ".join(checked.repairs))
    if checked.repairs:
        raise typer.Exit(_REPAIRABLE_EXIT_CODE)


def _print_command(options: str) -> None:
    """The command as it was typed, with more options, on one line that can be pasted."""
    typer.echo(escape_controls(f"  tiltyard rate {shlex.join(sys.argv[2:])} {options}"))
