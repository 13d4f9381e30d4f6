"""The battles that LMArena publishes: the data sets of 55, 100 and 140 thousand human preferences."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tiltyard.errors import BadBattle
from tiltyard.files.conversations import answers_in
from tiltyard.files.format import BattleFormat
from tiltyard.files.timestamps import parse_arena_time

__all__ = ["LMARENA_55K", "LMARENA_100K", "LMARENA_140K"]

_ONE_HOT = {"winner_model_a": "model_a", "winner_model_b": "model_b", "winner_tie": "tie"}
_CONVERSATIONS = ("conversation_a", "conversation_b")
_ALL_KINDS = frozenset({"csv", "json", "jsonl", "parquet"})


def _convert_55k(record: Mapping[str, object]) -> Mapping[str, object]:
    """One of three columns is 1. In this data set a tie may also mean that both were bad."""
    chosen = [winner for key, winner in _ONE_HOT.items() if _is_one(key, record.get(key))]
    if len(chosen) != 1:
        raise BadBattle(f"{len(chosen)} of {', '.join(_ONE_HOT)} are 1; expected exactly one")
    return {
        "model_a": record.get("model_a"),
        "model_b": record.get("model_b"),
        "winner": chosen[0],
        "source": "human",
        "question_id": record.get("id"),
    }


def _convert_100k(record: Mapping[str, object]) -> Mapping[str, object]:
    return {
        "model_a": record.get("model_a"),
        "model_b": record.get("model_b"),
        "winner": record.get("winner"),
        "source": "human",
        "question_id": record.get("question_id"),
        "category": _category(record),
        "language": record.get("language"),
        "voter": record.get("judge_hash"),
        "time": parse_arena_time(record.get("tstamp")),
    }


def _convert_140k(record: Mapping[str, object]) -> Mapping[str, object]:
    """A person's session may contain several votes, so it is used as the voter."""
    return {
        "model_a": record.get("model_a"),
        "model_b": record.get("model_b"),
        "winner": record.get("winner"),
        "source": "human",
        "question_id": record.get("id"),
        "category": _category(record),
        "language": record.get("language"),
        "voter": record.get("evaluation_session_id"),
        "time": parse_arena_time(record.get("timestamp")),
    }


def _is_one(key: str, value: Any) -> bool:
    match value:
        case 1 | "1" | "1.0" | True:
            return True
        case 0 | "0" | "0.0" | False:
            return False
    raise BadBattle(f"{key} is {value!r}; expected 0 or 1")


def _category(record: Mapping[str, object]) -> str | None:
    """Code, creative writing and maths, joined by ``+`` if a prompt belongs to several."""
    tags = record.get("category_tag")
    found = ["code"] if record.get("is_code") is True else []
    if isinstance(tags, Mapping):
        for group in ("creative_writing", "math"):
            tag = tags.get(f"{group}_v0.1")
            if isinstance(tag, Mapping) and tag.get(group) is True:
                found.append(group)
    return "+".join(found) or None


def _has(*names: str) -> Any:
    def recognises(columns: Collection[str]) -> bool:
        return set(columns).issuperset(names)

    return recognises


LMARENA_55K = BattleFormat(
    name="lmarena-55k",
    kinds=_ALL_KINDS,
    recognises=_has("model_a", "model_b", *_ONE_HOT),
    convert=_convert_55k,
    gives={
        "model_a": "model_a",
        "model_b": "model_b",
        "winner": "winner_tie",
        "source": "winner_tie",
        "question_id": "id",
    },
    also_reads=("winner_model_a", "winner_model_b"),
    answers=answers_in("response_a", "response_b"),
    answers_in=("response_a", "response_b"),
)
LMARENA_100K = BattleFormat(
    name="lmarena-100k",
    kinds=_ALL_KINDS,
    recognises=_has("model_a", "model_b", "winner", "judge_hash", "tstamp"),
    convert=_convert_100k,
    gives={
        "model_a": "model_a",
        "model_b": "model_b",
        "winner": "winner",
        "source": "winner",
        "question_id": "question_id",
        "category": "category_tag",
        "language": "language",
        "voter": "judge_hash",
        "time": "tstamp",
    },
    also_reads=("is_code",),
    answers=answers_in(*_CONVERSATIONS),
    answers_in=_CONVERSATIONS,
)
LMARENA_140K = BattleFormat(
    name="lmarena-140k",
    kinds=_ALL_KINDS,
    recognises=_has("id", "model_a", "model_b", "winner", "evaluation_order"),
    convert=_convert_140k,
    gives={
        "model_a": "model_a",
        "model_b": "model_b",
        "winner": "winner",
        "source": "winner",
        "question_id": "id",
        "category": "category_tag",
        "language": "language",
        "voter": "evaluation_session_id",
        "time": "timestamp",
    },
    also_reads=("is_code",),
    answers=answers_in(*_CONVERSATIONS),
    answers_in=_CONVERSATIONS,
)
