"""Renders the board in a terminal, and tables whose first columns are names: these are not broken, whatever the line's width."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from tiltyard.core.board import Board, RatedGroup, Row
from tiltyard.core.board.win_rates import BaselineWinRates
from tiltyard.core.ratings import Finding
from tiltyard.report.board_formats import (
    baseline_cells,
    baseline_heads,
    baseline_notes,
    baseline_title,
    has_rd,
    interval_text,
    left_out_sentence,
    model_text,
    rank_range,
    rating_text,
    settled_sentence,
    title_parts,
)
from tiltyard.report.escapes import escape_controls

COLUMN_GAP_CHARACTERS = 2
#: Names are shortened to fit the line, but never below this.
MIN_NAME_CHARACTERS = 8
#: Rather than below this, the other columns go to several tables.
_SHORT_NAME_CHARACTERS = 20
#: How much of a shortened name is its beginning; the next is tried where two names would become the same.
_HEAD_SHARES = (0.5, 0.7, 0.3, 0.9, 0.1)
#: The bar uses the width left by the other columns, within these limits.
_MAX_BAR_CHARACTERS, _MIN_BAR_CHARACTERS = 32, 8
#: Names up to this length are worth more than the record; longer ones are shortened before it gives way.
_WHOLE_NAME_CHARACTERS = 60
_RECORD = "won/lost/tied"


@dataclass(frozen=True)
class NameTable:
    """Rows of cells, of which the first ``names`` are names: the others stand beside them, or in tables below."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table | str]:
        columns = [list(map(escape_controls, cells)) for cells in zip(self.heads, *self.rows, strict=True)]
        names, others = columns[: self.names], columns[self.names :]
        widths = [_width(column) for column in others]
        room = options.max_width - sum(widths)
        if room < min(sum(map(_width, names)), _SHORT_NAME_CHARACTERS * len(names)):
            room = options.max_width - max(widths)
        room = max(room, MIN_NAME_CHARACTERS * len(names))
        shown = _fitted(names, room)
        left = options.max_width - sum(map(_width, shown))
        for number, block in enumerate(_blocks(others, left)):
            if number:
                yield ""
            yield _drawn(shown, block)


def _width(column: Sequence[str]) -> int:
    return max(map(cell_len, column)) + COLUMN_GAP_CHARACTERS


def _fitted(names: list[list[str]], room: int) -> list[list[str]]:
    """The columns of names within the room that they share: the widest gives way first."""
    widths = [_width(column) for column in names]
    while sum(widths) > room:
        widths[widths.index(max(widths))] -= 1
    return [
        short_names(column, width - COLUMN_GAP_CHARACTERS)
        for column, width in zip(names, widths, strict=True)
    ]


def _blocks(columns: list[list[str]], room: int) -> Iterator[list[list[str]]]:
    """The columns in as many parts as the room makes necessary."""
    block: list[list[str]] = []
    for column in columns:
        if block and sum(map(_width, [*block, column])) > room:
            yield block
            block = []
        block.append(column)
    yield block


def _drawn(names: list[list[str]], others: list[list[str]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, COLUMN_GAP_CHARACTERS, 0, 0), header_style="bold")
    for head, *_ in names:
        table.add_column(Text(head), overflow="fold")
    for head, *_ in others:
        table.add_column(Text(head), justify="right", overflow="fold")
    for cells in list(zip(*names, *others, strict=True))[1:]:
        table.add_row(*map(Text, cells))
    return table


def short_names(names: list[str], width: int) -> list[str]:
    """The names within this many cells, shortened in the middle; whole if two would become the same."""
    for head_share in _HEAD_SHARES:
        short = [_shortened(name, width, head_share) for name in names]
        if len(set(short)) == len(set(names)):
            return short
    return names


def _shortened(name: str, width: int, head_share: float) -> str:
    if cell_len(name) <= width:
        return name
    head = round((width - 1) * head_share)
    return f"{_prefix(name, head)}…{_prefix(name[::-1], width - 1 - head)[::-1]}"


def _prefix(text: str, width: int) -> str:
    """As many characters from the start as fit into this many cells."""
    taken = 0
    for place, character in enumerate(text):
        taken += cell_len(character)
        if taken > width:
            return text[:place]
    return text


class Terminal(Console):
    """Standard output or error. Text is printed literally: a model's name is not markup."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False)

    def on_broken_pipe(self) -> None:
        """Leave the exit code to the command line."""
        raise BrokenPipeError


def rated_lines(rated: RatedGroup, *, width: int, top: int | None = None) -> RenderableType:
    """The board or its first ``top`` rows, what is settled, the effects of style, and the findings."""
    parts: list[RenderableType] = [board_table(rated.board, rated.name, width=width, top=top)]
    if settled := settled_sentence(rated):
        parts += ["", escape_controls(settled)]
    if "style" in rated.ratings.extras:
        parts += ["", escape_controls(_style_line(rated))]
    if rated.board.baseline is not None:
        parts += ["", baseline_lines(rated.board.baseline, top)]
    if rated.board.findings:
        parts += ["", findings_list(rated.board.findings)]
    return Group(*parts)


def rated_text(rated: RatedGroup, *, width: int = 100) -> str:
    """The same as plain text."""
    console = Console(
        file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False, color_system=None
    )
    with console.capture() as captured:
        console.print(rated_lines(rated, width=width))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _style_line(rated: RatedGroup) -> str:
    errors = rated.ratings.extras.get("style_se", {})
    parts = [
        f"{name} {value:+.2f}" + (f" ± {1.96 * errors[name]:.2f}" if name in errors else "")
        for name, value in rated.ratings.extras["style"].items()
    ]
    return f"Style, in logits per unit of its spread: {', '.join(parts)}."


def board_table(
    board: Board, name: str | None = None, *, width: int = 100, top: int | None = None
) -> RenderableType:
    """Rating, interval as a bar, rank range, record, both-bad rate: one row per model."""
    title, left_out = _title(board, name), left_out_sentence(board, top)
    board = replace(board, rows=board.rows[:top])
    columns = _fitting_columns(board, width)
    left = _room(columns, width)
    bar = left - COLUMN_GAP_CHARACTERS
    if {"interval", _RECORD} <= set(columns) and bar >= _MIN_BAR_CHARACTERS:
        columns = _with_bar(columns, board, min(bar, _MAX_BAR_CHARACTERS))
    widths = _widths(columns)
    if left < 0:
        widths["model"] = max(widths["model"] + left, min(widths["model"], MIN_NAME_CHARACTERS))
        columns["model"] = short_names(columns["model"], widths["model"])
    parts: list[RenderableType] = [Text(title, style="bold"), "", _rows({}, widths)]
    for group, rows in groupby(range(len(board.rows)), key=lambda k: board.rows[k].group):
        if group != 0:
            indent = " " * (widths["#"] + COLUMN_GAP_CHARACTERS)
            heading = "no rating" if group is None else "not comparable with those above:"
            parts.append(Text(f"{indent}{heading}", style="dim italic"))
        chosen = list(rows)
        parts.append(_rows({head: [cells[k] for k in chosen] for head, cells in columns.items()}, widths))
    if left_out:
        parts.append(Text(left_out, style="dim italic"))
    return Group(*parts)


def _rows(columns: dict[str, list[str]], widths: dict[str, int]) -> Table:
    """Rows in columns of fixed width; the headings if there are no rows."""
    table = Table(
        box=None,
        pad_edge=False,
        padding=(0, COLUMN_GAP_CHARACTERS, 0, 0),
        header_style="bold",
        show_header=not columns,
    )
    for head, width in widths.items():
        plain = head in ("model", "interval", "")
        table.add_column(head, justify="left" if plain else "right", width=width, overflow="fold")
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*map(Text, cells))
    return table


def _fitting_columns(board: Board, width: int) -> dict[str, list[str]]:
    """The columns that leave room for the names: the record gives way first, then the both-bad rate."""
    # The text of every column except the bar, by heading.
    rows = board.rows
    columns = {
        "#": ["" if row.rank is None else str(row.rank) for row in rows],
        "model": [escape_controls(model_text(row)) for row in rows],
        "rating": [rating_text(row.rating) for row in rows],
    }
    if board.level is not None:
        columns["interval"] = [interval_text(row) for row in rows]
        columns["ranks"] = [rank_range(row.rank_low, row.rank_high) for row in rows]
    if has_rd(board):
        columns["RD"] = [rating_text(row.rd) for row in rows]
    columns[_RECORD] = [f"{row.wins}/{row.losses}/{row.ties}" for row in rows]
    columns["bad"] = ["–" if row.both_bad_rate is None else f"{row.both_bad_rate:.0%}" for row in rows]
    counted = {
        "battles" if head == _RECORD else head: [str(row.battles) for row in board.rows]
        if head == _RECORD
        else cells
        for head, cells in columns.items()
    }
    smaller = [_without(columns, _RECORD), _without(columns, _RECORD, "bad")]
    for tried in (columns, counted, *smaller):
        excess = max(_widths(tried)["model"] - _WHOLE_NAME_CHARACTERS, 0)
        if _room(tried, width) + excess >= 0:
            return tried
    return smaller[-1]


def _without(columns: dict[str, list[str]], *heads: str) -> dict[str, list[str]]:
    return {head: cells for head, cells in columns.items() if head not in heads}


def _room(columns: dict[str, list[str]], width: int) -> int:
    """What the columns leave of the line; negative if they do not fit."""
    return width - sum(_widths(columns).values()) - COLUMN_GAP_CHARACTERS * len(columns)


def _with_bar(columns: dict[str, list[str]], board: Board, width: int) -> dict[str, list[str]]:
    ends = [end for row in board.rows for end in (row.low, row.high) if end is not None]
    lowest, highest = (min(ends), max(ends)) if ends else (0.0, 1.0)
    bars = [interval_bar(row, lowest, highest, width) for row in board.rows]
    out: dict[str, list[str]] = {}
    for head, cells in columns.items():
        out[head] = cells
        if head == "interval":
            out[""] = bars
    return out


def _widths(columns: dict[str, list[str]]) -> dict[str, int]:
    return {head: max(cell_len(text) for text in (head, *cells)) for head, cells in columns.items()}


def _title(board: Board, name: str | None) -> str:
    parts = title_parts(board)
    if board.scope is not None:
        level = "battle-level " if board.clusters == "battle" else ""
        basis = "" if board.clusters == "battle" else f": {board.basis}"
        parts.append(f"{level}intervals for {board.scope}{basis}")
    title = " · ".join(parts)
    return title if name is None else f"{escape_controls(name)}: {title}"


def interval_bar(row: Row, lowest: float, highest: float, width: int) -> str:
    """The interval drawn to scale: ``──●──`` between the board's lowest and highest ends."""
    if row.low is None or row.high is None or row.rating is None:
        return ""
    scale = (width - 1) / max(highest - lowest, 1e-9)
    left, dot, right = (
        min(max(round((value - lowest) * scale), 0), width - 1) for value in (row.low, row.rating, row.high)
    )
    cells = [" "] * width
    cells[left : right + 1] = "─" * (right + 1 - left)
    cells[dot] = "●"
    return "".join(cells)


def findings_list(findings: tuple[Finding, ...]) -> RenderableType:
    """Findings, one paragraph each, with their names for reference."""
    lines = []
    for finding in findings:
        text = Text()
        text.append(f"{finding.name}: ", style="bold yellow")
        text.append(f"{escape_controls(finding.text)} ")
        text.append(escape_controls(finding.advice), style="italic")
        lines.append(text)
    return Group(*lines)


def baseline_lines(rates: BaselineWinRates, top: int | None = None) -> RenderableType:
    """The table under a board in a terminal, or its first ``top`` rows."""
    rates = replace(rates, rows=rates.rows[:top])
    notes = [escape_controls(note) for note in baseline_notes(rates)]
    return Group(
        Text(escape_controls(baseline_title(rates)), style="bold"),
        "",
        NameTable(baseline_heads(rates), list(baseline_cells(rates))),
        *(["", *notes] if notes else []),
    )
