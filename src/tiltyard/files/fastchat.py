"""Battle logs cleaned by FastChat: one list of votes, with or without the conversations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tiltyard.errors import BadBattle
from tiltyard.files.conversations import answers_in
from tiltyard.files.format import BattleFormat, Converted, SkippedRecord
from tiltyard.files.timestamps import parse_arena_time

_CONVERSATIONS = ("conversation_a", "conversation_b")


def _recognises(columns: Collection[str]) -> bool:
    names = {"model_a", "model_b", "winner", "judge", "anony", "tstamp"}
    return names <= set(columns) and "judge_hash" not in columns


def _convert(record: Mapping[str, object]) -> Converted:
    if not _is_true("anony", record.get("anony")):
        return SkippedRecord("the voter knew the models (anony is false)")
    return {
        "model_a": record.get("model_a"),
        "model_b": record.get("model_b"),
        "winner": record.get("winner"),
        "source": "human",
        "question_id": record.get("question_id"),
        "language": record.get("language"),
        "voter": record.get("judge"),
        "time": parse_arena_time(record.get("tstamp")),
    }


def _is_true(key: str, value: Any) -> bool:
    match value:
        case True | "True" | "true":
            return True
        case False | "False" | "false":
            return False
    raise BadBattle(f"{key} is {value!r}; expected true or false")


FASTCHAT = BattleFormat(
    name="fastchat-battles",
    kinds=frozenset({"csv", "json", "jsonl", "parquet"}),
    recognises=_recognises,
    convert=_convert,
    gives={
        "model_a": "model_a",
        "model_b": "model_b",
        "winner": "winner",
        "source": "winner",
        "question_id": "question_id",
        "language": "language",
        "voter": "judge",
        "time": "tstamp",
    },
    also_reads=("anony",),
    answers=answers_in(*_CONVERSATIONS),
    answers_in=_CONVERSATIONS,
)
