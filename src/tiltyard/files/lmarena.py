"""The battles that LMArena publishes: the data sets of 55, 100 and 140 thousand human preferences."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tiltyard.errors import BadBattle
from tiltyard.files.conversations import answers_in
from tiltyard.files.format import BattleFormat
from tiltyard.files.timestamps import parse_arena_time

_ONE_HOT = {"winner_model_a": "model_a", "winner_model_b": "model_b", "winner_tie": "tie"}
_CONVERSATIONS = ("conversation_a", "conversation_b")
_ALL_KINDS = frozenset({"csv", "json", "jsonl", "parquet"})
#: A prompt is hard if it meets so many of the seven criteria, and long from so many tokens on.
_HARD_COUNT = 6
_LONG_QUERY_TOKENS = 500
#: Where the counts of each style trait are stated.
_COUNTS = {"headers": "header_count", "lists": "list_count", "bold": "bold_count"}


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
    """The categories of LMArena's boards that a prompt belongs to, joined by ``+``."""
    tags, counts = record.get("category_tag"), record.get("conv_metadata")
    criteria = _part(tags, "criteria_v0.1")
    belongs = {
        "code": record.get("is_code") is True,
        "creative_writing": _part(tags, "creative_writing_v0.1").get("creative_writing") is True,
        "hard": sum(met is True for met in criteria.values()) >= _HARD_COUNT,
        "instruction_following": _part(tags, "if_v0.1").get("if") is True,
        "long_query": _number(_part(counts, None).get("sum_user_tokens")) >= _LONG_QUERY_TOKENS,
        "math": _part(tags, "math_v0.1").get("math") is True,
        "multi_turn": max(_number(record.get("turn")), _number(_part(counts, None).get("turns"))) > 1,
    }
    return "+".join(name for name, is_member in belongs.items() if is_member) or None


def _style(record: Mapping[str, object]) -> dict[str, float]:
    """The counts that LMArena controls for: tokens of the responses, headers, lists and bold text."""
    counts = _part(record, "conv_metadata")
    found: dict[str, float] = {}
    for side in "ab":
        stated = {"length": counts.get(f"sum_assistant_{side}_tokens")}
        stated |= {trait: _sum(counts.get(f"{key}_{side}")) for trait, key in _COUNTS.items()}
        for trait, value in stated.items():
            if not isinstance(value, int | float):
                raise BadBattle(
                    f"conv_metadata states no {trait} of response {side}; without conv_metadata the responses are measured"
                )
            found[f"{trait}_{side}"] = float(value)
    return found


def _sum(counts: object) -> float | None:
    """The total of counts by kind, such as headers by level."""
    if not isinstance(counts, Mapping):
        return None
    return float(sum(_number(value) for value in counts.values()))


def _part(record: object, name: str | None) -> Mapping[str, Any]:
    """A part of a record, or the record itself; empty if there is none."""
    part = record.get(name) if name is not None and isinstance(record, Mapping) else record
    return part if isinstance(part, Mapping) else {}


def _number(value: object) -> float:
    return value if isinstance(value, int | float) else 0


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
    also_reads=("is_code", "conv_metadata", "turn"),
    answers=answers_in(*_CONVERSATIONS),
    answers_in=_CONVERSATIONS,
    style=_style,
    style_in=("conv_metadata",),
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
    also_reads=("is_code", "conv_metadata", "turn"),
    answers=answers_in(*_CONVERSATIONS),
    answers_in=_CONVERSATIONS,
    style=_style,
    style_in=("conv_metadata",),
)
