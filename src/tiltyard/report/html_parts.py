"""Small pieces of HTML. All text is escaped, including control and bidirectional characters."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from tiltyard.core.ratings import Finding
from tiltyard.report.terminal_escape import escape_controls

_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
_FIRST_STRONG_ISOLATE, _POP_ISOLATE = "\u2068", "\u2069"


def text_html(value: str) -> str:
    """Escape untrusted text."""
    return escape(escape_controls(value))


def sentence_html(sentence: str) -> str:
    """Escape a sentence with untrusted names in it; a name that runs from right to left does not reorder the others."""
    return ", ".join(map(_isolated, sentence.split(", ")))


def _isolated(part: str) -> str:
    places = [k for k, character in enumerate(part) if unicodedata.bidirectional(character) in _RIGHT_TO_LEFT]
    if not places:
        return text_html(part)
    start, end = places[0], places[-1] + 1
    inner = f"{_FIRST_STRONG_ISOLATE}{text_html(part[start:end])}{_POP_ISOLATE}"
    return f"{text_html(part[:start])}{inner}{text_html(part[end:])}"


class LinkedText(NamedTuple):
    """A text with a link to an address inside the page."""

    text: str
    address: str


#: The content of a table's cell.
Cell = str | LinkedText


def _cell_html(cell: Cell) -> str:
    if isinstance(cell, LinkedText):
        return f'<a href="{text_html(cell.address)}">{text_html(cell.text)}</a>'
    return text_html(cell)


def section_html(name: str, title: str, *parts: str) -> str:
    """A section with an anchor."""
    return f'<section id="{text_html(name)}">\n<h2>{text_html(title)}</h2>\n{"".join(parts)}</section>\n'


def table_html(heads: Sequence[str], rows: Iterable[Sequence[Cell]], *, words: int = 1) -> str:
    """A table of texts; its first ``words`` columns contain words, the others numbers."""
    head = "".join(
        f"<th{'' if k < words else ' class=n'}>{text_html(name)}</th>" for k, name in enumerate(heads)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td class={'m' if k < words else 'n'}>{_cell_html(cell)}</td>" for k, cell in enumerate(row)
        )
        + "</tr>\n"
        for row in rows
    )
    return f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n'


def findings_html(findings: Sequence[Finding]) -> str:
    """A list of findings; nothing where there are none."""
    if not findings:
        return ""
    items = "".join(
        f"<li><b>{text_html(one.name)}</b> {text_html(one.text)} <i>{text_html(one.advice)}</i></li>\n"
        for one in findings
    )
    return f'<ul class="findings">\n{items}</ul>\n'


def interval_svg(
    ends: tuple[float | None, float | None, float | None],
    span: tuple[float, float],
    attributes: str = 'class="bar"',
) -> str:
    """An interval drawn to scale, as a line and a dot; nothing where there is none.

    ``ends`` are the low end, the rating and the high end; ``span`` is that of all intervals.
    """
    low, rating, high = ends
    if low is None or high is None or rating is None:
        return ""
    scale = 190.0 / max(span[1] - span[0], 1e-9)
    left, dot, right = (5.0 + (value - span[0]) * scale for value in (low, rating, high))
    return (
        f'<svg {attributes} viewBox="0 0 200 16" preserveAspectRatio="none" aria-hidden="true">'
        f'<line x1="{left:.1f}" x2="{right:.1f}" y1="8" y2="8" stroke="currentColor" stroke-width="2"/>'
        f'<circle cx="{dot:.1f}" cy="8" r="4" fill="currentColor"/></svg>'
    )
