"""JudgeArena's ``battles.parquet``: verdicts of a judge, one row for each order of presentation.

Its ``pref`` is the probability that B is better; ours that A is. JudgeArena stores an unreadable
reply as a tie without ``pref``; such rows are skipped here.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tiltyard.core.battles.outcome import parse_outcome, reconcile_outcomes
from tiltyard.errors import BadBattle
from tiltyard.files.format import UNREADABLE, BattleFormat, Converted, Settled, SkippedRecord

_JUDGE = "llm-judge"


def _recognises(columns: Collection[str]) -> bool:
    return {"model_a", "model_b", "winner", "pref", "pref_hard"} <= set(columns)


def _convert(record: Mapping[str, object]) -> Converted:
    source = record.get("source", _JUDGE)
    pref = _flipped(record.get("pref"))
    unread = source == _JUDGE and pref is None
    return {
        "model_a": record.get("model_a"),
        "model_b": record.get("model_b"),
        "winner": None if unread else parse_outcome(record.get("winner")).value,
        "source": source,
        "question_id": record.get("question_id"),
        "judge_model": record.get("judge_model"),
        "language": record.get("lang"),
        "pref": pref,
    }


def _flipped(pref: Any) -> float | None:
    """P(A better), from P(B better); absent values may be NaN."""
    if pref is None or (isinstance(pref, float) and math.isnan(pref)):
        return None
    if isinstance(pref, bool) or not isinstance(pref, int | float) or not 0 <= pref <= 1:
        raise BadBattle(f"pref is {pref!r}; expected a number from 0 to 1")
    return 1.0 - pref


def _settle(rows: Iterator[Settled]) -> Iterator[Settled]:
    """Join the two orders of a question; rows without a question are kept separate."""
    pairs: dict[object, list[tuple[str, Mapping[str, object]]]] = {}
    for where, row in rows:
        assert not isinstance(row, SkippedRecord)
        question = row["question_id"]
        paired = row["source"] == _JUDGE and question is not None
        key = (str(question), row["model_a"], row["model_b"], row["judge_model"]) if paired else where
        pairs.setdefault(key, []).append((where, row))
    for found in pairs.values():
        yield found[0][0], _joined(found)


def _joined(found: list[tuple[str, Mapping[str, object]]]) -> Converted:
    where, first = found[0]
    if len(found) > 2:
        raise BadBattle(
            f"question {first['question_id']} was judged {len(found)} times; expected two orders", where=where
        )
    if any(row["winner"] is None for _, row in found):
        return SkippedRecord(UNREADABLE)
    if len(found) == 1:
        return first
    second = found[1][1]
    winner, label = reconcile_outcomes(parse_outcome(first["winner"]), parse_outcome(second["winner"]))
    pref = (_pref(first) + _pref(second)) / 2
    return {**first, "winner": winner.value, "label": label.value, "pref": pref}


def _pref(row: Mapping[str, object]) -> float:
    pref = row["pref"]
    assert isinstance(pref, float)  # A verdict without one is unread, and has no winner.
    return pref


JUDGEARENA = BattleFormat(
    name="judgearena",
    kinds=frozenset({"jsonl", "parquet"}),
    recognises=_recognises,
    convert=_convert,
    gives={
        "model_a": "model_a",
        "model_b": "model_b",
        "winner": "winner",
        "label": "winner",
        "source": "winner",
        "question_id": "question_id",
        "judge_model": "judge_model",
        "language": "lang",
        "pref": "pref",
    },
    also_reads=("source",),
    settle=_settle,
)
