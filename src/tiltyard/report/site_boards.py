"""Published runs as a site shows them, and their badge and card as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tiltyard.core.ratings.findings import Finding
from tiltyard.report.ab_report import ABReport
from tiltyard.report.board_charts import charts_available
from tiltyard.report.board_formats import first_place_text, rank_range
from tiltyard.report.escapes import escape_controls
from tiltyard.report.html_parts import (
    FONT_FAMILY,
    cut_text,
    sentence_html,
    text_html,
    text_width,
    wrap_text,
)

FirstPlaceCase = Literal["unclaimed", "too-few", "nothing", "first", "shared"]

#: So many of the models that share first place are named in a sentence.
_NAMED_MODEL_COUNT = 5

CARD_WIDTH_PIXELS = 1200
CARD_HEIGHT_PIXELS = 630
_MARGIN_PIXELS = 64
_RIGHT_PIXELS, _INNER_PIXELS = CARD_WIDTH_PIXELS - _MARGIN_PIXELS, CARD_WIDTH_PIXELS - 2 * _MARGIN_PIXELS
_ROW_COUNT = 6
#: All rows together, and one of a few.
_ROWS_PIXELS, _LARGEST_ROW_PIXELS = 320.0, 64.0
#: The last line.
_COUNTS_PIXELS = 602
_NAME_START_PIXELS = 170.0
#: Where the bars begin and end.
_BAR_START_PIXELS, _BAR_END_PIXELS = 640.0, 1020.0
_VERDICT_SIZES_PIXELS = (68, 60, 54, 48, 42, 36, 30)
#: So much wider is bold text.
_BOLD_RATIO = 1.08
_DARK, _BLUE, _INK = 'fill="#10293c"', 'fill="#1f5f8b"', 'fill="#1f2326"'
_SOFT, _PALE, _HEAVY = 'fill="#5a6066"', 'fill="#b9cfde"', ' font-weight="bold"'
_STATUS_COLOURS = {"good": "#86cf9f", "waits": "#e3b95f", "bad": "#f2998f", "quiet": "#b9cfde"}
_LABEL = "tiltyard"
_FONT_PIXELS = 11
_HEIGHT_PIXELS = 20
_PADDING_PIXELS = 7
#: A name on a badge has at most so many characters, and all names that share first place together.
_BADGE_NAME_CHARACTERS = 32
_SHARED_CHARACTERS = 48
_NO_FIRST = {"too-few": "no order", "unclaimed": "no order claimed", "nothing": "no order settled"}


@dataclass(frozen=True, slots=True)
class SiteRow:
    """One model of a board."""

    model: str
    rating: float | None
    ci_low: float | None
    ci_high: float | None
    rank_low: int | None
    rank_high: int | None
    tier: int | None
    #: Models of one group may be compared; ``None`` belongs to none.
    group: int | None
    placed: str | None = None


@dataclass(frozen=True, slots=True)
class SiteBoard:
    """A board of a run; ``name`` is ``None`` if it is the only one."""

    name: str | None
    rows: tuple[SiteRow, ...]
    level: float | None
    scope: str | None
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContent:
    """A run, as its files describe it."""

    title: str
    method: str
    boards: tuple[SiteBoard, ...]
    battles: int
    prompts: int | None
    #: When the run was written, as a date.
    date: str | None
    #: The field by which the boards are divided, if they are.
    by: str | None
    #: The name of the board that sums up the others, if there is one.
    overall: str | None
    #: The same for runs that rate one arena alike: each of them is a date in its history. ``None`` stands alone.
    series: str | None
    #: The result of `tiltyard ab`; its boards are not shown, because their ranks hold for one look only.
    comparison: ABReport | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRun(RunContent):
    """A published run. ``name`` is the name of its folder, archive and badge on the site."""

    name: str
    models: int
    manifest_sha256: str
    archive_bytes: int
    #: Whether every number was recomputed before it was published; else only hashes were checked.
    recomputed: bool


@dataclass(frozen=True, slots=True)
class FirstPlace:
    """Who is first among the comparable models of a board, by their ranges of ranks."""

    case: FirstPlaceCase
    models: tuple[str, ...]
    #: Models that are ranked together, and their tiers.
    ranked: int
    tiers: int
    #: Models for which no order is claimed: without a rating, not comparable with these, or placed by a judge only.
    apart: int


def find_series(runs: Sequence[SiteRun]) -> list[list[SiteRun]]:
    """The runs of each history together, the newest first; others alone. Histories keep the order of the runs."""
    found: dict[str, list[SiteRun]] = {}
    for run in runs:
        found.setdefault(run.series or run.name, []).append(run)
    # Of one date, the run that was named last is the newest.
    return [sorted(series, key=lambda run: run.date or "")[::-1] for series in found.values()]


def first_place(board: SiteBoard) -> FirstPlace:
    """Read first place off the ranges of ranks; nothing else is claimed."""
    rows = [row for row in board.rows if row.group == 0]
    ranked = [row for row in rows if row.rank_low is not None]
    first = [row for row in ranked if row.rank_low == 1]
    # The ranks of the others do not count a placed model.
    ahead = [row for row in first if row.placed is not None and row.rank_high == 1]
    models = tuple(row.model for row in ahead or first)
    case: FirstPlaceCase
    if len(rows) < 2:
        case, models = "too-few", ()
    elif board.level is None or not ranked:
        case, models = "unclaimed", ()
    elif all(row.rank_low == 1 for row in ranked):
        case = "nothing"
    else:
        case = "first" if len(models) == 1 else "shared"
    tiers = len({row.tier for row in ranked if row.tier is not None})
    return FirstPlace(case, models, len(ranked), tiers, len(board.rows) - len(ranked))


def first_place_sentence(board: SiteBoard) -> str:
    """What a board settles, in one or two sentences."""
    found = first_place(board)
    if found.case == "too-few":
        sentence = "Fewer than two models can be compared, so there is no order."
    elif found.case == "unclaimed":
        sentence = "No order is claimed: these ratings have no intervals."
    elif found.case == "nothing":
        sentence = "No order is settled."
    elif found.case == "first":
        others = "every other model" if not found.apart else f"the other {found.ranked - 1}"
        sentence = f"{found.models[0]} is first: settled above {others}."
    else:
        sentence = first_place_text(found.models, _NAMED_MODEL_COUNT)
    if found.tiers > 1:
        sentence += f" The {found.ranked} models form {found.tiers} tiers, each settled above the next."
    if found.apart and found.ranked:
        sentence += f" No order is claimed for {found.apart} other{'' if found.apart == 1 else 's'}."
    return sentence


def headline_board(run: SiteRun) -> SiteBoard | None:
    """The board that speaks for the whole run; ``None`` if several boards stand side by side."""
    if len(run.boards) == 1:
        return run.boards[0]
    return next((board for board in run.boards if board.name == run.overall), None)


def result_sentence(run: SiteRun) -> str:
    """The first sentence about a run."""
    if run.comparison is not None:
        return run.comparison.verdict
    board = headline_board(run)
    if board is not None:
        return first_place_sentence(board)
    return f"{len(run.boards)} boards, by {run.by}." if run.boards else "No battle was rated."


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareCard:
    """What a card shows, from its top to its bottom."""

    title: str
    verdict: str
    #: Models with their ranks and intervals; without any, ``note`` stands there.
    rows: Sequence[SiteRow] = ()
    note: str = ""
    counts: str
    #: In words, and how they look.
    status: str = ""
    status_kind: str = "quiet"
    right_to_left: bool = False


def render_card(run: SiteRun) -> str:
    """The card of a run as SVG."""
    board, compared = headline_board(run), run.comparison
    counts = [f"{run.battles:,} battles", f"{run.models:,} models"]
    counts += [] if run.prompts is None else [f"{run.prompts:,} prompts"]
    counts += [] if run.date is None else [run.date]
    return draw_card(
        ShareCard(
            title=run.title,
            verdict=result_sentence(run),
            rows=() if board is None or compared is not None else board.rows,
            note="" if compared is None else compared.numbers,
            counts=" · ".join((*counts, "recompute it with tiltyard verify")),
        )
    )


def draw_card(card: ShareCard) -> str:
    """A card as SVG: the verdict large on a dark ground; below it a band for each tier, with names and intervals."""
    rows, note = card.rows[:_ROW_COUNT], wrap_text(card.note, 28, _INNER_PIXELS, 4)
    height = min(_LARGEST_ROW_PIXELS, _ROWS_PIXELS / max(len(rows), 1))
    head = _COUNTS_PIXELS - 56 - (height * len(rows) if rows else 44.0 * len(note) + 12)
    notes = (_line(line, head + 56 + 44 * k, 28, _INK) for k, line in enumerate(note))
    drawn = "".join((*_heading(card, head), *(_rows(rows, head + 16, height) if rows else notes)))
    size = f'width="{CARD_WIDTH_PIXELS}" height="{CARD_HEIGHT_PIXELS}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
        f'viewBox="0 0 {CARD_WIDTH_PIXELS} {CARD_HEIGHT_PIXELS}" role="img" aria-labelledby="title">\n'
        f'<title id="title">{text_html(f"{card.title}: {card.verdict}")}</title>\n<rect {size} fill="#fbfaf7"/>\n'
        f'<g font-family="{text_html(FONT_FAMILY)}">\n{drawn}{_line(card.counts, _COUNTS_PIXELS, 24, _SOFT)}'
        f"{_line('Tiltyard', _COUNTS_PIXELS, 24, _BLUE + _HEAVY, end=True)}</g>\n</svg>\n"
    )


def card_png(svg: str) -> bytes | None:
    """The card as PNG, which most sites need; ``None`` without the extra ``plots``."""
    if not charts_available():
        return None
    import vl_convert

    return bytes(vl_convert.svg_to_png(svg))


def _heading(card: ShareCard, height: float) -> Iterator[str]:
    """Title and status in one line, and the verdict as large as there is room."""
    yield f'<rect width="{CARD_WIDTH_PIXELS}" height="{height:g}" {_DARK}/>\n'
    end, status = card.right_to_left, text_width(card.status, 24) * _BOLD_RATIO + 40 if card.status else 0.0
    title = wrap_text(card.title, 32, _INNER_PIXELS - status - 24, 1)
    yield _line(title[0], 82, 32, _PALE, end=end)
    if card.status:
        x, colour = _MARGIN_PIXELS if end else _RIGHT_PIXELS - status, _STATUS_COLOURS[card.status_kind]
        yield f'<rect x="{x:.1f}" y="48" width="{status:.1f}" height="46" rx="23" fill="{colour}"/>\n'
        yield _line(card.status, 80, 24, _DARK + _HEAVY, x=x + 20)
    room = height - 130
    for size in _VERDICT_SIZES_PIXELS:
        lines = wrap_text(card.verdict, size * _BOLD_RATIO, _INNER_PIXELS, max(int(room / (1.2 * size)), 1))
        if not lines[-1].endswith("…"):
            break
    for k, line in enumerate(lines):
        y = 106 + size + room / 2 + 1.2 * size * (k - len(lines) / 2)
        yield _line(line, y, size, 'fill="#ffffff"' + _HEAVY, end=end)


def _rows(rows: Sequence[SiteRow], top: float, height: float) -> Iterator[str]:
    ends = [end for row in rows for end in (row.ci_low, row.ci_high) if end is not None]
    span = (min(ends), max(ends)) if ends else (0.0, 1.0)
    scale = (_BAR_END_PIXELS - _BAR_START_PIXELS) / max(span[1] - span[0], 1e-9)
    size = min(round(height * 0.55), 34)
    for k, row in enumerate(rows):
        y, middle = top + k * height, top + (k + 0.5) * height
        if k == 0 or rows[k - 1].tier != row.tier:
            tall = sum(other.tier == row.tier for other in rows) * height - 4
            fill = "#e3eef6" if (row.tier or 1) % 2 else "#efece3"
            yield f'<rect x="40" y="{y + 2:.1f}" width="1120" height="{tall:.1f}" rx="10" fill="{fill}"/>\n'
        y = middle + size * 0.36
        yield _line(rank_range(row.rank_low, row.rank_high), y, size, _SOFT)
        name = _cut_inside(row.model, size, _BAR_START_PIXELS - _NAME_START_PIXELS - 24)
        yield _line(name, y, size, _INK + _HEAVY * (row.rank_low == 1), x=_NAME_START_PIXELS)
        if row.rating is None:
            continue
        yield _line(f"{row.rating:.0f}", y, size, _INK, end=True)
        if row.ci_low is not None and row.ci_high is not None:
            low, dot, high = (
                _BAR_START_PIXELS + (value - span[0]) * scale
                for value in (row.ci_low, row.rating, row.ci_high)
            )
            yield (
                f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{middle:.1f}" y2="{middle:.1f}" stroke="#1f5f8b" '
                f'stroke-width="6" stroke-linecap="round" stroke-opacity="0.45"/>'
                f'<circle cx="{dot:.1f}" cy="{middle:.1f}" r="9" {_BLUE}/>\n'
            )


def _cut_inside(name: str, size: float, width: float) -> str:
    """A name of at most this width: names of one family differ at their ends."""
    shown = name = escape_controls(name)
    while text_width(shown, size * _BOLD_RATIO) > width:
        kept = len(shown) // 2 - 1
        shown = f"{name[:kept]}…{name[-kept:]}"
    return shown


def _line(text: str, y: float, size: int, look: str, *, x: float = _MARGIN_PIXELS, end: bool = False) -> str:
    """One line of text that begins at ``x``, or ends at the right margin."""
    place = f'x="{_RIGHT_PIXELS}" text-anchor="end"' if end else f'x="{x:g}"'
    shown = sentence_html(text)
    shown = f"\u2067{shown}\u2069" if end and not text.isascii() else shown
    return f'<text {place} y="{y:.1f}" font-size="{size}" {look}>{shown}</text>\n'


def badge_text(run: SiteRun) -> str:
    """The result in a few words."""
    if run.comparison is not None:
        a, b = _name(run.comparison.name_a), _name(run.comparison.name_b)
        if run.comparison.decision == "same":
            return f"{b} and {a} are the same within ±{run.comparison.margin:.0f} points"
        if run.comparison.decision in {"undecided", "cannot tell"}:
            return f"{b} or {a}: undecided"
        if run.comparison.decision == "not worse":
            return f"{b} is not worse than {a} by more than {run.comparison.margin:.0f} points"
        return f"{b} is {run.comparison.decision} than {a}"
    board = headline_board(run)
    if board is None:
        return f"{len(run.boards)} boards by {_name(run.by or '')}" if run.boards else "no battle rated"
    return _first_place_text(first_place(board))


def _first_place_text(found: FirstPlace) -> str:
    if found.case in _NO_FIRST:
        return _NO_FIRST[found.case]
    among = f" of {found.ranked} ranked" if found.apart else ""
    if found.case == "first":
        return f"{_name(found.models[0])} is first{among}, settled"
    names = ", ".join(map(_name, found.models))
    if len(names) <= _SHARED_CHARACTERS and not among:
        return f"first place not settled: {names}"
    return f"first place not settled: {len(found.models)}{among}"


def _name(model: str) -> str:
    return cut_text(model, _BADGE_NAME_CHARACTERS)


def render_badge(run: SiteRun) -> str:
    """The badge as SVG; its title is the whole sentence, for screen readers."""
    return draw_badge(badge_text(run), f"{run.title}: {result_sentence(run)}")


def draw_badge(text: str, title: str) -> str:
    """A badge that says so, as SVG."""
    label, value = (text_width(part, _FONT_PIXELS) for part in (_LABEL, text))
    left, right = (round(width) + 2 * _PADDING_PIXELS for width in (label, value))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{_HEIGHT_PIXELS}" '
        f'viewBox="0 0 {left + right} {_HEIGHT_PIXELS}" role="img" aria-labelledby="title">\n'
        f'<title id="title">{text_html(title)}</title>\n'
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
