"""The first sheet of an Excel workbook (``.xlsx``) as records: text, numbers and truth values.

calamine reads it, from a copy whose members were unpacked within limits. It makes room for every cell up to the
last row and column, and for as many texts as a workbook states, and ends the process where there is none: so
the XML is looked through first.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, time, timedelta
from typing import ClassVar
from xml.parsers import expat

from tiltyard.errors import UnreadableFile
from tiltyard.files.input_file import (
    SHEET_CELLS,
    XML_DEPTH_LIMIT,
    FileRecords,
    InputFile,
    Record,
    reject_duplicate_columns,
)
from tiltyard.files.zip_members import open_zip

#: The member that makes an archive a workbook.
WORKBOOK = "xl/workbook.xml"
#: A cell's place, of Excel's 16,384 columns and 1,048,576 rows, or a number of as many digits.
_PLACE = re.compile(r"([A-Za-z]{0,3})([0-9]{1,7})")
#: Whole numbers from here on are not exact in a workbook.
_EXACT_LIMIT = 1 << 53


@dataclass(frozen=True)
class XlsxRecords(FileRecords):
    """A header and its rows; an empty cell is an absent value, and so is an error such as ``#N/A``."""

    columns: tuple[str, ...]
    kind: ClassVar[str] = "xlsx"
    rows: ClassVar[int | None] = None

    @classmethod
    def opened(cls, file: InputFile) -> XlsxRecords:
        header = next(_sheet_rows(file), (1, {}))[1]
        columns = tuple(str(header.get(k, "")) for k in range(max(header, default=-1) + 1))
        named = [name.strip() for name in columns if name.strip()]
        reject_duplicate_columns(f"{file.name}, row 1", named)
        return cls(file, columns)

    def records(self, _columns: Collection[str] | None = None, /) -> Iterator[Record]:
        rows = _sheet_rows(self.file)
        next(rows, None)
        for number, cells in rows:
            record = {name: cells[k] for k, name in enumerate(self.columns) if name.strip() and k in cells}
            if record:
                yield f"{self.name}, row {number}", record


def _sheet_rows(file: InputFile) -> Iterator[tuple[int, Mapping[int, object]]]:
    """The rows of the first sheet that have cells: their number, and their cells by column."""
    from python_calamine import CalamineError, load_workbook

    # The XML of a workbook, each member unpacked and looked through.
    copy = io.BytesIO()
    with open_zip(file) as archive, zipfile.ZipFile(copy, "w") as packed:
        if archive.repeated is not None:
            raise UnreadableFile(
                f"{file.name}: has {archive.repeated[:100]!r} twice; save the workbook again"
            )
        for member in archive.names:
            if member.lower().endswith((".xml", ".rels")):
                data = archive.read(member)
                _XmlCheck(archive.where(member)).parse(data)
                packed.writestr(member, data)
    copy.seek(0)
    try:
        sheet = load_workbook(copy).get_sheet_by_index(0)
    except CalamineError as error:
        raise UnreadableFile(f"{file.name}: a broken workbook ({error}); save it again") from None
    if sheet.start is None:
        return
    for number, row in enumerate(sheet.iter_rows(), 1):
        cells = {k: _plain(value) for k, value in enumerate(row, sheet.start[1]) if value != ""}
        if cells:
            yield number, cells


def _plain(value: object) -> object:
    """A cell's value as the other containers have it: whole numbers as such, dates and times as text."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_LIMIT:
        return int(value)
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value) if isinstance(value, timedelta) else value


class _XmlCheck:
    """Looks through XML as calamine does, and refuses what would take far more memory than it has bytes."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._depth = 0
        #: Where the next row is, and the last cell; from 1.
        self._row = 1
        self._cell = (1, 0)
        self._last_row = self._last_column = 0

    def parse(self, data: bytes) -> None:
        # The only encoding that calamine reads, whatever the document states.
        parser = expat.ParserCreate("utf-8")
        parser.StartDoctypeDeclHandler = self._refuse_type
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        try:
            parser.Parse(data, True)
        except expat.ExpatError as error:
            raise UnreadableFile(f"{self._where}: broken XML ({error})") from None

    def _refuse_type(self, *_: object) -> None:
        raise UnreadableFile(f"{self._where}: has a document type, which no workbook needs")

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        if self._depth > XML_DEPTH_LIMIT:
            raise UnreadableFile(f"{self._where}: nested too deeply; the limit is {XML_DEPTH_LIMIT} levels")
        local = name.rpartition(":")[2]
        if local == "row" and "r" in attributes:
            self._row = self._place(attributes["r"])[0]
        elif local == "c":
            self._cell = self._place(attributes["r"]) if "r" in attributes else (self._row, self._cell[1] + 1)
        elif local in ("v", "is"):
            self._last_row = max(self._last_row, self._cell[0])
            self._last_column = max(self._last_column, self._cell[1])
            self._limit(self._last_row * self._last_column)
        elif local == "sst" and "uniqueCount" in attributes:
            self._limit(self._place(attributes["uniqueCount"])[0])

    def _end(self, name: str) -> None:
        self._depth -= 1
        if name.rpartition(":")[2] == "row":
            self._row += 1
            self._cell = (self._row, 0)

    def _limit(self, cells: int) -> None:
        if cells > SHEET_CELLS:
            raise UnreadableFile(
                f"{self._where}: more than {SHEET_CELLS} cells, empty ones between them included; save it as CSV"
            )

    def _place(self, text: str) -> tuple[int, int]:
        """Row and column of a cell; a number alone is a row."""
        place = _PLACE.fullmatch(text)
        if place is None:
            raise UnreadableFile(f"{self._where}: has no place {text[:20]!r}; save the workbook again")
        column = 0
        for letter in place[1].upper():
            column = 26 * column + ord(letter) - ord("A") + 1
        return int(place[2]), column
