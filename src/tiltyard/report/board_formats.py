"""Boards as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from tiltyard.core.board import Board, RatedGroup
from tiltyard.report.board_cells import interval_text, model_text, rank_range, rating_text
from tiltyard.report.markdown_escape import markdown_text
from tiltyard.report.terminal_escape import escape_controls

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
        ("" if rated.name is None else f"## {markdown_text(rated.name)}\n\n") + board_markdown(rated.board)
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
    return _csv(boards_columns(groups))


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


def _csv(columns: Mapping[str, Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


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
    if any(row.rd is not None for row in rows):
        columns["RD"] = [rating_text(row.rd) for row in rows]
    if len({row.group for row in rows if row.group is not None}) > 1:
        columns["Group"] = ["" if row.group is None else str(row.group + 1) for row in rows]
    columns["Battles"] = [str(row.battles) for row in rows]
    return {head: [escaped(text) for text in texts] for head, texts in columns.items()}


def latex_text(text: str) -> str:
    """Escape text for LaTeX."""
    return "".join(_LATEX.get(letter, letter) for letter in escape_controls(text))
