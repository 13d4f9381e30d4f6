"""The card of a published run or of an arena's board, 1200 by 630 pixels: what other sites show beside a link to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tiltyard.report.board_charts import charts_available
from tiltyard.report.html_parts import sentence_html, text_html
from tiltyard.report.site_boards import SiteRow, SiteRun, headline_board, result_sentence
from tiltyard.report.svg_text import FONT_FAMILY, cut_text, wrap_text

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
    ends = [end for row in rows for end in (row.low, row.high) if end is not None]
    span = (min(ends), max(ends)) if ends else (0.0, 1.0)
    scale = (_BAR_END_PIXELS - _BAR_START_PIXELS) / max(span[1] - span[0], 1e-9)
    for row in rows:
        yield _line(cut_text(row.model, _NAME_CHARACTERS), y, 24)
        if row.rating is not None:
            yield (
                f'<text x="{_BAR_START_PIXELS - 24:g}" y="{y:g}" font-size="24" text-anchor="end">'
                f"{row.rating:.0f}</text>\n"
            )
        if row.rating is not None and row.low is not None and row.high is not None:
            low, dot, high = (
                _BAR_START_PIXELS + (value - span[0]) * scale for value in (row.low, row.rating, row.high)
            )
            yield (
                f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y - 8:g}" y2="{y - 8:g}" stroke="#2f6f8f" stroke-width="4"/>'
                f'<circle cx="{dot:.1f}" cy="{y - 8:g}" r="8" fill="#2f6f8f"/>\n'
            )
        y += _ROW_PIXELS


def _line(text: str, y: float, size: int, *, bold: bool = False, soft: bool = False) -> str:
    style = (' font-weight="bold"' if bold else "") + (' fill="#5d6870"' if soft else "")
    return f'<text x="{_MARGIN_PIXELS}" y="{y:g}" font-size="{size}"{style}>{sentence_html(text)}</text>\n'
