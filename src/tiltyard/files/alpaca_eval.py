"""alpaca_eval annotations: a list of preferences between 1 (first output) and 2 (second output)."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from tiltyard.errors import BadBattle
from tiltyard.files.conversations import answers_in
from tiltyard.files.format import BattleFormat, Converted, SkippedRecord
from tiltyard.files.prompt_id import prompt_id


def _recognises(columns: Collection[str]) -> bool:
    return {"generator_1", "generator_2", "preference"} <= set(columns)


def _convert(record: Mapping[str, object]) -> Converted:
    preference = record.get("preference")
    if preference is None or (isinstance(preference, float) and math.isnan(preference)):
        return SkippedRecord("the annotator gave no preference")
    pref = _pref(preference)
    return {
        "model_a": record.get("generator_1"),
        "model_b": record.get("generator_2"),
        "winner": "tie" if pref == 0.5 else "model_a" if pref > 0.5 else "model_b",
        "source": "llm-judge",
        "question_id": prompt_id(record.get("instruction")),
        "judge_model": record.get("annotator"),
        "category": record.get("dataset"),
        "pref": pref,
    }


def _pref(preference: Any) -> float:
    """P(first better). A tie is 1.5, or 0 in older files."""
    if isinstance(preference, int | float) and not isinstance(preference, bool):
        if preference == 0:
            return 0.5
        if 1 <= preference <= 2:
            return 2.0 - preference
    raise BadBattle(f"preference is {preference!r}; expected a number from 1 to 2")


ALPACA_EVAL = BattleFormat(
    name="alpaca-eval",
    kinds=frozenset({"json", "jsonl", "parquet"}),
    recognises=_recognises,
    convert=_convert,
    gives={
        "model_a": "generator_1",
        "model_b": "generator_2",
        "winner": "preference",
        "source": "preference",
        "question_id": "instruction",
        "judge_model": "annotator",
        "category": "dataset",
        "pref": "preference",
    },
    answers=answers_in("output_1", "output_2"),
    answers_in=("output_1", "output_2"),
)
