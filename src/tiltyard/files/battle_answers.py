"""The answers inside battle files that contain them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from tiltyard.errors import BadBattle
from tiltyard.files.answer import Answer
from tiltyard.files.format import SkippedRecord, answers_in
from tiltyard.files.format_detection import detect, find_format, open_records

_PROMPTS = ("prompt", "instruction", "question")
_CONVERSATIONS = ("conversation_a", "full_conversation", "conversation")


def battle_answers(path: str | os.PathLike[str], *, format: str | None = None) -> Iterator[Answer]:
    """Both answers of every battle that includes them and the prompt; other battles are skipped.

    Conversations of several turns are skipped, because their answers do not belong to one prompt.
    """
    records = open_records(path)
    found = detect(records) if format is None else find_format(format, records)
    answers = found.answers or answers_in("response_a", "response_b")
    for where, record in records.records():
        try:
            row = found.convert(record)
        except BadBattle as error:
            raise BadBattle(error.problem, where=where) from None
        prompt = _prompt(record)
        if isinstance(row, SkippedRecord) or prompt is None or row.get("question_id") is None:
            continue
        try:
            texts = answers(record)
        except BadBattle:
            continue
        for side, text in zip("ab", texts, strict=True):
            answer = {
                "prompt_id": str(row["question_id"]),
                "prompt": prompt,
                "model": row.get(f"model_{side}"),
                "response": text,
                "category": row.get("category"),
                "language": row.get("language"),
            }
            yield Answer.from_dict(answer, where)


def _prompt(record: Mapping[str, object]) -> str | None:
    """The prompt: a column, or the only question of a conversation."""
    for name in _PROMPTS:
        value = record.get(name)
        if isinstance(value, str) and value.strip():
            # The only turn of a prompt; the oldest data set stores prompts as a JSON list of turns.
            if value.lstrip().startswith("["):
                try:
                    listed = json.loads(value)
                except (ValueError, RecursionError):
                    return value
                if isinstance(listed, list) and all(isinstance(one, str) for one in listed):
                    return listed[0] if len(listed) == 1 else None
            return value
    for name in _CONVERSATIONS:
        turns = _turns(record.get(name))
        asked = [turn.get("content") for turn in turns if turn.get("role") == "user"]
        if len(asked) == 1:
            return _text(asked[0])
    return None


def _turns(value: Any) -> list[Mapping[str, object]]:
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return []
    return [turn for turn in value if isinstance(turn, Mapping)] if isinstance(value, list) else []


def _text(content: Any) -> str | None:
    if isinstance(content, str):
        return content if content.strip() else None
    if isinstance(content, list):
        parts = [one.get("text") for one in content if isinstance(one, Mapping)]
        return "\n".join(part for part in parts if isinstance(part, str)) or None
    return None
