"""``tiltyard check``: what is wrong with files of battles, with the commands that repair it."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from typing import Annotated, Any

import typer

from tiltyard.cli.options import Files, read_options, with_reading_options
from tiltyard.cli.progress import show_read_progress
from tiltyard.report.escapes import escape_controls

#: Something was found that an option repairs.
_REPAIRABLE_EXIT_CODE = 1


@with_reading_options
def check(
    files: Files,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    **options: Any,
) -> None:
    """Check files of battles, with commands that repair what is found."""
    from tiltyard.report.terminal import Terminal, findings_list
    from tiltyard.runs.battle_rating import open_all
    from tiltyard.runs.log_check import check_log

    reading = read_options(options)
    sources = open_all(files, replace(reading, skip_invalid=True))
    with show_read_progress([None]) as progress:
        checked = check_log(sources, skip_invalid=reading.skip_invalid, progress=progress)
    if as_json:
        typer.echo(json.dumps(checked.to_dict(), indent=2, ensure_ascii=False))
    else:
        console = Terminal()
        for line in checked.heading.splitlines():
            console.print(escape_controls(line))
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
