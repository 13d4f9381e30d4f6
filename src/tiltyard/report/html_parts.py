"""Small pieces of HTML. All text is escaped, including control and bidirectional characters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from tiltyard.core.ratings import Finding
from tiltyard.report.terminal_escape import escape_controls

__all__ = ["findings_html", "section_html", "table_html", "text_html"]


def text_html(value: str) -> str:
    """Escape untrusted text."""
    return escape(escape_controls(value))


def section_html(name: str, title: str, *parts: str) -> str:
    """A section with an anchor."""
    return f'<section id="{text_html(name)}">\n<h2>{text_html(title)}</h2>\n{"".join(parts)}</section>\n'


def table_html(heads: Sequence[str], rows: Iterable[Sequence[str]], *, words: int = 1) -> str:
    """A table of texts; its first ``words`` columns contain words, the others numbers."""
    head = "".join(
        f"<th{'' if k < words else ' class=n'}>{text_html(name)}</th>" for k, name in enumerate(heads)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td class={'m' if k < words else 'n'}>{text_html(cell)}</td>" for k, cell in enumerate(row)
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
