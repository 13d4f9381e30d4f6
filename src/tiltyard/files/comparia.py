"""compar:IA votes: on whole conversations, and on single turns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tiltyard.errors import BadBattle
from tiltyard.files.conversations import answers_in
from tiltyard.files.format import BattleFormat, Converted, SkippedRecord
from tiltyard.files.timestamps import parse_arena_time

_KINDS = frozenset({"csv", "json", "jsonl", "parquet"})
_CHOICES = {"a_better": "model_a", "b_better": "model_b", "both_good": "tie", "both_bad": "both_bad"}


def _is_votes(columns: Collection[str]) -> bool:
    return {"model_a_name", "model_b_name", "chosen_model_name", "both_equal"} <= set(columns)


def _is_turns(columns: Collection[str]) -> bool:
    return {"comparison_id", "model_a", "model_b", "choice", "turn"} <= set(columns)


def _convert_vote(record: Mapping[str, object]) -> Converted:
    model_a, model_b = record.get("model_a_name"), record.get("model_b_name")
    winner = _vote(record, model_a, model_b)
    if isinstance(winner, SkippedRecord):
        return winner
    return {
        "model_a": model_a,
        "model_b": model_b,
        "winner": winner,
        "source": "human",
        "question_id": record.get("conversation_pair_id"),
        "category": record.get("selected_category"),
        "voter": record.get("visitor_id") or record.get("session_hash"),
        "time": parse_arena_time(record.get("timestamp")),
    }


def _vote(record: Mapping[str, object], model_a: Any, model_b: Any) -> str | SkippedRecord:
    chosen, equal = record.get("chosen_model_name"), _is_true(record.get("both_equal"))
    if equal and chosen is not None:
        raise BadBattle(f"both_equal is true, but chosen_model_name is {chosen!r}")
    if equal:
        return "tie"
    if chosen is None:
        return SkippedRecord("no choice was made")
    if model_a == model_b:
        return SkippedRecord("both answers came from one model")
    if chosen not in (model_a, model_b):
        return SkippedRecord("the chosen model is neither of the two")
    return "model_a" if chosen == model_a else "model_b"


def _convert_turn(record: Mapping[str, object]) -> Converted:
    choice = record.get("choice")
    if choice is None:
        return SkippedRecord("no choice was made")
    if choice == "idk":
        return SkippedRecord("the voter did not know")
    if _is_true(record.get("excluded")):
        return SkippedRecord("excluded by the arena")
    if not isinstance(choice, str) or choice not in _CHOICES:
        raise BadBattle(f"choice is {choice!r}; expected {', '.join(_CHOICES)} or idk")
    return {
        "model_a": record.get("model_a"),
        "model_b": record.get("model_b"),
        "winner": _CHOICES[choice],
        "source": "human",
        "question_id": record.get("comparison_id"),
        "language": _one_language(record.get("metadata")),
        "time": parse_arena_time(record.get("timestamp")),
    }


def _is_true(value: Any) -> bool:
    match value:
        case True | "True" | "true":
            return True
        case None | False | "False" | "false":
            return False
    raise BadBattle(f"{value!r} is not true or false (both_equal, excluded)")


def _one_language(metadata: Any) -> str | None:
    """The language of a conversation, if it has exactly one."""
    languages = metadata.get("languages") if isinstance(metadata, Mapping) else None
    match languages:
        case [str(language)]:
            return language
    return None


COMPARIA_VOTES = BattleFormat(
    name="comparia-votes",
    kinds=_KINDS,
    recognises=_is_votes,
    convert=_convert_vote,
    gives={
        "model_a": "model_a_name",
        "model_b": "model_b_name",
        "winner": "chosen_model_name",
        "source": "chosen_model_name",
        "question_id": "conversation_pair_id",
        "category": "selected_category",
        "voter": "visitor_id",
        "time": "timestamp",
    },
    also_reads=("both_equal", "session_hash"),
    answers=answers_in("conversation_a", "conversation_b"),
    answers_in=("conversation_a", "conversation_b"),
)
COMPARIA_TURNS = BattleFormat(
    name="comparia-turns",
    kinds=_KINDS,
    recognises=_is_turns,
    convert=_convert_turn,
    gives={
        "model_a": "model_a",
        "model_b": "model_b",
        "winner": "choice",
        "source": "choice",
        "question_id": "comparison_id",
        "language": "metadata",
        "time": "timestamp",
    },
    also_reads=("excluded",),
    answers=answers_in("response_a", "response_b"),
    answers_in=("response_a", "response_b"),
)
