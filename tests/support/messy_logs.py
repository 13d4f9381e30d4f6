"""Logs of battles, the ways in which files of them go wrong, and the shapes in which they come."""

from __future__ import annotations

import csv
import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

Rows = list[dict[str, str]]

MODELS = ("argent-70b", "brioche large", "Café-2", "dunlin_pro")
#: Canonical headers, and those of LMArena's files of votes.
WIDE = {"question_id": "id", "voter": "evaluation_session_id", "time": "timestamp"}
_CELL = '<c t="inlineStr"><is><t xml:space="preserve">{}</t></is></c>'
_SHEET = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>{}</sheetData></worksheet>'
_BOOK = (
    '<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships">'
    '<sheets><sheet name="battles" sheetId="1" r:id="rId1"/></sheets></workbook>'
)
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def log(n: int = 240, seed: int = 0, *, named: bool = True) -> Rows:
    """Battles of four models in random places; ``named`` by prompt, voter and time."""
    rng = np.random.default_rng(seed)
    first = rng.integers(4, size=n)
    second = (first + 1 + rng.integers(3, size=n)) % 4
    won = rng.random(n) < 1.0 / (1.0 + np.exp((first - second) * 0.4))
    tied = rng.random(n) < 0.1
    rows = []
    for k in range(n):
        row = {"model_a": MODELS[first[k]], "model_b": MODELS[second[k]]}
        row["winner"] = "tie" if tied[k] else "model_a" if won[k] else "model_b"
        if named:
            row |= {"question_id": f"q{rng.integers(24)}", "voter": f"v{rng.integers(20)}"}
            row["time"] = f"2026-05-{1 + k // 60:02}T10:{k % 60:02}:07Z"
        rows.append(row)
    return rows


def respelled(every: int, spell: Callable[[str], str]) -> Callable[[Rows], Rows]:
    """Spell the first model of every so many rows otherwise."""

    def change(rows: Rows) -> Rows:
        return [
            {**row, "model_a": spell(row["model_a"])} if k % every == 0 else row for k, row in enumerate(rows)
        ]

    return change


def with_winner(text: str) -> Callable[[Rows], Rows]:
    """Add rows with this winner among the others."""
    return lambda rows: [*rows[:50], *({**row, "winner": text} for row in rows[:12]), *rows[50:]]


def with_duplicates(rows: Rows) -> Rows:
    return [*rows[:100], *rows[40:70], *rows[100:]]


def with_one_sided_voter(rows: Rows) -> Rows:
    return [*rows, *({**row, "voter": 'b"ot', "winner": "model_a"} for row in rows[:40])]


#: The finding of each mess, and what makes it of the rows of a clean log. One changes headers instead.
MESSES: dict[str, tuple[str, Callable[[Rows], Rows]]] = {
    "spaces": ("outer-spaces", respelled(5, lambda name: f"{name} ")),
    "case": ("names-alike", respelled(7, str.upper)),
    "hyphens": (
        "names-alike",
        respelled(4, lambda name: name.replace("-", " ").replace("_", "-").replace("e l", "e  l")),
    ),
    "unicode": (
        "names-alike",
        respelled(6, lambda name: unicodedata.normalize("NFD", name).replace(" ", "\u00a0")),
    ),
    "duplicates": ("repeated-battles", with_duplicates),
    "block": ("repeated-block", lambda rows: rows * 3),
    "no winner": ("empty-winners", with_winner("")),
    "words": ("invalid-rows", with_winner("?")),
    "headers": ("padded-headers", lambda rows: rows),
    "one side": ("one-sided-voters", with_one_sided_voter),
}


def _headers(rows: Rows, *, padded: bool) -> Rows:
    if not padded:
        return rows
    return [{f" {key.upper()} ": value for key, value in row.items()} for row in rows]


def _widened(rows: Rows) -> Rows:
    return [
        {WIDE.get(key, key): value for key, value in {**dict.fromkeys(WIDE), **row}.items()}
        | {"evaluation_order": 1}
        for row in rows
    ]


def write_csv(path: Path, rows: Rows) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_lines(path: Path, rows: Rows) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_xlsx(path: Path, rows: Rows) -> None:
    lines = [list(rows[0]), *(list(row.values()) for row in rows)]
    cells = ["".join(_CELL.format(escape(str(value))) for value in line) for line in lines]
    types = "application/vnd.openxmlformats-officedocument.spreadsheetml."
    parts = {"/xl/workbook.xml": "sheet.main+xml", "/xl/worksheets/sheet1.xml": "worksheet+xml"}
    overrides = "".join(
        f"<Override PartName={quoteattr(part)} ContentType={quoteattr(types + kind)}/>"
        for part, kind in parts.items()
    )
    content = (
        f'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">{overrides}</Types>'
    )
    relation = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        f'<Relationship Id="rId1" Type="{_RELATIONS}/{{}}" Target="{{}}"/></Relationships>'
    )
    with ZipFile(path, "w") as archive:
        archive.writestr("[Content_Types].xml", content)
        archive.writestr("_rels/.rels", relation.format("officeDocument", "xl/workbook.xml"))
        archive.writestr("xl/workbook.xml", _BOOK)
        archive.writestr("xl/_rels/workbook.xml.rels", relation.format("worksheet", "worksheets/sheet1.xml"))
        archive.writestr(
            "xl/worksheets/sheet1.xml", _SHEET.format("".join(f"<row>{line}</row>" for line in cells))
        )


#: Writers of rows, by the shape of the file.
SHAPES: dict[str, Callable[[Path, Rows], None]] = {
    "csv": write_csv,
    "jsonl": write_lines,
    "parquet": lambda path, rows: pq.write_table(pa.Table.from_pylist(rows), path),
    "xlsx": write_xlsx,
    "wide": write_lines,
    "pandas": lambda path, rows: pd.DataFrame(rows).to_csv(path),
}


def write_log(path: Path, shape: str, rows: Rows, *, padded: bool = False) -> None:
    """Write rows in a shape; ``padded`` headers have spaces and capitals."""
    SHAPES[shape](path, _headers(_widened(rows) if shape == "wide" else rows, padded=padded))
