"""The badge of a published run: a small SVG picture that says who is first, and no more than is known."""

from __future__ import annotations

from tiltyard.report.ab_report import ABReport
from tiltyard.report.html_parts import sentence_html, text_html
from tiltyard.report.site_boards import FirstPlace, SiteRun, first_place, headline_board, result_sentence
from tiltyard.report.svg_text import FONT_FAMILY, cut_text, text_width

_LABEL = "tiltyard"
_FONT_PIXELS = 11
_HEIGHT_PIXELS = 20
_PADDING_PIXELS = 7
#: A name on a badge has at most so many characters, and all names that share first place together.
_NAME_CHARACTERS = 32
_SHARED_CHARACTERS = 48
_NO_FIRST = {"too-few": "no order", "unclaimed": "no order claimed", "nothing": "no model told apart"}


def badge_text(run: SiteRun) -> str:
    """What the badge says."""
    if run.comparison is not None:
        return _comparison_text(run.comparison)
    board = headline_board(run)
    if board is None:
        return f"{len(run.boards)} boards by {_name(run.by or '')}" if run.boards else "no battle rated"
    return _first_place_text(first_place(board))


def _first_place_text(found: FirstPlace) -> str:
    if found.case in _NO_FIRST:
        return _NO_FIRST[found.case]
    among = f" of {found.ranked} ranked" if found.apart else ""
    if found.case == "first":
        return f"{_name(found.models[0])} is first{among}"
    names = ", ".join(map(_name, found.models))
    if len(names) <= _SHARED_CHARACTERS and not among:
        return f"{names} share first place"
    return f"{len(found.models)}{among} share first place"


def _comparison_text(report: ABReport) -> str:
    a, b = _name(report.name_a), _name(report.name_b)
    if report.decision == "same":
        return f"{b} and {a} are the same within ±{report.margin:.0f} points"
    if report.decision == "undecided":
        return f"{b} or {a}: undecided"
    return f"{b} is {report.decision} than {a}"


def _name(model: str) -> str:
    return cut_text(model, _NAME_CHARACTERS)


def render_badge(run: SiteRun) -> str:
    """The badge as SVG; its title is the whole sentence, for screen readers."""
    text = badge_text(run)
    label, value = (text_width(part, _FONT_PIXELS) for part in (_LABEL, text))
    left, right = (round(width) + 2 * _PADDING_PIXELS for width in (label, value))
    title = text_html(f"{run.title}: {result_sentence(run)}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{_HEIGHT_PIXELS}" '
        f'viewBox="0 0 {left + right} {_HEIGHT_PIXELS}" role="img" aria-labelledby="title">\n'
        f'<title id="title">{title}</title>\n'
        f'<clipPath id="round"><rect width="{left + right}" height="{_HEIGHT_PIXELS}" rx="3"/></clipPath>\n'
        f'<g clip-path="url(#round)"><rect width="{left}" height="{_HEIGHT_PIXELS}" fill="#3b454c"/>'
        f'<rect x="{left}" width="{right}" height="{_HEIGHT_PIXELS}" fill="#2f6f8f"/></g>\n'
        f'<g fill="#fff" font-family="{text_html(FONT_FAMILY)}" font-size="{_FONT_PIXELS}">\n'
        f"{_text(_PADDING_PIXELS, label, _LABEL)}{_text(left + _PADDING_PIXELS, value, text)}</g>\n</svg>\n"
    )


def _text(x: float, width: float, text: str) -> str:
    """A text that is stretched to the width it was given, whatever font draws it."""
    return (
        f'<text x="{x:g}" y="14" textLength="{width:.1f}" lengthAdjust="spacingAndGlyphs">'
        f"{sentence_html(text)}</text>\n"
    )
