"""Text from others, made safe for a terminal and for Markdown; and tables in plain text."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

#: Characters with a meaning in Markdown. Those that a backslash does not escape in some dialects,
#: and those that turn bare text into links, become entities.
_ACTIVE = re.compile(r"[\\`*_{}\[\]#!]")
_ENTITIES = re.compile(r"[<>&|~@$]|:(?=//)|(?<=www)\.", re.IGNORECASE)


def escape_controls(text: str) -> str:
    """Escape characters that control a terminal or change the text direction."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def markdown_text(value: str) -> str:
    """Escape untrusted text: no markup, no link, no cell border, no line break."""
    spelled = _ACTIVE.sub(r"\\\g<0>", escape_controls(value))
    return _ENTITIES.sub(lambda found: f"&#{ord(found[0])};", spelled)


def csv_text(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A CSV file for people. A text that spreadsheets would run as a formula begins with an apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_inert(cell) for cell in row] for row in rows)
    return text.getvalue()


def _inert(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell


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
