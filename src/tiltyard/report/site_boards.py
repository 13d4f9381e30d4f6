"""Published runs as a site shows them, and their badge and card as SVG."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tiltyard.core.ratings.findings import Finding
from tiltyard.report.ab_report import ABReport
from tiltyard.report.board_charts import charts_available
from tiltyard.report.board_formats import first_place_text
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
_INNER_PIXELS = CARD_WIDTH_PIXELS - 2 * _MARGIN_PIXELS
_ROW_COUNT = 5
_ROW_PIXELS = 44
_NAME_CHARACTERS = 36
#: The last line.
_COUNTS_PIXELS = 590
#: Where the bars begin and end.
_BAR_START_PIXELS, _BAR_END_PIXELS = 700.0, 1136.0
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


def render_card(run: SiteRun) -> str:
    """The card of a run as SVG: title, result, and the first models with their intervals."""
    return _card(f"{run.title}: {result_sentence(run)}", _parts(run))


def render_board_card(title: str, sentence: str, rows: Sequence[SiteRow], counts: str) -> str:
    """The card of an arena's board as SVG: title, who is first, and the first models with their ranks and intervals."""
    return _card(f"{title}: {sentence}", _board_parts(title, sentence, rows[:_ROW_COUNT], counts))


def _card(label: str, parts: Iterable[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{CARD_WIDTH_PIXELS}" height="{CARD_HEIGHT_PIXELS}" '
        f'viewBox="0 0 {CARD_WIDTH_PIXELS} {CARD_HEIGHT_PIXELS}" role="img" aria-labelledby="title">\n'
        f'<title id="title">{text_html(label)}</title>\n'
        f'<rect width="{CARD_WIDTH_PIXELS}" height="{CARD_HEIGHT_PIXELS}" fill="#fcfcfa"/>\n'
        f'<rect width="{CARD_WIDTH_PIXELS}" height="12" fill="#2f6f8f"/>\n'
        f'<g font-family="{text_html(FONT_FAMILY)}" fill="#1d2328">\n{"".join(parts)}</g>\n</svg>\n'
    )


def card_png(svg: str) -> bytes | None:
    """The card as PNG, which most sites need; ``None`` without the extra ``plots``."""
    if not charts_available():
        return None
    import vl_convert

    return bytes(vl_convert.svg_to_png(svg))


def _parts(run: SiteRun) -> Iterator[str]:
    y = 88.0
    for line in wrap_text(run.title, 44, _INNER_PIXELS, 1):
        yield _line(line, y, 44, bold=True)
    y += 24
    for line in wrap_text(result_sentence(run), 30, _INNER_PIXELS, 3):
        y += 40
        yield _line(line, y, 30)
    board = headline_board(run)
    if run.comparison is not None:
        for line in wrap_text(run.comparison.numbers, 24, _INNER_PIXELS, 3):
            y += 40
            yield _line(line, y, 24, soft=True)
    elif board is not None:
        yield from _rows(board.rows[:_ROW_COUNT], y + 70)
    counts = [f"{run.battles:,} battles", f"{run.models:,} models"]
    counts += [] if run.prompts is None else [f"{run.prompts:,} prompts"]
    yield _line(" · ".join((*counts, "recompute it with tiltyard verify")), _COUNTS_PIXELS, 22, soft=True)


def _board_parts(title: str, sentence: str, rows: Sequence[SiteRow], counts: str) -> Iterator[str]:
    y = 88.0
    for line in wrap_text(title, 36, _INNER_PIXELS, 1):
        yield _line(line, y, 36, soft=True)
    y += 16
    for line in wrap_text(sentence, 40, _INNER_PIXELS, 4):
        y += 50
        yield _line(line, y, 40, bold=True)
    room = int((_COUNTS_PIXELS - 40 - y - 60) // _ROW_PIXELS)
    yield from _rows(
        [replace(row, model=f"{_ranks(row)}   {row.model}") for row in rows[: max(room, 0)]], y + 60
    )
    yield _line(counts, _COUNTS_PIXELS, 22, soft=True)


def _ranks(row: SiteRow) -> str:
    if row.rank_low is None:
        return "–"
    return str(row.rank_low) if row.rank_low == row.rank_high else f"{row.rank_low}–{row.rank_high}"


def _rows(rows: Sequence[SiteRow], y: float) -> Iterator[str]:
    ends = [end for row in rows for end in (row.ci_low, row.ci_high) if end is not None]
    span = (min(ends), max(ends)) if ends else (0.0, 1.0)
    scale = (_BAR_END_PIXELS - _BAR_START_PIXELS) / max(span[1] - span[0], 1e-9)
    for row in rows:
        yield _line(cut_text(row.model, _NAME_CHARACTERS), y, 24)
        if row.rating is not None:
            yield (
                f'<text x="{_BAR_START_PIXELS - 24:g}" y="{y:g}" font-size="24" text-anchor="end">'
                f"{row.rating:.0f}</text>\n"
            )
        if row.rating is not None and row.ci_low is not None and row.ci_high is not None:
            low, dot, high = (
                _BAR_START_PIXELS + (value - span[0]) * scale
                for value in (row.ci_low, row.rating, row.ci_high)
            )
            yield (
                f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y - 8:g}" y2="{y - 8:g}" stroke="#2f6f8f" stroke-width="4"/>'
                f'<circle cx="{dot:.1f}" cy="{y - 8:g}" r="8" fill="#2f6f8f"/>\n'
            )
        y += _ROW_PIXELS


def _line(text: str, y: float, size: int, *, bold: bool = False, soft: bool = False) -> str:
    style = (' font-weight="bold"' if bold else "") + (' fill="#5d6870"' if soft else "")
    return f'<text x="{_MARGIN_PIXELS}" y="{y:g}" font-size="{size}"{style}>{sentence_html(text)}</text>\n'


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
