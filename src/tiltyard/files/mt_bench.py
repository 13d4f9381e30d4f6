"""MT-Bench pairwise judgments: two games in swapped order, for each turn of a question."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tiltyard.core.battles.outcome import Outcome, reconcile_outcomes
from tiltyard.errors import BadBattle
from tiltyard.files.format import UNREADABLE, BattleFormat, Converted, SkippedRecord

_WINNERS = {"model_1": Outcome.MODEL_A, "model_2": Outcome.MODEL_B, "tie": Outcome.TIE}


def _recognises(columns: Collection[str]) -> bool:
    return {"model_1", "model_2", "g1_winner", "g2_winner"} <= set(columns)


def _convert(record: Mapping[str, object]) -> Converted:
    first, second = _outcome(record, "g1_winner"), _outcome(record, "g2_winner")
    if first is None or second is None:
        return SkippedRecord(UNREADABLE)
    winner, label = reconcile_outcomes(first, second)
    return {
        "model_a": record.get("model_1"),
        "model_b": record.get("model_2"),
        "winner": winner.value,
        "label": label.value,
        "source": "llm-judge",
        "question_id": record.get("question_id"),
        "judge_model": _judge(record.get("judge")),
        "time": record.get("tstamp"),
    }


def _outcome(record: Mapping[str, object], key: str) -> Outcome | None:
    """Both games name the models, whatever the order; ``error`` is an unreadable reply."""
    text = record.get(key)
    if text == "error":
        return None
    if not isinstance(text, str) or text not in _WINNERS:
        raise BadBattle(f"{key} is {text!r}; expected model_1, model_2, tie or error")
    return _WINNERS[text]


def _judge(judge: Any) -> Any:
    """The model name of a judge given as model and prompt template."""
    return judge[0] if isinstance(judge, list) and judge else judge


MT_BENCH = BattleFormat(
    name="mt-bench",
    kinds=frozenset({"json", "jsonl", "parquet"}),
    recognises=_recognises,
    convert=_convert,
    gives={
        "model_a": "model_1",
        "model_b": "model_2",
        "winner": "g1_winner",
        "label": "g1_winner",
        "source": "g1_winner",
        "question_id": "question_id",
        "judge_model": "judge",
        "time": "tstamp",
    },
    also_reads=("g2_winner",),
)
