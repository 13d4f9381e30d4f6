"""Inputs of a tournament: the prompt bank, the answers and the rubrics; and files for one whose configuration nobody wrote."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiltyard.core.judging.conversation import image_urls
from tiltyard.core.judging.matches import Prompt
from tiltyard.core.judging.question import Rubric
from tiltyard.errors import BadConfig, BadOption, UnreadableFile
from tiltyard.files.answer import Answer
from tiltyard.files.answers import (
    LOG_FORMATS,
    answers_in_memory,
    drop_replaced_answers,
    open_answers,
    read_answers,
    write_answers,
)
from tiltyard.files.battle_writer import write_rows
from tiltyard.files.format_detection import open_records
from tiltyard.files.memory_records import is_frame
from tiltyard.foundation.local_files import refuse_unwritable
from tiltyard.settings.prices import PriceEntry
from tiltyard.settings.ready_tournaments import QuickJudge, quick_document, quick_yaml
from tiltyard.settings.tournament_config import TournamentConfig, load_config, load_rubric

#: An image that can be sent to a judge, and the most characters of one.
_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]")
_IMAGE_CHARACTERS = 5_000_000
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
class TournamentInputs:
    """The prompt bank in order, the answers of all entrants, and the rubric of each dimension."""

    bank: Sequence[Prompt]
    #: By (model, prompt_id).
    answers: Mapping[tuple[str, str], Answer]
    rubrics: Mapping[str, Rubric]


def load_inputs(config: TournamentConfig) -> TournamentInputs:
    """Read all files of a configuration; answers of models that are not entrants are ignored.

    Judges compare the first answer of each model to a prompt, and only responses that there are.
    """
    bank = read_bank(config)
    rubrics = {name: load_rubric(config, name) for name in config.dimensions}
    entrants = {one.entrant_id for one in config.entrants}
    prompts = {prompt.prompt_id: prompt.text for prompt in bank}
    answers: dict[tuple[str, str], Answer] = {}
    shown_images: dict[str, tuple[str, ...]] = {}
    for answer in drop_replaced_answers(_answers(config, bank)):
        place = answer.model, answer.prompt_id
        if answer.model not in entrants or answer.prompt_id not in prompts:
            continue
        if not answer.comparable:
            continue
        if answer.kind != "text":
            raise BadConfig(
                f"{answer.model}'s answer to prompt {answer.prompt_id} has the kind {answer.kind}; judges can only read text"
            )
        # Reject an answer to a different prompt with the same ID.
        text = prompts[answer.prompt_id]
        if answer.prompt.split() != text.split():
            raise BadConfig(
                f"{answer.model} answered a different prompt {answer.prompt_id} than the one in the bank: "
                f"{_brief(answer.prompt)}, not {_brief(text)}; answer the bank's prompt, or rename one"
            )
        _check_parts(answer)
        images = tuple(url for message in answer.messages for url in image_urls(message))
        if shown_images.setdefault(answer.prompt_id, images) != images:
            raise BadConfig(
                f"the answers to prompt {answer.prompt_id} have different images in their conversations"
            )
        earlier = answers.get(place)
        if earlier is not None and earlier.response != answer.response:
            raise BadConfig(
                f"{answer.model} has two different answers to prompt {answer.prompt_id}; "
                "keep one answer, or give the second another model name"
            )
        answers[place] = answer
    return TournamentInputs(bank, answers, rubrics)


def _check_parts(answer: Answer) -> None:
    """Reject a conversation with files, or with images that cannot be sent.

    In steps they are only named, since the response is judged.
    """
    parts = [part for one in answer.messages for part in one.parts]
    kinds = sorted({part.kind for part in parts if part.kind not in ("text", "image")})
    if kinds:
        raise BadConfig(
            f"the conversation of prompt {answer.prompt_id} has parts that are neither text nor images "
            f"({', '.join(kinds)}); judges cannot read them: leave the prompt out of the bank"
        )
    for part in parts:
        if part.kind == "image" and (not part.url or _IMAGE.match(part.url) is None):
            raise BadConfig(
                f"the conversation of prompt {answer.prompt_id} has an image that is not in the file; expected "
                "a data: URL of a PNG, JPEG, GIF or WebP image in base64"
            )
        if part.kind == "image" and part.url and len(part.url) > _IMAGE_CHARACTERS:
            raise BadConfig(
                f"the conversation of prompt {answer.prompt_id} has an image of more than "
                f"{_IMAGE_CHARACTERS} characters in base64, which providers refuse"
            )


def _brief(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}…")


def read_bank(config: TournamentConfig) -> list[Prompt]:
    """The prompts of the bank, in order, with unique ``prompt_id``."""
    path = config.at(config.prompts.bank_path)
    bank: dict[str, Prompt] = {}
    for where, prompt in bank_prompts(path):
        if prompt.prompt_id in bank and bank[prompt.prompt_id] != prompt:
            raise UnreadableFile(f"{where}: duplicate prompt_id {prompt.prompt_id!r}; rename one")
        bank[prompt.prompt_id] = prompt
    if not bank:
        raise UnreadableFile(f"{path}: no prompts")
    return list(bank.values())


def bank_prompts(path: Path) -> Iterator[tuple[str, Prompt]]:
    """The prompts of a bank; of a log of another tool, those of its samples."""
    # A pipe can be read only once, and is no log.
    source = open_answers(path) if path.is_file() else None
    if source is None or source.format not in LOG_FORMATS:
        for where, record in open_records(path).records():
            yield where, _prompt(record, where)
        return
    for answer in source.answers():
        prompt = Prompt(
            answer.prompt_id, answer.prompt, answer.source or "", answer.category, gold=answer.gold
        )
        yield f"{path}, prompt {answer.prompt_id}", prompt


def _prompt(record: Mapping[str, Any], where: str) -> Prompt:
    name = record.get("prompt_id")
    text = record.get("text", record.get("prompt"))
    if name is None or not isinstance(text, str):
        raise UnreadableFile(f"{where}: expected the fields prompt_id and text (or prompt)")
    return Prompt(
        prompt_id=str(name),
        text=text,
        source=_optional(record, where, "source") or "",
        category=_optional(record, where, "category", "subject"),
        language=_optional(record, where, "language"),
        gold=_optional(record, where, "gold", "gold_answer"),
        expected_behavior=_optional(record, where, "expected_behavior"),
    )


def _optional(record: Mapping[str, Any], where: str, *names: str) -> str | None:
    for name in names:
        value = record.get(name)
        if value is not None and value != "":
            if not isinstance(value, str):
                raise UnreadableFile(f"{where}: {name} is {type(value).__name__}; expected text")
            return value
    return None


def responses_path(config: TournamentConfig, entrant: str) -> Path:
    """The responses file of an entrant in ``caches.responses_dir``.

    Slashes in a name, as in ``org/model``, become ``%2F``.
    """
    assert config.caches.responses_dir is not None
    name = entrant.replace("/", "%2F").replace("\\", "%5C")
    return config.at(config.caches.responses_dir) / f"responses_{name}.jsonl"


def _answers(config: TournamentConfig, bank: Sequence[Prompt]) -> Iterator[Answer]:
    for path in config.answers:
        yield from read_answers(config.at(path))
    if config.caches.responses_dir is not None:
        prompts = {prompt.prompt_id: prompt for prompt in bank}
        for entrant in config.entrants:
            yield from _responses(responses_path(config, entrant.entrant_id), prompts)


def _responses(path: Path, prompts: Mapping[str, Prompt]) -> Iterator[Answer]:
    """Answers written by `tiltyard generate` or another tool; an empty file has none."""
    if not path.is_file() or not path.stat().st_size:
        return
    for where, record in open_records(path).records():
        row = dict(record)
        prompt = prompts.get(str(row.get("prompt_id")))
        if prompt is None:
            continue
        known = {
            "prompt_id": prompt.prompt_id,
            "prompt": prompt.text,
            "model": row.pop("entrant_id", None),
            "response": row.pop("response_text", None),
            "category": prompt.category,
            "language": prompt.language,
            "gold": prompt.gold,
            "expected_behavior": prompt.expected_behavior,
            "source": prompt.source or None,
        }
        yield Answer.from_dict(row | known, where)


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
