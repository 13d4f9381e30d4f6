"""The first sheet of an Excel workbook (``.xlsx``) as records: text, numbers and truth values.

An ``.xlsx`` file is a zip archive of XML. Only what a table needs is read, by the parser of the
standard library; document types, and so entities, are refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar
from xml.parsers import expat

from tiltyard.errors import UnreadableFile
from tiltyard.files.input_file import InputFile
from tiltyard.files.records import Record, reject_duplicate_columns
from tiltyard.files.zip_members import ZipMembers, open_zip

__all__ = ["WORKBOOK", "XlsxRecords"]

#: The member that makes an archive a workbook.
WORKBOOK = "xl/workbook.xml"

_RELATIONS = "xl/_rels/workbook.xml.rels"
_STRINGS = "xl/sharedStrings.xml"
_LETTERS = re.compile(r"[A-Z]{1,3}")
#: Excel's own limit.
_SHEET_COLUMNS = 16_384
#: The most cells of a sheet that are read.
SHEET_CELLS = 5_000_000
#: Levels of XML; a workbook has fewer than ten.
_XML_DEPTH_LIMIT = 64
#: Characters that XML cannot contain are written as ``_xHHHH_``.
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")


@dataclass(frozen=True)
class XlsxRecords:
    """A header and its rows; an empty cell is an absent value, and so is an error such as ``#N/A``."""

    file: InputFile
    columns: tuple[str, ...]
    kind: ClassVar[str] = "xlsx"
    rows: ClassVar[int | None] = None

    @classmethod
    def opened(cls, file: InputFile) -> XlsxRecords:
        header = next(_sheet_rows(file), (1, {}))[1]
        columns = tuple(str(header.get(k, "")).strip() for k in range(max(header, default=-1) + 1))
        reject_duplicate_columns(f"{file.name}, row 1", [name for name in columns if name])
        return cls(file, columns)

    @property
    def name(self) -> str:
        return self.file.name

    def records(self, _columns: Collection[str] | None = None, /) -> Iterator[Record]:
        rows = _sheet_rows(self.file)
        next(rows, None)
        for number, cells in rows:
            record = {name: cells[k] for k, name in enumerate(self.columns) if name and k in cells}
            if record:
                yield f"{self.name}, row {number}", record


def _sheet_rows(file: InputFile) -> Iterator[tuple[int, Mapping[int, object]]]:
    """The rows of the first sheet that have cells: their number, and their cells by column."""
    with open_zip(file) as archive:
        if archive.repeated is not None:
            raise UnreadableFile(
                f"{file.name}: has {archive.repeated[:100]!r} twice; save the workbook again"
            )
        sheet = _first_sheet(archive)
        strings = _parsed(archive, _STRINGS, _SharedStrings()).strings if _STRINGS in archive else []
        rows = _parsed(archive, sheet, _SheetRows(archive.where(sheet), strings)).rows
    yield from rows


def _first_sheet(archive: ZipMembers) -> str:
    """The member of the first sheet, which the workbook names by a relation."""
    relation = _parsed(archive, WORKBOOK, _FirstSheet()).relation
    targets = _parsed(archive, _RELATIONS, _Relations()).targets if _RELATIONS in archive else {}
    target = targets.get(relation, "worksheets/sheet1.xml")
    member = target.removeprefix("/") if target.startswith("/") else f"xl/{target}"
    if member not in archive:
        raise UnreadableFile(f"{archive.name}: the workbook has no first sheet")
    return member


class _Handler:
    """Gets the elements of a document; names come without their namespace."""

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""

    def end(self, name: str) -> None:
        """An element ends."""

    def data(self, text: str) -> None:
        """Text, perhaps a part of it."""


_Handled = TypeVar("_Handled", bound=_Handler)


def _parsed(archive: ZipMembers, member: str, handler: _Handled) -> _Handled:
    parser, where = expat.ParserCreate(), archive.where(member)

    def refuse(*_: object) -> None:
        raise UnreadableFile(f"{where}: has a document type, which no workbook needs")

    depth = 0

    def start(name: str, given: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _XML_DEPTH_LIMIT:
            raise UnreadableFile(f"{where}: nested too deeply; the limit is {_XML_DEPTH_LIMIT} levels")
        handler.start(_local(name), _local_names(given))

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        handler.end(_local(name))

    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = handler.data
    try:
        parser.Parse(archive.read(member), True)
    except expat.ExpatError as error:
        raise UnreadableFile(f"{where}: broken XML ({error})") from None
    return handler


def _local(name: str) -> str:
    return name.rpartition(":")[2]


def _local_names(attributes: Mapping[str, str]) -> dict[str, str]:
    return {_local(name): value for name, value in attributes.items()}


class _FirstSheet(_Handler):
    relation: str | None = None

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "sheet" and self.relation is None:
            self.relation = attributes.get("id", "")


class _Relations(_Handler):
    def __init__(self) -> None:
        self.targets: dict[str | None, str] = {}

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "Relationship":
            self.targets[attributes.get("Id")] = attributes.get("Target", "")


class _SharedStrings(_Handler):
    """The texts of the workbook; the parts of a formatted one are joined, and readings left out."""

    def __init__(self) -> None:
        self.strings: list[str] = []
        self._parts: list[str] = []
        self._within: list[str] = []

    def start(self, name: str, _attributes: Mapping[str, str]) -> None:
        self._within.append(name)
        if name == "si":
            self._parts = []

    def end(self, name: str) -> None:
        self._within.pop()
        if name == "si":
            self.strings.append(_unescaped("".join(self._parts)))

    def data(self, text: str) -> None:
        if self._within[-1:] == ["t"] and "rPh" not in self._within:
            self._parts.append(text)


class _SheetRows(_Handler):
    """The rows of a sheet. Cells may leave out their place; then they follow the last one."""

    def __init__(self, where: str, strings: list[str]) -> None:
        self.rows: list[tuple[int, dict[int, object]]] = []
        self._where = where
        self._strings = strings
        self._number = 0
        self._column = -1
        self._kind = "n"
        self._cells: dict[int, object] = {}
        self._left = SHEET_CELLS
        self._parts: list[str] = []
        self._within: list[str] = []

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._within.append(name)
        if name == "row":
            number = attributes.get("r", "")
            self._number = int(number) if number.isascii() and number.isdigit() else self._number + 1
            self._column, self._cells = -1, {}
        elif name == "c":
            self._column = self._place(attributes.get("r"))
            self._kind, self._parts = attributes.get("t", "n"), []

    def end(self, name: str) -> None:
        self._within.pop()
        if name == "c":
            value = self._value("".join(self._parts))
            if value is not None:
                self._cells[self._column] = value
                self._left -= 1
                if self._left < 0:
                    raise UnreadableFile(f"{self._where}: more than {SHEET_CELLS} cells; save it as CSV")
        elif name == "row" and self._cells:
            self.rows.append((self._number, self._cells))

    def data(self, text: str) -> None:
        if self._within[-1:] in (["v"], ["t"]) and "rPh" not in self._within:
            self._parts.append(text)

    def _place(self, reference: str | None) -> int:
        letters = _LETTERS.match(reference or "")
        if letters is None:
            place = self._column + 1
        else:
            place = -1
            for letter in letters[0]:
                place = 26 * (place + 1) + ord(letter) - ord("A")
        if place >= _SHEET_COLUMNS:
            raise UnreadableFile(f"{self._where}: more than {_SHEET_COLUMNS} columns")
        return place

    def _value(self, text: str) -> Any:
        if text == "" or self._kind == "e":
            return None
        if self._kind == "s":
            number = int(text) if text.isascii() and text.isdigit() else len(self._strings)
            if number >= len(self._strings):
                raise UnreadableFile(f"{self._where}: a cell names a text that the workbook lacks")
            return self._strings[number] or None
        if self._kind == "b":
            return text == "1"
        return _number(text) if self._kind == "n" else _unescaped(text)


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: _character(int(found[1], 16)), text) if "_x" in text else text


def _character(code: int) -> str:
    return "\N{REPLACEMENT CHARACTER}" if 0xD800 <= code < 0xE000 else chr(code)
