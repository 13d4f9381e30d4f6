"""Detects a file's container by its first bytes, and its format by its columns."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from tiltyard.errors import BadOption, UnknownFormat, UnreadableFile
from tiltyard.files.alpaca_eval import ALPACA_EVAL
from tiltyard.files.arena_hard import ARENA_HARD
from tiltyard.files.autoarena import AUTOARENA
from tiltyard.files.canonical_columns import REQUIRED
from tiltyard.files.comparia import COMPARIA_TURNS, COMPARIA_VOTES
from tiltyard.files.csv_records import CsvRecords
from tiltyard.files.fastchat import FASTCHAT
from tiltyard.files.format import BattleFormat
from tiltyard.files.input_file import InputFile, open_input, translate_read_errors
from tiltyard.files.json_records import JsonLinesRecords, JsonListRecords
from tiltyard.files.judgearena import JUDGEARENA
from tiltyard.files.lmarena import LMARENA_55K, LMARENA_100K, LMARENA_140K
from tiltyard.files.mt_bench import MT_BENCH
from tiltyard.files.native import OWN, is_native, native_format
from tiltyard.files.other_tables import explain_table
from tiltyard.files.parquet_records import ParquetRecords
from tiltyard.files.records import Record, Records
from tiltyard.files.winner_loser import WINNER_LOSER
from tiltyard.foundation.option_names import option_name

__all__ = [
    "FORMATS",
    "column_option",
    "detect",
    "find_format",
    "foreign_formats",
    "matching_formats",
    "open_input_records",
    "open_records",
]

#: The formats of other tools. No file is recognised by two of them.
FOREIGN: tuple[BattleFormat, ...] = (
    LMARENA_55K,
    LMARENA_100K,
    LMARENA_140K,
    FASTCHAT,
    COMPARIA_VOTES,
    COMPARIA_TURNS,
    JUDGEARENA,
    ARENA_HARD,
    MT_BENCH,
    ALPACA_EVAL,
    AUTOARENA,
    WINNER_LOSER,
)

#: Every format that can be given by name.
FORMATS: tuple[BattleFormat, ...] = (*OWN, *FOREIGN)

_BLANK = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"
_SHOWN_COLUMNS = 30


def open_records(path: str | os.PathLike[str]) -> Records:
    """Open a file as the type that its first bytes show; its name does not matter."""
    return open_input_records(open_input(path))


def open_input_records(file: InputFile) -> Records:
    """The records of an open file, by its first bytes."""
    with translate_read_errors(file.name), file.open() as stream:
        start = stream.read(4).removeprefix(_BOM)
        while start and not start.strip(_BLANK):
            start = stream.read(4096)
    start = start.lstrip(_BLANK)
    if start.startswith(b"PAR1"):
        return ParquetRecords.opened(file.decompressed())
    if start.startswith(b"PK"):
        raise UnreadableFile(
            f"{file.name}: an Excel workbook or a zip archive; save the battles as CSV, or extract the files"
        )
    if start.startswith(b"["):
        return JsonListRecords.opened(file)
    if start.startswith(b"{"):
        return JsonLinesRecords.opened(file)
    return CsvRecords.opened(file) if start else NoRecords(file)


@dataclass(frozen=True)
class NoRecords:
    """An empty file."""

    file: InputFile
    kind: ClassVar[str] = "empty"
    columns: ClassVar[tuple[str, ...]] = ()
    rows: ClassVar[int | None] = 0

    @property
    def name(self) -> str:
        return self.file.name

    def records(self, _columns: Collection[str] | None = None, /) -> Iterator[Record]:
        return iter(())


def detect(records: Records) -> BattleFormat:
    """Detect the format of the records by their columns."""
    if records.kind == "empty":
        raise UnreadableFile(f"{records.name}: the file is empty; expected battles")
    found = matching_formats(records)
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(one.name for one in found)
        raise UnknownFormat(
            f"{records.name}: could be any of {names}; choose one with {option_name('format')}"
        )
    seen = ", ".join(records.columns[:_SHOWN_COLUMNS]) + (
        ", …" if len(records.columns) > _SHOWN_COLUMNS else ""
    )
    advice = explain_table(records, f"name them with {column_option(REQUIRED)}")
    raise UnknownFormat(f"{records.name}: no known format has these columns: {seen or '(none)'}; {advice}")


def column_option(columns: Collection[str] | Mapping[str, str]) -> str:
    """How to name the headers of these columns."""
    return option_name("columns", columns if isinstance(columns, Mapping) else dict.fromkeys(columns, "…"))


def foreign_formats(records: Records) -> list[BattleFormat]:
    """Every format of another tool that recognises the records."""
    return [one for one in FOREIGN if _fits(records, one) and one.recognises(records.columns)]


def matching_formats(records: Records) -> list[BattleFormat]:
    """Every format that recognises the records; the native one only if no other does."""
    foreign = foreign_formats(records)
    if foreign or not is_native(records.columns):
        return foreign
    return [native_format(records.kind)]


def find_format(name: str, records: Records) -> BattleFormat:
    """The format called ``name``; raises if the records' container does not fit it."""
    for one in FORMATS:
        if one.name == name:
            if records.kind == "empty" or _fits(records, one):
                return one
            kinds = " or ".join(sorted(one.kinds))
            raise UnknownFormat(f"{records.name}: is {records.kind}, but the format {name} requires {kinds}")
    known = ", ".join(one.name for one in FORMATS)
    raise BadOption(f"unknown format {name!r}; known formats: {known}")


def _fits(records: Records, format: BattleFormat) -> bool:
    """Whether the format may be in this container; a frame may have been loaded from any."""
    return records.kind in format.kinds or records.kind == "frame"
