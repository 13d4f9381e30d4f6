"""Says what a table is that holds no battles: one column for each model, or one row for each model or response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from tiltyard.files.records import Records

_LOOKED_AT_ROWS = 20
_NAMED_COLUMNS = 3
#: What a column with the name of a model is called, where there is one row for each model or response.
_MODEL_HEADERS = frozenset({"model", "model_name", "model_id", "generator", "system", "name"})
_WANTED = "expected one row for each battle, with model_a, model_b and winner"


def explain_table(records: Records, naming: str) -> str:
    """What to do with a table in no known format; ``naming`` is how to name its columns."""
    rows = [row for _, row in islice(records.records(), _LOOKED_AT_ROWS)]
    for header in records.columns:
        if header.strip().lower() in _MODEL_HEADERS:
            return (
                f"{naming}; if each row is about one model alone (column {header}), it does not say which other "
                f"it was compared with: {_WANTED}"
            )
    numbers = [name for name in records.columns[1:] if _holds_numbers(name, rows)]
    if len(numbers) > 1 and len(numbers) >= len(records.columns) - 2:
        return (
            f"it seems to have one column of numbers for each model ({_first(numbers)}); {_WANTED}; "
            "'Rate your own file' in the documentation turns scores into battles"
        )
    return naming


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED_COLUMNS]) + (", …" if len(names) > _NAMED_COLUMNS else "")


def _holds_numbers(name: str, rows: Sequence[Mapping[str, object]]) -> bool:
    """Whether the column has numbers and nothing else."""
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
