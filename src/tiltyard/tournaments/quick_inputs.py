"""Writes the files of a tournament whose configuration nobody wrote: from answers, judges and rubrics."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiltyard.errors import BadOption
from tiltyard.files.answer import Answer
from tiltyard.files.answers import answers_in_memory, drop_replaced_answers, open_answers, write_answers
from tiltyard.files.battle_writer import write_rows
from tiltyard.files.memory_records import is_frame
from tiltyard.foundation.local_files import refuse_unwritable
from tiltyard.settings.prices import PriceEntry
from tiltyard.settings.ready_tournaments import QuickJudge, quick_document, quick_yaml
from tiltyard.settings.tournament_config import load_config

#: A file of answers in any known format, an answer, or the fields of one; or several of them.
AnswerInput = str | os.PathLike[str] | Answer | Mapping[str, Any]
#: A frame has a row for each answer, under the names of columns that files may have.
AnswerInputs = AnswerInput | Iterable[AnswerInput] | Any
CONFIG_NAME = "tournament.yaml"
_BANK_NAME = "prompts.jsonl"
#: Prompts of the mode ``pilot`` in a configuration that is written for answers.
_PILOT_PROMPTS = 50
#: The mode of a tournament that was written from answers.
QUICK_MODE = "quick"


@dataclass(frozen=True)
class StartedTournament:
    """A configuration that was written for answers that somebody has."""

    config: Path
    models: tuple[str, ...]
    prompts: int
    dimensions: tuple[str, ...]


def start_tournament(
    folder: Path, files: Sequence[Path], judges: Sequence[QuickJudge], rubrics: Sequence[str]
) -> StartedTournament:
    """Write a configuration that names these files, and their prompts; raises if there is one already."""
    answers = read_sources(files)
    document = quick_document(_models(answers), judges, rubrics, mode="pilot")
    document["answers"] = [Path(os.path.relpath(file, folder)).as_posix() for file in files]
    stated = {"judges": document["modes"]["pilot"]["judges"]} if judges else {}
    document["modes"] = {
        "pilot": {**stated, "prompts": {"n": _PILOT_PROMPTS}},
        "headline": {**stated, "prompts": "all"},
    }
    for path in (folder / CONFIG_NAME, folder / _BANK_NAME):
        if path.exists():
            raise BadOption(f"{path} already exists; choose another folder, or move the file")
    _write_configuration(folder, document, answers)
    config = load_config(folder / CONFIG_NAME)
    entrants = tuple(one.entrant_id for one in config.entrants)
    return StartedTournament(
        folder / CONFIG_NAME, entrants, len({one.prompt_id for one in answers}), config.dimensions
    )


def quick_run_inputs(
    sources: AnswerInputs,
    judges: Sequence[QuickJudge],
    rubrics: Sequence[str],
    *,
    parent: Path,
    budget_usd: float | None = None,
    prices: Mapping[str, PriceEntry] | None = None,
) -> Path:
    """Write a tournament of all models in some answers to a folder, and return the folder.

    The same inputs have the same folder, so that a run is resumed.
    """
    answers = read_sources(sources)
    document = quick_document(
        _models(answers), judges, rubrics, mode=QUICK_MODE, budget_usd=budget_usd, prices=prices
    )
    folder = quick_folder(parent, QUICK_MODE, document, answers)
    write_quick_inputs(folder, document, answers)
    return folder


def read_sources(sources: AnswerInputs) -> list[Answer]:
    """The answers of files in any known format, and those that are given as values, that judges can compare."""
    single = isinstance(sources, str | os.PathLike | Answer | Mapping) or is_frame(sources)
    given: Any = [sources] if single else sources
    values: list[Answer | Mapping[str, Any]] = []
    found: list[Answer] = []
    for source in given:
        if isinstance(source, str | os.PathLike):
            found += drop_replaced_answers(open_answers(source).answers())
        elif is_frame(source):
            found += read_values(source, "the frame")
        else:
            values.append(source)
    return [one for one in (*found, *read_values(values, "these answers")) if one.comparable]


def read_values(values: Any, name: str) -> list[Answer]:
    """Answers, or mappings with their fields; a frame, or mappings without ``prompt_id``, as the rows of a table are read."""
    rows = values if is_frame(values) else list(values)
    if is_frame(rows) or (rows and all(isinstance(one, Mapping) and "prompt_id" not in one for one in rows)):
        return list(drop_replaced_answers(answers_in_memory(rows, name).answers()))
    return list(drop_replaced_answers(_answer_of(one, number) for number, one in enumerate(rows, start=1)))


def _answer_of(value: Answer | Mapping[str, Any], number: int) -> Answer:
    """An answer that is given as a value, or as a mapping with its fields."""
    if isinstance(value, Answer):
        return value
    if isinstance(value, Mapping):
        return Answer.from_dict(value, f"answer {number}")
    raise BadOption(f"answer {number} is {type(value).__name__}; expected a path, an Answer or a mapping")


def _models(answers: Iterable[Answer]) -> list[str]:
    models = list(dict.fromkeys(one.model for one in answers))
    if len(models) < 2:
        raise BadOption(
            f"the files have answers of {', '.join(models) or 'no model'}; a tournament needs those of two models or more"
        )
    return models


def quick_folder(parent: Path, prefix: str, document: Mapping[str, Any], answers: Iterable[Answer]) -> Path:
    """A folder named by its contents; budget and prices do not matter."""
    digest = hashlib.sha256()
    identity = {name: value for name, value in document.items() if name not in ("budget_usd", "prices")}
    for part in (identity, *(one.to_dict() for one in answers)):
        digest.update(json.dumps(part, sort_keys=True, default=str).encode() + b"\n")
    return parent / f"{prefix}-{digest.hexdigest()[:10]}"


def write_quick_inputs(folder: Path, document: Mapping[str, Any], answers: Sequence[Answer]) -> None:
    """Write configuration, answers, and the prompts that they answer."""
    _write_configuration(folder, document, answers)
    write_answers(folder / "answers.jsonl", answers)


def _write_configuration(folder: Path, document: Mapping[str, Any], answers: Iterable[Answer]) -> None:
    with refuse_unwritable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CONFIG_NAME).write_text(quick_yaml(document), encoding="utf-8")
    write_rows(folder / _BANK_NAME, _bank(answers))


def _bank(answers: Iterable[Answer]) -> Iterator[dict[str, object]]:
    first: dict[str, Answer] = {}
    for one in answers:
        first.setdefault(one.prompt_id, one)
    for one in first.values():
        row = {
            "prompt_id": one.prompt_id,
            "text": one.prompt,
            "category": one.category,
            "language": one.language,
            "gold": one.gold,
            "expected_behavior": one.expected_behavior,
        }
        yield {name: value for name, value in row.items() if value is not None}
