"""Tables of a terminal whose first columns are names: these are not broken, whatever the width of the line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text

from tiltyard.report.escapes import escape_controls

COLUMN_GAP_CHARACTERS = 2
#: Names are shortened to fit the line, but never below this.
MIN_NAME_CHARACTERS = 8
#: Rather than below this, the other columns go to several tables.
_SHORT_NAME_CHARACTERS = 20
#: How much of a shortened name is its beginning; the next is tried where two names would become the same.
_HEAD_SHARES = (0.5, 0.7, 0.3, 0.9, 0.1)


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
