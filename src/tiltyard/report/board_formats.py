"""Boards as Markdown, LaTeX and CSV: the cells of their rows, and the table against a baseline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from tiltyard.core.board import Board, RatedGroup, Row
from tiltyard.core.board.win_rates import BaselineRow, BaselineRule, BaselineWinRates
from tiltyard.core.ratings.ranks import Flip
from tiltyard.core.ratings.result import speaks_of_these_voters
from tiltyard.report.escapes import csv_text, escape_controls, markdown_text
from tiltyard.report.html_parts import section_html, table_html, text_html

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
