"""Tables of winners and losers: two columns with names, and no ties."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tiltyard.files.canonical_columns import CANONICAL, REQUIRED
from tiltyard.files.format import BattleFormat, Converted
from tiltyard.files.timestamps import parse_arena_time

#: What else such a table may say of a battle; ``label``, ``pref`` and ``both_bad`` have no meaning in it.
_OTHERS = tuple(
    name for name in CANONICAL if name not in {*REQUIRED, "label", "pref", "both_bad", "weight", "position"}
)


def _recognises(columns: Collection[str]) -> bool:
    names = set(columns)
    return {"winner", "loser"} <= names and names.isdisjoint({"model_a", "model_b"})


def _convert(record: Mapping[str, object]) -> Converted:
    row = {name: record[name] for name in _OTHERS if name in record}
    if "time" in row:
        row["time"] = parse_arena_time(row["time"])
    return {**row, "model_a": record.get("winner"), "model_b": record.get("loser"), "winner": "model_a"}


WINNER_LOSER = BattleFormat(
    name="winner-loser",
    kinds=frozenset({"csv", "json", "jsonl", "parquet"}),
    recognises=_recognises,
    convert=_convert,
    gives={"model_a": "winner", "model_b": "loser", "winner": "winner", **{name: name for name in _OTHERS}},
)
