"""Text in SVG pictures: its width without a browser, cut and wrapped."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from tiltyard.report.terminal_escape import escape_controls

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


def text_width(text: str, size: float) -> float:
    """The width of a text in pixels; that of characters beyond ASCII is an estimate, rather too large."""
    return sum(map(_width, text)) * size / 1000.0


def _width(character: str) -> int:
    known = _WIDTH_OF.get(character)
    if known is not None:
        return known
    if unicodedata.combining(character):
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
