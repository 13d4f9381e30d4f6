"""A table in plain text."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from tiltyard.report.escapes import escape_controls


def print_table(rows: Sequence[Sequence[object]]) -> None:
    """Print columns with two spaces between them, the heads first; numbers on the right."""
    texts = [[escape_controls(str(value)) for value in row] for row in rows]
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    right = [len(column) > 1 and all(isinstance(value, int) for value in column[1:]) for column in columns]
    for line in texts:
        padded = [
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(line, widths, right, strict=True)
        ]
        typer.echo("  ".join(padded).rstrip())
