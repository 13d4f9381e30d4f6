"""Tiltyard's native battle files: JSON Lines, JSON lists, CSV and Parquet, one battle per record."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tiltyard.errors import BadBattle
from tiltyard.files.canonical_columns import RESPONSES, STYLE
from tiltyard.files.format import BattleFormat
from tiltyard.files.timestamps import parse_time_text

_NUMBERS = frozenset({"pref", "weight", "position", *STYLE})


def is_native(columns: Collection[str]) -> bool:
    """Whether these are the columns of a native battle file."""
    return {"model_a", "model_b"} <= set(columns) and ("winner" in columns or "outcome" in columns)


def _as_it_is(record: Mapping[str, object]) -> Mapping[str, object]:
    return record


def _with_numbers(record: Mapping[str, object]) -> Mapping[str, object]:
    """CSV has only text: parse the numeric fields; other text is kept and rejected later."""
    return {key: _read(key, text) for key, text in record.items()}


def _read(key: str, text: Any) -> object:
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


def _answers(record: Mapping[str, object]) -> tuple[str, str]:
    texts = [record.get(name) for name in RESPONSES]
    for name, text in zip(RESPONSES, texts, strict=True):
        if not isinstance(text, str):
            raise BadBattle(f"{name} is {text!r}; style is measured in text")
    return str(texts[0]), str(texts[1])


def _own(kind: str) -> BattleFormat:
    return BattleFormat(
        name=f"tiltyard-{kind}",
        kinds=frozenset({kind}),
        recognises=is_native,
        convert=_with_numbers if kind == "csv" else _as_it_is,
        answers=_answers,
        answers_in=RESPONSES,
    )


OWN = tuple(_own(kind) for kind in ("jsonl", "json", "csv", "parquet"))

#: Battles in memory; no file has this format.
_FRAME = _own("frame")


def native_format(kind: str) -> BattleFormat:
    """The native format in the given container."""
    return next(one for one in (*OWN, _FRAME) if kind in one.kinds)
