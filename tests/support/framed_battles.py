"""The same battles in every form that `rate` takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa

from tiltyard.simulation.demo.demo_roster import demo_battles

Rows = list[dict[str, Any]]


def demo_rows(n: int = 400) -> Rows:
    """Rows as a JSON file has them."""
    return [json.loads(json.dumps(battle.to_dict(), default=str)) for battle in demo_battles(n)]


def relation(rows: Rows) -> Any:
    frame = pd.DataFrame(rows)
    return duckdb.connect().from_df(frame)


#: Each makes the data from rows.
FORMS: Mapping[str, Callable[[Rows], Any]] = {
    "rows": lambda rows: rows,
    "generator": iter,
    "columns": lambda rows: {name: [row.get(name) for row in rows] for name in rows[0]},
    "numpy": lambda rows: {name: pd.DataFrame(rows)[name].to_numpy() for name in rows[0]},
    "pandas": pd.DataFrame,
    "pandas-objects": lambda rows: pd.DataFrame(rows).astype(object),
    "pandas-nullable": lambda rows: pd.DataFrame(rows).convert_dtypes(),
    "pandas-categories": lambda rows: pd.DataFrame(rows).astype(
        dict.fromkeys(("model_a", "model_b", "winner", "question_id", "voter"), "category")
    ),
    "pandas-index": lambda rows: pd.DataFrame(rows, index=[f"row {k}" for k in range(len(rows))]),
    "polars": pl.DataFrame,
    "polars-categories": lambda rows: pl.DataFrame(rows).with_columns(
        pl.col("model_a", "model_b", "winner", "voter").cast(pl.Categorical)
    ),
    "polars-enum": lambda rows: pl.DataFrame(rows).with_columns(
        pl.col("winner").cast(pl.Enum(["tie", "model_a", "both_bad", "model_b", "unused"]))
    ),
    "duckdb": relation,
    "arrow": pa.Table.from_pylist,
    "arrow-large": lambda rows: pa.table(pd.DataFrame(rows)),
    "arrow-batch": pa.RecordBatch.from_pylist,
    "arrow-reader": lambda rows: pa.Table.from_pylist(rows).to_reader(),
}
