"""What a file is: its container by its first bytes, its format by its columns; our own formats, and plain tables."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from tiltyard.errors import BadBattle, BadOption, UnknownFormat, UnreadableFile
from tiltyard.files.arena_votes import ARENA_FORMATS, OPEN_WEBUI
from tiltyard.files.canonical_columns import CANONICAL, REQUIRED, RESPONSES, STYLE
from tiltyard.files.format import BattleFormat, Converted, parse_arena_time, parse_time_text
from tiltyard.files.input_file import FileRecords, InputFile, Record, Records, open_input
from tiltyard.files.json_records import JsonLinesRecords, JsonListRecords
from tiltyard.files.judgments import JUDGMENT_FORMATS
from tiltyard.files.parquet_records import ParquetRecords
from tiltyard.files.read_options import with_headers
from tiltyard.files.row_reader import CsvRecords
from tiltyard.files.xlsx_records import WORKBOOK, XlsxRecords
from tiltyard.files.zip_members import open_zip
from tiltyard.foundation.option_names import option_name, quoted, quoted_list

_NUMBERS = frozenset({"pref", "weight", "position", *STYLE})
#: What else a table of winners and losers may say of a battle; ``label``, ``pref`` and ``both_bad`` have no meaning in it.
_WINNER_LOSER_OTHERS = tuple(
    name for name in CANONICAL if name not in {*REQUIRED, "label", "pref", "both_bad", "weight", "position"}
)
_LOOKED_AT_ROWS = 20
_NAMED_COLUMNS = 3
#: What a column with the name of a model is called, where there is one row for each model or response.
_MODEL_HEADERS = frozenset({"model", "model_name", "model_id", "generator", "system", "name"})
_WANTED = "expected one row for each battle, with model_a, model_b and winner"


def is_native(columns: Collection[str]) -> bool:
    """Whether these are the columns of a native battle file."""
    return {"model_a", "model_b"} <= set(columns) and ("winner" in columns or "outcome" in columns)


def _as_it_is(record: Mapping[str, object]) -> Mapping[str, object]:
    return record


def _with_numbers(record: Mapping[str, object]) -> Mapping[str, object]:
    """CSV and workbooks may have numbers as text: parse the numeric fields; other text is kept and rejected later."""
    return {key: _read(key, value) if isinstance(value, str) else value for key, value in record.items()}


def _read(key: str, text: str) -> object:
    if key == "time":
        return parse_time_text(text)
    return _number(text) if key in _NUMBERS else text


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _native_answer(record: Mapping[str, object], key: str) -> str:
    text = record.get(key)
    if not isinstance(text, str):
        raise BadBattle(f"{key} is {quoted(text)}; style is measured in text")
    return text


def _own(kind: str) -> BattleFormat:
    return BattleFormat(
        name=f"tiltyard-{kind}",
        kinds=frozenset({kind}),
        recognises=is_native,
        convert=_with_numbers if kind in ("csv", "xlsx") else _as_it_is,
        answers_in=RESPONSES,
        answer=_native_answer,
    )


OWN = tuple(_own(kind) for kind in ("jsonl", "json", "csv", "xlsx", "parquet"))

#: Battles in memory; no file has this format.
_FRAME = _own("frame")


def native_format(kind: str) -> BattleFormat:
    """The native format in the given container."""
    return next(one for one in (*OWN, _FRAME) if kind in one.kinds)


def _is_winner_loser(columns: Collection[str]) -> bool:
    names = set(columns)
    return {"winner", "loser"} <= names and names.isdisjoint({"model_a", "model_b"})


def _convert_winner_loser(record: Mapping[str, object]) -> Converted:
    row = {name: record[name] for name in _WINNER_LOSER_OTHERS if name in record}
    if "time" in row:
        row["time"] = parse_arena_time(row["time"])
    return {**row, "model_a": record.get("winner"), "model_b": record.get("loser"), "winner": "model_a"}


WINNER_LOSER = BattleFormat(
    name="winner-loser",
    kinds=frozenset({"csv", "json", "jsonl", "parquet"}),
    recognises=_is_winner_loser,
    convert=_convert_winner_loser,
    gives={
        "model_a": "winner",
        "model_b": "loser",
        "winner": "winner",
        **{name: name for name in _WINNER_LOSER_OTHERS},
    },
)

#: The formats of other tools. No file is recognised by two of them.
FOREIGN: tuple[BattleFormat, ...] = (*ARENA_FORMATS, *JUDGMENT_FORMATS, OPEN_WEBUI, WINNER_LOSER)
#: Every format that can be given by name.
FORMATS: tuple[BattleFormat, ...] = (*OWN, *FOREIGN)


def open_records(path: str | os.PathLike[str]) -> Records:
    """Open a file as the type that its first bytes show; its name does not matter."""
    return open_input_records(open_input(path))


def open_input_records(file: InputFile) -> Records:
    """The records of an open file, by its first bytes."""
    start = file.first_bytes()
    if start.startswith(b"PAR1"):
        return ParquetRecords.opened(file.decompressed())
    if start.startswith(b"PK"):
        return XlsxRecords.opened(_workbook(file.decompressed()))
    if start.startswith(b"["):
        return JsonListRecords.opened(file)
    if start.startswith(b"{"):
        return JsonLinesRecords.opened(file)
    return CsvRecords.opened(file) if start else NoRecords(file)


def _workbook(file: InputFile) -> InputFile:
    with open_zip(file) as archive:
        if WORKBOOK not in archive:
            raise UnreadableFile(f"{file.name}: a zip archive; extract the files, and name one of them")
    return file


@dataclass(frozen=True)
class NoRecords(FileRecords):
    """An empty file."""

    kind: ClassVar[str] = "empty"
    columns: ClassVar[tuple[str, ...]] = ()
    rows: ClassVar[int | None] = 0

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
    advice = explain_table(records, f"name them with {column_option(REQUIRED)}")
    raise UnknownFormat(
        f"{records.name}: no known format has these columns: {quoted_list(records.columns)}; {advice}"
    )


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


def with_foreign_headers(records: Records) -> Records | None:
    """The records with headers of another tool, if it would recognise them but for case and outer spaces."""
    known = {
        header.casefold(): header
        for one in FOREIGN
        for header in (*one.reads, *one.answers_in, *one.style_in)
    }
    plain = {header: header.strip().casefold() for header in records.columns}
    meant = {header: known.get(word, word) for header, word in plain.items()}
    names = {header: name for header, name in meant.items() if name not in records.columns}
    if len(set(names.values())) < len(names):
        return None
    renamed = with_headers(records, names)
    return renamed if foreign_formats(renamed) else None


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
    """Whether the format may be in this container: a frame may come from any, a workbook from CSV."""
    return (
        records.kind in format.kinds
        or records.kind == "frame"
        or (records.kind == "xlsx" and "csv" in format.kinds)
    )


def explain_table(records: Records, naming: str) -> str:
    """What to do with a table in no known format; ``naming`` is how to name its columns."""
    rows = [row for _, row in islice(records.records(), _LOOKED_AT_ROWS)]
    for header in records.columns:
        if header.strip().lower() in _MODEL_HEADERS:
            return (
                f"{naming}; if each row is about one model alone (column {quoted(header)}), it does not say which other "
                f"it was compared with: {_WANTED}"
            )
    numbers = [name for name in records.columns[1:] if _holds_numbers(name, rows)]
    if len(numbers) > 1 and len(numbers) >= len(records.columns) - 2:
        names = ", ".join(map(quoted, numbers[:_NAMED_COLUMNS])) + (
            ", …" if len(numbers) > _NAMED_COLUMNS else ""
        )
        return (
            f"it seems to have one column of numbers for each model ({names}); {_WANTED}; "
            "'Rate your own file' in the documentation turns scores into battles"
        )
    return naming


def _holds_numbers(name: str, rows: Sequence[Mapping[str, object]]) -> bool:
    found = [value for row in rows if (value := row.get(name)) not in (None, "")]
    return bool(found) and all(map(_is_number, found))


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    try:
        float(value)
    except ValueError:
        return False
    return True
