"""Reads the answers of other tools as `Answer` objects."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tiltyard.errors import UnreadableFile
from tiltyard.files.answer import Answer
from tiltyard.files.answer_formats.model_answers import model_answers, read_questions
from tiltyard.files.answers import drop_replaced_answers
from tiltyard.files.format_detection import open_records

Paths = Iterable[str | os.PathLike[str]]


def entrant_answers(bank: str | os.PathLike[str], responses: Paths) -> Iterator[Answer]:
    """Read ``responses_<entrant>.jsonl`` files and the prompt bank that they answer.

    Records of the bank have ``prompt_id`` and ``text``, those of the responses ``entrant_id``,
    ``prompt_id`` and ``response_text``; other fields are kept. Truncated responses that
    were replaced by complete ones are left out.
    """
    return drop_replaced_answers(_entrant_answers(bank, responses))


def _entrant_answers(bank: str | os.PathLike[str], responses: Paths) -> Iterator[Answer]:
    prompts = _by_key(bank, "prompt_id")
    for path in responses:
        for where, record in open_records(path).records():
            row = dict(record)
            prompt = dict(_found(prompts, row.get("prompt_id"), where, bank))
            known = {
                "prompt_id": row.pop("prompt_id"),
                "prompt": prompt.pop("text", None),
                "model": row.pop("entrant_id", None),
                "response": row.pop("response_text", None),
                "category": prompt.pop("subject", None),
                "gold": prompt.pop("gold_answer", None),
                "expected_behavior": prompt.pop("expected_behavior", None),
                "source": prompt.pop("source", None) or None,
            }
            prompt.pop("prompt_id")
            yield Answer.from_dict(prompt | row | known, where)


def arena_hard_answers(answers: Paths, questions: str | os.PathLike[str] | None = None) -> Iterator[Answer]:
    """Read arena-hard's ``model_answer/*.jsonl``; ``question.jsonl`` adds the categories."""
    asked = None if questions is None else read_questions(Path(questions))
    for path in answers:
        yield from model_answers(open_records(path), Counter(), asked)


def _by_key(path: str | os.PathLike[str], key: str) -> dict[str, Mapping[str, object]]:
    """The records of a file by name; duplicate names raise an error."""
    found: dict[str, Mapping[str, object]] = {}
    for where, record in open_records(path).records():
        name = record.get(key)
        if name is None:
            raise UnreadableFile(f"{where}: {key} is missing")
        if str(name) in found:
            raise UnreadableFile(f"{where}: duplicate prompt {name!r}; rename one")
        found[str(name)] = record
    return found


def _found(
    prompts: Mapping[str, Mapping[str, object]], name: Any, where: str, path: str | os.PathLike[str]
) -> Mapping[str, object]:
    if str(name) not in prompts:
        raise UnreadableFile(
            f"{where}: prompt {name!r} is not in {os.fspath(path)}; give the prompt bank of these responses"
        )
    return prompts[str(name)]
