"""The canonical columns of a battle file: their names, their order and their Arrow types."""

from __future__ import annotations

import pyarrow as pa

TIME = pa.timestamp("us", tz="UTC")

#: Canonical names and types, in the order in which files are written.
TYPES: dict[str, pa.DataType] = {
    "model_a": pa.string(),
    "model_b": pa.string(),
    "winner": pa.string(),
    "label": pa.string(),
    "both_bad": pa.bool_(),
    "source": pa.string(),
    "question_id": pa.string(),
    "judge_model": pa.string(),
    "dimension": pa.string(),
    "category": pa.string(),
    "language": pa.string(),
    "pref": pa.float64(),
    "voter": pa.string(),
    "time": TIME,
    "position": pa.int64(),
    "weight": pa.float64(),
}
CANONICAL = tuple(TYPES)
REQUIRED = CANONICAL[:3]
TEXT = frozenset(name for name, kind in TYPES.items() if kind == pa.string())

#: Alternative headers of canonical columns.
OTHER_NAMES = {"outcome": "winner"}

#: Columns with the two answers, in which style is measured.
RESPONSES = ("response_a", "response_b")
STYLE = tuple(f"{trait}_{side}" for trait in ("length", "headers", "lists", "bold") for side in "ab")

#: The Parquet column for unknown fields that do not fit a column of their own.
EXTRA_JSON = "extra_json"
