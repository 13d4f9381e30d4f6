"""Small pieces of HTML pages and SVG pictures. All text is escaped, including control and bidirectional characters."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files
from typing import Any, NamedTuple

from tiltyard._version import __version__
from tiltyard.core.ratings import Finding
from tiltyard.report.board_charts import Spec, charts_available, javascript
from tiltyard.report.escapes import escape_controls

_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
_FIRST_STRONG_ISOLATE, _POP_ISOLATE = "\u2068", "\u2069"

_NO_CHARTS = "<p>Charts need an extra: <code>pip install 'tiltyard[plots]'</code></p>\n"

#: Fonts of the same widths.
FONT_FAMILY = "Helvetica, Arial, 'Liberation Sans', sans-serif"
#: Widths of Helvetica in thousandths of the font size, by the characters that have them.
_WIDTHS = {
    191: "'",
    222: "ijl",
    260: "|",
    278: " !,./:;I[\\]ft",
    333: "()-`r",
    334: "{}",
    355: '"',
    389: "*",
    469: "^",
    500: "Jcksvxyz",
    556: "#$0123456789?L_abdeghnopqu",
    584: "+<=>~",
    611: "FTZ",
    667: "&ABEKPSVXY",
    722: "CDHNRUw",
    778: "GOQ",
    833: "Mm",
    889: "%",
    944: "W",
    1015: "@",
}
_WIDTH_OF = {character: width for width, characters in _WIDTHS.items() for character in characters}
_OTHER_WIDTH_PER_MILLE, _WIDE_WIDTH_PER_MILLE = 667, 1000


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


def offline_page(title: str, body: str, *, footer: str, head: str = "", scripts: str | None = None) -> str:
    """The complete file. ``body`` and ``footer`` are HTML; charts are drawn if the browser runs scripts.

    ``head`` is added to the head of the document. ``scripts`` replaces the scripts that draw the charts.
    """
    if scripts is None:
        drawing = page_asset("page.js") if charts_available() else ""
        library = f"<script>{javascript()}</script>\n" if charts_available() else ""
        scripts = f"{library}<script>{drawing}{page_asset('controls.js')}</script>"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"{head}"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text_html(title)}</title>\n<style>\n{page_asset('page.css')}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{text_html(title)}</h1>\n{body}"
        f"<footer>Made by Tiltyard {text_html(__version__)}. {footer}</footer>\n"
        f"</main>\n{scripts}\n</body>\n</html>\n"
    )


def charts_script() -> str:
    """The library and the script that draw the charts, for a file beside the page."""
    return f"{javascript()}\n{page_asset('page.js')}"


def charts_note() -> str:
    """The note on a page without charts; empty if charts are available."""
    return "" if charts_available() else _NO_CHARTS


def figure_html(mark: str, title: str, spec: Spec) -> str:
    """A chart: its spec as data, and the element in which it is drawn. ``mark`` must be unique on the page."""
    return (
        f'<figure data-name="{text_html(mark)}"><figcaption>{text_html(title)}</figcaption><div class="chart" data-spec="{text_html(mark)}"></div>'
        f'<script type="application/json" id="{text_html(mark)}">{script_json(spec)}</script></figure>\n'
    )


def script_json(value: Any) -> str:
    """JSON escaped so that no model's name can close its script element."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def page_asset(name: str) -> str:
    """A file of this package that is part of pages."""
    return (files("tiltyard.report") / name).read_text(encoding="utf-8")


def text_width(text: str, size: float) -> float:
    """The width of a text in pixels; that of characters beyond ASCII is an estimate, rather too large."""
    return sum(map(_width, text)) * size / 1000.0


def _width(character: str) -> int:
    known = _WIDTH_OF.get(character)
    if known is not None:
        return known
    if unicodedata.combining(character) or unicodedata.category(character) == "Cf":
        return 0
    return (
        _WIDE_WIDTH_PER_MILLE if unicodedata.east_asian_width(character) in "WF" else _OTHER_WIDTH_PER_MILLE
    )


def cut_text(text: str, characters: int) -> str:
    """A text of at most so many characters, its controls escaped."""
    shown = escape_controls(text)
    return shown if len(shown) <= characters else f"{shown[: characters - 1]}…"


def wrap_text(text: str, size: float, width: float, lines: int) -> list[str]:
    """A text in at most so many lines of this width; what does not fit is cut off with an ellipsis."""
    found: list[str] = []
    line = ""
    for word in _words(escape_controls(text), size, width):
        longer = f"{line} {word}" if line else word
        if text_width(longer, size) <= width:
            line = longer
            continue
        found.append(line)
        line = word
    found.append(line)
    if len(found) <= lines:
        return found
    return [*found[: lines - 1], _shortened(f"{found[lines - 1]}…", size, width)]


def _words(text: str, size: float, width: float) -> Iterator[str]:
    """The words of a text; one that is wider than a line is broken."""
    for word in text.split():
        part = ""
        for character in word:
            if part and text_width(part + character, size) > width:
                yield part
                part = ""
            part += character
        yield part


def _shortened(text: str, size: float, width: float) -> str:
    while text_width(text, size) > width and len(text) > 1:
        text = f"{text[:-2]}…"
    return text
