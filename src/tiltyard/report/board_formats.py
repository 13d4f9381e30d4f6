"""Boards as Markdown, LaTeX, CSV and HTML for notebooks: the cells of their rows, and the table against a baseline."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from tiltyard.core.board import Board, RatedGroup, Row
from tiltyard.core.board.win_rates import BaselineRow, BaselineRule, BaselineWinRates
from tiltyard.core.ratings.ranks import Flip
from tiltyard.core.ratings.result import speaks_of_these_voters
from tiltyard.report.escapes import csv_text, escape_controls, markdown_text
from tiltyard.report.html_parts import interval_svg, section_html, table_html, text_html

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "–": "--",
}

_TITLES = {"bradley-terry": "Bradley–Terry", "elo": "Elo", "glicko-2": "Glicko-2"}
#: How many of the models that may be first a sentence names.
_NAMED_MODELS = 3
#: How many of the models with one note are named.
_LISTED_MODELS = 10
_RULES: dict[BaselineRule, str] = {
    "battles": "a tie counts half",
    "arena-hard": "each game counts, A>>B three times, as arena-hard counts",
    "alpaca-eval": "mean preference, as alpaca_eval counts",
}
_LENGTH_CONTROLLED = "LC: length-controlled, what the win rate would be if both answers were equally long."

#: More rows than this are counted, not shown.
MAX_ROWS = 100
_CELL = "padding:2px 10px 2px 0;border:0;background:transparent;color:inherit;vertical-align:middle;white-space:nowrap"
_TIER_LINE = ";border-top:1px solid currentColor"
_BAR = 'width="160" height="16" style="display:block;max-width:none"'

#: The low end of an interval, what it is of, and its high end.
Ends = tuple[float, float, float]


def board_markdown(board: Board) -> str:
    """A table for a README or a comment."""
    columns = _columns(board, markdown_text)
    rule = ["---" if name == "Model" else "--:" for name in columns]
    rows = [list(columns), rule, *(list(cells) for cells in zip(*columns.values(), strict=True))]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def board_latex(board: Board) -> str:
    """A ``tabular`` for a paper; it needs the package booktabs."""
    columns = _columns(board, latex_text)
    shape = "".join("l" if name == "Model" else "r" for name in columns)
    body = "".join(f"{' & '.join(cells)} \\\\\n" for cells in zip(*columns.values(), strict=True))
    head = " & ".join(latex_text(name) for name in columns)
    return (
        f"% \\usepackage{{booktabs}}\n\\begin{{tabular}}{{{shape}}}\n\\toprule\n{head} \\\\\n\\midrule\n"
        f"{body}\\bottomrule\n\\end{{tabular}}\n"
    )


def boards_markdown(groups: Sequence[RatedGroup]) -> str:
    """One table for each group, under a heading with its name if it has one."""
    return "\n".join(
        ("" if rated.name is None else f"## {markdown_text(rated.name)}\n\n")
        + board_markdown(rated.board)
        + (f"\n{markdown_text(said)}\n" if (said := preferred_sentence(rated)) else "")
        for rated in groups
    )


def boards_latex(groups: Sequence[RatedGroup]) -> str:
    """One ``tabular`` for each group, in a ``table`` with its name as the caption if it has one."""
    return "\n".join(
        board_latex(rated.board)
        if rated.name is None
        else f"\\begin{{table}}\n\\caption{{{latex_text(rated.name)}}}\n{board_latex(rated.board)}\\end{{table}}\n"
        for rated in groups
    )


def boards_csv(groups: Sequence[RatedGroup]) -> str:
    """The rows of all groups, below one header, unrounded; an empty field is a value that the battles do not give."""
    columns = boards_columns(groups)
    return csv_text(columns, zip(*columns.values(), strict=True))


def boards_columns(groups: Sequence[RatedGroup]) -> dict[str, list[Any]]:
    """The rows of all groups as plain lists by column; the first, ``by``, names the group if there are groups."""
    boards = [rated.board for rated in groups]
    joined = replace(
        boards[0], rows=tuple(chain.from_iterable(board.rows for board in boards)), baseline=None
    )
    parts = [board.to_columns() for board in boards]
    # Groups may lack columns, such as win rates; the part with most of them gives their order.
    names = dict.fromkeys(chain(joined.to_columns(), *sorted(parts, key=len, reverse=True)))
    columns = {
        name: [
            value
            for board, part in zip(boards, parts, strict=True)
            for value in part.get(name, [None] * len(board.rows))
        ]
        for name in names
    }
    if groups[0].name is None:
        return columns
    return {"by": [rated.name for rated in groups for _ in rated.board.rows], **columns}


def _columns(board: Board, escaped: Callable[[str], str]) -> dict[str, list[str]]:
    """The texts of the columns, by heading; a group is named only if there are several."""
    rows = board.rows
    columns = {
        "Rank": ["" if row.rank is None else str(row.rank) for row in rows],
        "Model": [model_text(row) for row in rows],
        "Rating": [rating_text(row.rating) for row in rows],
    }
    if board.level is not None:
        columns[f"{100 * board.level:g}% interval"] = [interval_text(row) for row in rows]
        columns["Ranks"] = [rank_range(row.rank_low, row.rank_high) for row in rows]
        columns["Tier"] = ["" if row.tier is None else str(row.tier) for row in rows]
    if has_rd(board):
        columns["RD"] = [rating_text(row.rd) for row in rows]
    if len({row.group for row in rows if row.group is not None}) > 1:
        columns["Group"] = ["" if row.group is None else str(row.group + 1) for row in rows]
    columns["Battles"] = [str(row.battles) for row in rows]
    return {head: [escaped(text) for text in texts] for head, texts in columns.items()}


def latex_text(text: str) -> str:
    """Escape text for LaTeX."""
    return "".join(_LATEX.get(letter, letter) for letter in escape_controls(text))


def method_title(name: str) -> str:
    return _TITLES.get(name, name)


def title_parts(board: Board) -> list[str]:
    """Method, battles and models."""
    rated = sum(row.group is not None for row in board.rows)
    return [method_title(board.method.name), _counted(board.n_battles, "battle"), _counted(rated, "model")]


def has_rd(board: Board) -> bool:
    """Whether ratings have a deviation, as those of Glicko-2."""
    return any(row.rd is not None for row in board.rows)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def model_text(row: Row) -> str:
    return row.model if row.placed is None else f"{row.model} ({row.placed})"


def rating_text(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}"


def interval_text(row: Row) -> str:
    if row.low is None or row.high is None:
        return ""
    return f"{row.low:.0f} – {row.high:.0f}"


def rank_range(low: int | None, high: int | None) -> str:
    """The ranks that are not ruled out: ``1–3``, or ``2`` if there is only one."""
    if low is None:
        return ""
    return str(low) if low == high else f"{low}–{high}"


def flip_sentence(flips: Sequence[Flip]) -> str:
    """How few battles, prompts and voters the first row depends on; empty where that is unknown."""
    if not flips:
        return ""
    nouns = {"vote": "battles", "prompt": "prompts", "voter": "voters"}
    listed = "; ".join(
        f"{flip.count:,} of {flip.of:,} {nouns[flip.unit]} ({escape_controls(flip.rival)})" for flip in flips
    )
    return (
        f"{escape_controls(flips[0].first)} is in the first row. Leaving these out would put another model there: "
        f"{listed}. This says how near the ratings are, not whether their order is settled."
    )


def left_out_sentence(board: Board, top: int | None) -> str:
    """How many models are below the first ``top`` that are shown; empty if none is."""
    below = 0 if top is None else max(len(board.rows) - top, 0)
    return (
        f"{below:,} more model{'s' if below > 1 else ''} of {len(board.rows):,} not shown." if below else ""
    )


def settled_sentence(rated: RatedGroup) -> str:
    """How much of the order is settled, and whether first place is; empty where nothing can be said."""
    ranks, rows = rated.ranks, [row for row in rated.board.rows if row.group == 0]
    if ranks is None or len(rows) < 2:
        return ""
    if preferred := preferred_sentence(rated):
        return preferred
    together = rated.ratings.group == 0
    settled = int(np.asarray(ranks.above)[np.ix_(together, together)].sum())
    orders = int(together.sum() * (together.sum() - 1)) // 2
    if not settled:
        return f"No order is settled: none of {orders:,} pairs of models, at {100 * ranks.level:g}%."
    said = f"The order of {settled:,} of {orders:,} pairs of models is settled, all at once at {100 * ranks.level:g}%."
    return f"{said} {first_place_text([row.model for row in rows if row.rank_low == 1], _NAMED_MODELS)}"


def preferred_sentence(rated: RatedGroup) -> str:
    """What a few people prefer, whose votes say nothing of others; empty where intervals do not speak of them alone."""
    board, first = rated.board, [row for row in rated.board.rows if row.group == 0 and row.rank_low == 1]
    if not first or not speaks_of_these_voters(board.scope or ""):
        return ""
    preferred = first[0].model if len(first) == 1 else f"none of {len(first)} models that may be first"
    return f"These voters prefer {preferred} (at {100 * (board.level or 0.0):g}%). No order is claimed for other voters."


def first_place_text(models: Sequence[str], most: int) -> str:
    """Whether first place is settled, from those that may be first; so many are named."""
    if len(models) == 1:
        return f"First place is settled: {models[0]}."
    named, more = models[:most], len(models) - most
    listed = [*named, f"{more} more"] if more > 0 else named
    return f"First place is not settled between {', '.join(listed[:-1])} and {listed[-1]}."


def baseline_title(rates: BaselineWinRates) -> str:
    """What the numbers are, how battles count, and what the intervals speak of."""
    parts = [f"Win rate against {rates.baseline}, in %", _RULES[rates.rule]]
    if rates.level is not None:
        parts.append(f"{100 * rates.level:g}% intervals for {rates.scope}")
    return " · ".join(parts)


def baseline_heads(rates: BaselineWinRates) -> list[str]:
    interval = [] if rates.level is None else ["interval"]
    controlled = ["LC win rate", *interval] if rates.has_lengths else []
    return ["model", "win rate", *interval, *controlled, "battles", "prompts"]


def baseline_cells(rates: BaselineWinRates) -> list[list[str]]:
    """The texts of each row; a dash is a number that the battles do not give."""
    return [_cells(row, rates) for row in rates.rows]


def _cells(row: BaselineRow, rates: BaselineWinRates) -> list[str]:
    cells = [row.model, _percent(row.win_rate)]
    if rates.level is not None:
        cells.append(_range(row.win_rate_low, row.win_rate_high))
    if rates.has_lengths:
        cells.append(_percent(row.length_controlled))
        if rates.level is not None:
            cells.append(_range(row.length_controlled_low, row.length_controlled_high))
    return [*cells, f"{row.battles:,}", "–" if row.prompts is None else f"{row.prompts:,}"]


def baseline_notes(rates: BaselineWinRates) -> list[str]:
    """Why numbers are missing, each reason with its models, and what a heading means."""
    models: dict[str, list[str]] = {}
    for row in rates.rows:
        for note in row.notes:
            models.setdefault(note, []).append(row.model)
    notes = [f"{_named(names)}: {note}." for note, names in models.items()]
    return [*notes, _LENGTH_CONTROLLED] if rates.has_lengths else notes


def _named(names: list[str]) -> str:
    more = len(names) - _LISTED_MODELS
    return ", ".join(names[:_LISTED_MODELS]) + (f" and {more} more" if more > 0 else "")


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def _range(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"{100 * low:.1f} – {100 * high:.1f}"


def baseline_html(rates: BaselineWinRates | None, name: str) -> str:
    """The section of a report; nothing where there is no baseline."""
    if rates is None:
        return ""
    heads = [head[0].upper() + head[1:] for head in baseline_heads(rates)]
    notes = "".join(f"<p><small>{text_html(note)}</small></p>\n" for note in baseline_notes(rates))
    lede = f"<p>{text_html(baseline_title(rates))}</p>\n"
    return section_html(
        name, "Win rate against a baseline", lede, table_html(heads, baseline_cells(rates)), notes
    )


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
