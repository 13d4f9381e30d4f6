"""An expert panel as one file: a row for each task, in CSV or Parquet."""

from __future__ import annotations

import csv
import io
import tempfile
from pathlib import Path
from typing import Literal

from tiltyard.arena.operators.panel_records import PANEL_COLUMNS, PanelRecord, panel_table
from tiltyard.files.parquet_tables import write_row_table

PanelFormat = Literal["csv", "parquet"]


def panel_file(record: PanelRecord, form: PanelFormat) -> bytes:
    """The bytes of the file. Names of raters are in it: it is for the operator."""
    rows = panel_table(record)
    if form == "parquet":
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "panel.parquet"
            write_row_table(path, PANEL_COLUMNS, rows)
            return path.read_bytes()
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(PANEL_COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()
