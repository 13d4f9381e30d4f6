"""A table in plain text."""

from __future__ import annotations

from collections.abc import Sequence

from tiltyard.report.escapes import escape_controls


def plain_table(rows: Sequence[Sequence[object]]) -> str:
    """Columns with two spaces between them, the heads first; numbers on the right."""
    texts = [[escape_controls(str(value)) for value in row] for row in rows]
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    right = [len(column) > 1 and all(isinstance(value, int) for value in column[1:]) for column in columns]
    return "\n".join(
        "  ".join(
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in texts
    )
