"""The fixtures, what they must be recognised as, and how tests get at them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from support import TESTS
from tiltyard.files.format_detection import open_records

FIXTURES = TESTS / "files/fixtures"

#: Fixture to format.
FORMATS = {
    "own.jsonl": "tiltyard-jsonl",
    "own.json": "tiltyard-json",
    "own.csv": "tiltyard-csv",
    "lmarena_55k.csv": "lmarena-55k",
    "lmarena_100k.jsonl": "lmarena-100k",
    "lmarena_140k.jsonl": "lmarena-140k",
    "fastchat_battles.json": "fastchat-battles",
    "comparia_votes.jsonl": "comparia-votes",
    "comparia_turns.jsonl": "comparia-turns",
    "judgearena.jsonl": "judgearena",
    "arena_hard/model_judgment/judge-one/oak.jsonl": "arena-hard",
    "mt_bench.jsonl": "mt-bench",
    "alpaca_eval.json": "alpaca-eval",
    "autoarena.csv": "autoarena",
    "open_webui.json": "open-webui",
    "winner_loser.csv": "winner-loser",
}


def records(name: str) -> list[dict]:
    """The records of a fixture."""
    return [record for _, record in open_records(FIXTURES / name).records()]


def as_parquet(name: str, folder: Path) -> Path:
    """A fixture's records in a Parquet file."""
    path = folder / (Path(name).stem + ".parquet")
    pq.write_table(pa.Table.from_pylist(_same_types(records(name))), path)
    return path


def as_json_lines(rows: list[dict], path: Path) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _same_types(rows: list[dict]) -> list[dict]:
    """Parquet has one type a column: what is mixed becomes text, as its own exporters do."""
    keys = dict.fromkeys(key for row in rows for key in row)
    mixed = {
        key
        for key in keys
        if len({type(row[key]) for row in rows if row.get(key) is not None} - {dict, list}) > 1
    }
    return [
        {key: str(row[key]) if key in mixed and row.get(key) is not None else row.get(key) for key in keys}
        for row in rows
    ]
