"""What rating a frame in memory costs beside the same rows in a Parquet file.

    python bench/frames.py --out docs/evidence/data/frames.md

Each form is rated in turn, so that all of them meet the same load of the machine; medians of CPU seconds, of
this process and one thread. Reading the file is part of its time; making the frame is not part of the frame's.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from timing import cpu_seconds, one_thread


def rows(n: int) -> dict[str, Any]:
    """Battles of 100 models on 20,000 prompts by 30,000 voters."""
    import numpy as np

    rng = np.random.default_rng(20_261_117)
    a = rng.integers(0, 100, n)
    b = (a + rng.integers(1, 100, n)) % 100
    winner = np.where(rng.random(n) < 1 / (1 + np.exp((a - b) / 40)), "model_a", "model_b").astype(object)
    winner[rng.random(n) < 0.16] = "tie"
    return {
        "model_a": [f"model-{k:02d}" for k in a],
        "model_b": [f"model-{k:02d}" for k in b],
        "winner": winner.tolist(),
        "question_id": [f"prompt {k}" for k in rng.integers(0, 20_000, n)],
        "voter": [f"voter {k}" for k in rng.integers(0, 30_000, n)],
        "category": [("code", "maths", "prose")[k] for k in rng.integers(0, 3, n)],
        "language": ["English"] * n,
    }


def forms(n: int, folder: Path) -> dict[str, Any]:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = rows(n)
    table = pa.table(columns)
    path = folder / "battles.parquet"
    pq.write_table(table, path)
    csv = folder / "battles.csv"
    frame = pd.DataFrame(columns)
    frame.to_csv(csv, index=False)
    return {
        "Parquet file": path,
        "pandas": frame,
        "pandas, columns of objects": frame.astype(object),
        "polars": pl.DataFrame(columns),
        "DuckDB relation": duckdb.connect().from_arrow(table),
        "Arrow table": table,
        "CSV file": csv,
    }


def measured(data: dict[str, Any], rate: Callable[[Any], object], repeats: int) -> dict[str, list[float]]:
    spent: dict[str, list[float]] = {name: [] for name in data}
    for _ in range(repeats):
        for name, battles in data.items():
            start = cpu_seconds()
            rate(battles)
            spent[name].append(cpu_seconds() - start)
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--battles", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    one_thread()
    import tiltyard

    with tempfile.TemporaryDirectory() as folder:
        spent = measured(forms(options.battles, Path(folder)), tiltyard.rate, options.repeats)
    base = statistics.median(spent["Parquet file"])
    lines = [
        "# Rating frames",
        "",
        (
            f"`tiltyard.rate` of {options.battles:,} battles, 100 models, 20,000 prompts, 30,000 voters; CPU seconds of one "
            f"thread, {options.repeats} rounds in which each form takes its turn. Made on {datetime.now(UTC):%Y-%m-%d} by "
            "`python bench/frames.py`."
        ),
        "",
        "| battles in | median | least | most | times the Parquet file |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, seconds in spent.items():
        median = statistics.median(seconds)
        cells = (f"{value:.2f}" for value in (median, min(seconds), max(seconds), median / base))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    text = "\n".join(lines) + "\n"
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
