"""Answers of arena-hard-auto and MT-bench: ``model_answer/<model>.jsonl`` beside ``question.jsonl``.

Newer files have ``messages``; older ones have only ``choices`` and need the questions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from tiltyard.core.judging.conversation import split_conversation
from tiltyard.errors import UnreadableFile
from tiltyard.files.answer import (
    MORE_RESPONSES_NOTE,
    NO_RESPONSE_NOTE,
    Answer,
    AnswerUsage,
    clean_text,
    read_messages,
)
from tiltyard.files.answer_formats.answer_tables import all_records
from tiltyard.files.format_detection import open_records
from tiltyard.files.input_file import Records

_QUESTIONS = "question.jsonl"


def is_model_answers(columns: Collection[str]) -> bool:
    names = set(columns)
    return {"uid", "model", "messages"} <= names or {"question_id", "model_id", "choices"} <= names


def model_answers(records: Records, tally: Counter[str]) -> Iterator[Answer]:
    """Read the answers of one model. Questions are looked for in the folder above."""
    place = Path(records.name).absolute().parent.parent / _QUESTIONS
    asked = _read_questions(place) if place.is_file() else {}
    for where, record in all_records(records):
        name = record.get("uid", record.get("question_id"))
        if name is None:
            raise UnreadableFile(f"{where}: uid is missing; expected an answer of arena-hard or MT-bench")
        question = asked.get(str(name))
        found = _answer(record, question or {}, where, tally)
        if found is None:
            tally[NO_RESPONSE_NOTE] += 1
            continue
        model, category = record.get("model", record.get("model_id")), (question or {}).get("category")
        if not isinstance(model, str):
            raise UnreadableFile(f"{where}: model is missing; expected text")
        yield Answer(
            prompt_id=clean_text(str(name)),
            model=clean_text(model),
            category=clean_text(category) if isinstance(category, str) else None,
            source="arena-hard" if "uid" in record else None,
            **found,
        )


def _read_questions(path: Path) -> dict[str, Mapping[str, object]]:
    """The questions of a file by their id; duplicate ids raise an error."""
    found: dict[str, Mapping[str, object]] = {}
    for where, record in all_records(open_records(path)):
        name = record.get("uid", record.get("question_id"))
        if name is None:
            raise UnreadableFile(f"{where}: uid is missing; expected a question")
        if str(name) in found:
            raise UnreadableFile(f"{where}: duplicate question {name!r}; rename one")
        found[str(name)] = record
    return found


def _answer(
    record: Mapping[str, object], question: Mapping[str, object], where: str, tally: Counter[str]
) -> dict[str, Any] | None:
    """The conversation of a record; ``None`` if it has no response."""
    messages = record.get("messages")
    if not isinstance(messages, list):
        messages = _older_messages(record.get("choices"), question, where, tally)
    split = split_conversation(read_messages(messages, where))
    prompts = [one for one in split.asked if one.role == "user"]
    if split.response is None:
        return None
    if not prompts:
        raise UnreadableFile(f"{where}: messages has no message of the user")
    asked = question.get("prompt")
    return {
        "prompt": clean_text(asked) if isinstance(asked, str) else prompts[-1].text,
        "response": split.response,
        "system": split.system,
        "messages": () if len(split.asked) == 1 and prompts[0].only_text else split.asked,
        "trace": split.trace,
        "usage": _usage(record.get("metadata")),
    }


def _older_messages(
    choices: object, question: Mapping[str, object], where: str, tally: Counter[str]
) -> list[dict[str, object]]:
    """The turns of the question and of the first choice, one after the other."""
    asked = question.get("turns")
    if not isinstance(asked, list) or not asked:
        raise UnreadableFile(
            f"{where}: only the answer is in this file; put {_QUESTIONS} into the folder above, "
            "as arena-hard and MT-bench do"
        )
    listed = choices if isinstance(choices, list) else []
    if len(listed) > 1:
        tally[MORE_RESPONSES_NOTE] += 1
    first = listed[0] if listed else None
    turns = first.get("turns") if isinstance(first, Mapping) else None
    said = turns if isinstance(turns, list) else []
    messages: list[dict[str, object]] = []
    for k, text in enumerate(asked):
        messages.append({"role": "user", "content": _turn(text)})
        if k < len(said):
            messages.append({"role": "assistant", "content": _turn(said[k])})
    return messages


def _turn(turn: object) -> object:
    return turn.get("content") if isinstance(turn, Mapping) else turn


def _usage(metadata: object) -> AnswerUsage | None:
    tokens = metadata.get("token_len") if isinstance(metadata, Mapping) else None
    if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 0:
        return None
    return AnswerUsage(output_tokens=tokens)
