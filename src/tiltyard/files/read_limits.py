"""Limits of what is read from files that nobody vouches for. Real files stay far below them.

`docs/reference/formats.md` lists them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, AnyStr

from tiltyard.errors import UnreadableFile

#: A line of JSON Lines or CSV, a field of CSV, and a cell.
LINE_BYTES = 1 << 26
#: A value in a JSON document.
JSON_VALUE_BYTES = 1 << 28
#: Levels of a JSON value, and its lists and objects.
JSON_DEPTH_LIMIT = 200
JSON_PART_LIMIT = 1_000_000
#: What is compressed may expand to so many times its size, and to so much in any case.
EXPANSION_RATIO = 100
EXPANSION_FLOOR_BYTES = 1 << 26
#: The same of values that Parquet repeats by number: they are delivered once for each row.
DELIVERED_FLOOR_BYTES = 1 << 30
#: A zip archive: a member, all of them, how many there are, and what is read of it (or of a tar archive) in one piece.
MEMBER_BYTES = JSON_VALUE_BYTES
ARCHIVE_BYTES = 1 << 36
MEMBER_LIMIT = 1_000_000
ARCHIVE_READ_BYTES = 1 << 26
#: A Parquet file: its footer, and a page as it is stored and as it is unpacked.
FOOTER_BYTES = 1 << 26
PAGE_BYTES = 1 << 29
#: Rows that it may have whatever its size, and for each of its bytes: equal values take next to no space.
ROW_FLOOR_LIMIT = 1 << 20
ROWS_PER_BYTE_LIMIT = 8
#: A workbook: cells of a sheet from the first to the last row and column, texts; levels of its XML, which has under ten.
SHEET_CELLS = 5_000_000
XML_DEPTH_LIMIT = 64


def is_bomb(size: int, packed: int, floor: int = EXPANSION_FLOOR_BYTES) -> bool:
    """Whether so few bytes must not expand to so many."""
    return size > max(floor, EXPANSION_RATIO * packed)


def check_expansion(where: str, size: int, packed: int, advice: str) -> None:
    """Raise if so few bytes expand to so many."""
    if is_bomb(size, packed):
        raise UnreadableFile(
            f"{where}: expands to more than {EXPANSION_RATIO} times its {format_bytes(packed)}; {advice}"
        )


def bounded_lines(name: str, stream: IO[AnyStr]) -> Iterator[AnyStr]:
    """The lines of a stream of bytes or text; raises at one that is too long, before it is in memory."""
    number = 0
    while line := stream.readline(LINE_BYTES + 1):
        number += 1
        if len(line) > LINE_BYTES:
            raise UnreadableFile(
                f"{name}, line {number}: longer than {format_bytes(LINE_BYTES)}; split it, or check that it is text"
            )
        yield line


def format_bytes(size: int) -> str:
    """A size in the largest binary unit that leaves a whole number, or in bytes."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size:,} bytes"
