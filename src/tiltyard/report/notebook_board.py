"""A board, or a comparison, as a fragment of HTML for a notebook.

Front ends differ in what they let through and in their colours, so the fragment has inline styles only, takes its
colour from the page and has no background.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tiltyard.core.board import Board, RatedGroup, Row
from tiltyard.core.board.win_rates import BaselineWinRates
from tiltyard.report.board_formats import (
    baseline_cells,
    baseline_heads,
    baseline_notes,
    baseline_title,
    has_rd,
    interval_text,
    model_text,
    rank_range,
    rating_text,
    settled_sentence,
    title_parts,
)
from tiltyard.report.html_parts import interval_svg, text_html

#: More rows than this are counted, not shown.
MAX_ROWS = 100
_CELL = "padding:2px 10px 2px 0;border:0;background:transparent;color:inherit;vertical-align:middle;white-space:nowrap"
_TIER_LINE = ";border-top:1px solid currentColor"
_BAR = 'width="160" height="16" style="display:block;max-width:none"'

#: The low end of an interval, what it is of, and its high end.
Ends = tuple[float, float, float]


def board_fragment(rated: RatedGroup, left_out: Sequence[str] = ()) -> str:
    """The table, what is settled, the findings, and what was left out of the input."""
    board = rated.board
    lines = [text for text in (settled_sentence(rated), *left_out) if text]
    notes = "".join(f'<p style="margin:4px 0">{text_html(line)}</p>\n' for line in lines)
    parts = title_parts(board)
    if board.level is not None:
        parts.append(f"{100 * board.level:g}% intervals for {board.scope} ({board.basis})")
    title = " · ".join(parts)
    items = "".join(
        f"<li><b>{text_html(one.name)}</b>: {text_html(one.text)} <i>{text_html(one.advice)}</i></li>\n"
        for one in board.findings
    )
    findings = f'<ul style="margin:4px 0">\n{items}</ul>\n' if items else ""
    return (
        f'<div style="color:inherit">\n<p style="margin:4px 0">{text_html(title)}</p>\n'
        f"{_table(board)}{notes}{findings}{_baseline(board.baseline)}</div>\n"
    )


def groups_fragment(groups: Sequence[RatedGroup]) -> str:
    """Further boards, closed: one line each."""
    return "".join(
        f'<details style="margin:4px 0"><summary>{text_html(rated.name or "")} · {rated.board.n_battles:,} '
        f"battles</summary>\n{board_fragment(rated)}</details>\n"
        for rated in groups
    )


def comparison_fragment(verdicts: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    """Verdicts, a table whose first row has its heads, and notes."""
    said = "".join(f'<p style="margin:4px 0"><b>{text_html(verdict)}</b></p>\n' for verdict in verdicts)
    items = "".join(f"<li>{text_html(note)}</li>\n" for note in notes)
    table = _text_table(rows, ["left"] * len(rows[0]))
    return f'<div style="color:inherit">\n{said}{table}<ul style="margin:4px 0">\n{items}</ul>\n</div>\n'


def frontier_fragment(points: Mapping[str, tuple[Ends, Ends]], caption: str) -> str:
    """Models by cost, as a share of the baseline's on a logarithmic axis, and by difference, each with both intervals."""
    costs = [0.0, *(math.log(end) for ends, _ in points.values() for end in ends)]
    gains = [0.0, *(end for _, ends in points.values() for end in ends)]
    width, height = (max(max(ends) - min(ends), 1e-9) for ends in (costs, gains))

    def place(cost: float, gain: float) -> tuple[float, float]:
        return 20 + 440 * (math.log(cost) - min(costs)) / width, 230 - 210 * (gain - min(gains)) / height

    x, y = place(1.0, 0.0)
    parts = [f'<path d="M{x:.1f} 10V240M10 {y:.1f}H470" stroke-dasharray="3"/>']
    for name, both in points.items():
        (left, low), (x, y), (right, high) = (place(*ends) for ends in zip(*both, strict=True))
        side, shift = ("end", -6) if x > 240 else ("start", 6)
        parts.append(
            f'<path d="M{left:.1f} {y:.1f}H{right:.1f}M{x:.1f} {low:.1f}V{high:.1f}"/>'
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="currentColor"/><text x="{x + shift:.1f}" y="{y - 6:.1f}" '
            f'text-anchor="{side}" fill="currentColor" stroke="none" font-size="12">{text_html(name)}</text>'
        )
    picture = 'viewBox="0 0 480 250" width="480" style="max-width:100%;display:block" fill="none" stroke="currentColor"'
    said = f'<p style="margin:4px 0">{text_html(caption)}</p>\n'
    return f'<svg aria-hidden="true" {picture}>{"".join(parts)}</svg>\n{said}'


def _table(board: Board) -> str:
    heads = _heads(board)
    head = "".join(
        f'<th style="{_CELL};text-align:{side};border-bottom:1px solid currentColor">{text_html(name)}</th>'
        for name, side in heads
    )
    ends = [end for row in board.rows for end in (row.low, row.high) if end is not None]
    span = (min(ends), max(ends)) if ends else (0.0, 1.0)
    body: list[str] = []
    before: Row | None = None
    for row in board.rows[:MAX_ROWS]:
        if before is not None and row.group != before.group:
            words = "no rating" if row.group is None else "not comparable with those above"
            body.append(
                f'<tr style="background:transparent"><td colspan="{len(heads)}" style="{_CELL};text-align:left">'
                f"<i>{words}</i></td></tr>\n"
            )
        line = before is not None and row.group == before.group and row.tier != before.tier
        body.append(_row(row, board, span, [side for _, side in heads], line=line))
        before = row
    rest = len(board.rows) - MAX_ROWS
    more = f'<p style="margin:4px 0">{rest:,} more models: to_pandas() has all.</p>\n' if rest > 0 else ""
    return (
        '<table style="border-collapse:collapse;border:0;background:transparent;color:inherit;margin:4px 0">\n'
        f'<thead><tr style="background:transparent">{head}</tr></thead>\n<tbody>\n{"".join(body)}</tbody>\n</table>\n{more}'
    )


def _heads(board: Board) -> list[tuple[str, str]]:
    """Headings, and the side on which their columns are aligned."""
    heads = [("", "right"), ("Model", "left"), ("Rating", "right")]
    if board.level is not None:
        heads += [("Interval", "right"), ("", "left"), ("Ranks", "right"), ("Tier", "right")]
    if has_rd(board):
        heads.append(("RD", "right"))
    return [*heads, ("Won", "right"), ("Lost", "right"), ("Tied", "right"), ("Both bad", "right")]


def _row(row: Row, board: Board, span: tuple[float, float], sides: list[str], *, line: bool) -> str:
    cells = ["" if row.rank is None else str(row.rank), text_html(model_text(row)), rating_text(row.rating)]
    if board.level is not None:
        bar = interval_svg((row.low, row.rating, row.high), span, _BAR)
        cells += [
            interval_text(row),
            bar,
            rank_range(row.rank_low, row.rank_high),
            "" if row.tier is None else str(row.tier),
        ]
    if has_rd(board):
        cells.append(rating_text(row.rd))
    rate = "" if row.both_bad_rate is None else f"{row.both_bad_rate:.0%}"
    cells += [f"{row.wins:,}", f"{row.losses:,}", f"{row.ties:,}", rate]
    style = _CELL + (_TIER_LINE if line else "")
    return (
        '<tr style="background:transparent">'
        + "".join(
            f'<td style="{style};text-align:{side}">{cell}</td>'
            for side, cell in zip(sides, cells, strict=True)
        )
        + "</tr>\n"
    )


def _baseline(rates: BaselineWinRates | None) -> str:
    if rates is None:
        return ""
    heads, rows = baseline_heads(rates), baseline_cells(rates)[:MAX_ROWS]
    sides = ["left" if head == "model" else "right" for head in heads]
    table = _text_table([heads, *rows], sides)
    above, *below = (
        f'<p style="margin:4px 0">{text_html(text)}</p>\n'
        for text in (baseline_title(rates), *baseline_notes(rates))
    )
    return f"{above}{table}{''.join(below)}"


def _text_table(rows: Sequence[Sequence[str]], sides: Sequence[str]) -> str:
    lines = "".join(f'<tr style="background:transparent">{_texts(cells, sides)}</tr>\n' for cells in rows)
    return f'<table style="border-collapse:collapse;border:0;background:transparent;color:inherit">\n{lines}</table>\n'


def _texts(cells: Sequence[str], sides: Sequence[str]) -> str:
    return "".join(
        f'<td style="{_CELL};text-align:{side}">{text_html(cell)}</td>'
        for side, cell in zip(sides, cells, strict=True)
    )
