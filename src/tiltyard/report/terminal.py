"""Renders the board in a terminal."""

from __future__ import annotations

from itertools import groupby

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from tiltyard.core.board import Board, Row
from tiltyard.core.ratings import Finding
from tiltyard.core.ratings.flips import Flip
from tiltyard.report.terminal_escape import escape_controls

__all__ = [
    "Terminal",
    "board_table",
    "findings_list",
    "flip_sentence",
    "interval_bar",
    "method_title",
]

#: The bar uses the width left by the other columns, within these limits.
_MAX_BAR_CHARACTERS, _MIN_BAR_CHARACTERS = 32, 8
#: Columns too wide for the line are wrapped, but never narrower than this.
_MIN_NAME_CHARACTERS = 8
_COLUMN_GAP_CHARACTERS = 2
_TITLES = {"bradley-terry": "Bradley–Terry", "elo": "Elo", "glicko-2": "Glicko-2"}


class Terminal(Console):
    """Standard output. Text is printed literally: a model's name is not markup."""

    def __init__(self) -> None:
        super().__init__(highlight=False, markup=False, emoji=False)

    def on_broken_pipe(self) -> None:
        """Leave the exit code to the command line."""
        raise BrokenPipeError


def method_title(name: str) -> str:
    return _TITLES.get(name, name)


def board_table(board: Board, name: str | None = None, *, width: int = 100) -> RenderableType:
    """Rating, interval as a bar, rank range, record, both-bad rate: one row per model."""
    columns = _columns(board)
    left = width - sum(_widths(columns).values()) - _COLUMN_GAP_CHARACTERS * len(columns)
    if "interval" in columns and left - _COLUMN_GAP_CHARACTERS >= _MIN_BAR_CHARACTERS:
        columns = _with_bar(columns, board, min(left - _COLUMN_GAP_CHARACTERS, _MAX_BAR_CHARACTERS))
    widths = _widths(columns)
    if left < 0:
        widths["model"] = max(widths["model"] + left, min(widths["model"], _MIN_NAME_CHARACTERS))
    parts: list[RenderableType] = [Text(_title(board, name), style="bold"), "", _rows({}, widths)]
    for group, rows in groupby(range(len(board.rows)), key=lambda k: board.rows[k].group):
        if group != 0:
            indent = " " * (widths["#"] + _COLUMN_GAP_CHARACTERS)
            parts.append(Text(f"{indent}{_group_heading(group)}", style="dim italic"))
        chosen = list(rows)
        parts.append(_rows({head: [cells[k] for k in chosen] for head, cells in columns.items()}, widths))
    return Group(*parts)


def _rows(columns: dict[str, list[str]], widths: dict[str, int]) -> Table:
    """Rows in columns of fixed width; the headings if there are no rows."""
    table = Table(
        box=None,
        pad_edge=False,
        padding=(0, _COLUMN_GAP_CHARACTERS, 0, 0),
        header_style="bold",
        show_header=not columns,
    )
    for head, width in widths.items():
        plain = head in ("model", "interval", "")
        table.add_column(head, justify="left" if plain else "right", width=width, overflow="fold")
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*map(Text, cells))
    return table


def _columns(board: Board) -> dict[str, list[str]]:
    """The text of every column except the bar, by heading."""
    rows = board.rows
    columns = {
        "#": ["" if row.rank is None else str(row.rank) for row in rows],
        "model": [escape_controls(row.model) for row in rows],
        "rating": ["–" if row.rating is None else f"{row.rating:.0f}" for row in rows],
    }
    if board.level is not None:
        columns["interval"] = [_interval(row) for row in rows]
        columns["ranks"] = [_ranks(row) for row in rows]
    if any(row.rd is not None for row in rows):
        columns["RD"] = ["–" if row.rd is None else f"{row.rd:.0f}" for row in rows]
    columns["won/lost/tied"] = [f"{row.wins}/{row.losses}/{row.ties}" for row in rows]
    columns["bad"] = ["–" if row.both_bad_rate is None else f"{row.both_bad_rate:.0%}" for row in rows]
    return columns


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
    rated = sum(row.rank is not None for row in board.rows)
    parts = [method_title(board.method.name), f"{board.n_battles:,} battles", f"{rated} models"]
    if board.scope is not None:
        level = "battle-level " if board.clusters == "battle" else ""
        basis = "" if board.clusters == "battle" else f": {board.basis}"
        parts.append(f"{level}intervals for {board.scope}{basis}")
    title = " · ".join(parts)
    return title if name is None else f"{escape_controls(name)}: {title}"


def _group_heading(group: int | None) -> str:
    return "no rating" if group is None else "not comparable with those above:"


def _interval(row: Row) -> str:
    if row.low is None or row.high is None:
        return ""
    return f"{row.low:.0f} – {row.high:.0f}"


def _ranks(row: Row) -> str:
    if row.rank_low is None:
        return ""
    return str(row.rank_low) if row.rank_low == row.rank_high else f"{row.rank_low}–{row.rank_high}"


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


def flip_sentence(flip: Flip) -> str:
    """How many battles the first place depends on."""
    share = flip.votes / flip.of
    return (
        f"First place: leaving out {flip.votes:,} of {flip.of:,} battles ({share:.2%}) "
        f"would put {escape_controls(flip.rival)} above {escape_controls(flip.first)}."
    )
