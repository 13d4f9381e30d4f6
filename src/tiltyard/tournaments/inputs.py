"""Inputs of a tournament: the prompt bank, the answers and the rubrics."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiltyard.core.judging.conversation import image_urls
from tiltyard.core.judging.matches import Prompt
from tiltyard.core.judging.question import Rubric
from tiltyard.errors import BadConfig, UnreadableFile
from tiltyard.files.answer import Answer
from tiltyard.files.answers import LOG_FORMATS, drop_replaced_answers, open_answers, read_answers
from tiltyard.files.format_detection import open_records
from tiltyard.settings.tournament_config import TournamentConfig, load_rubric

#: An image that can be sent to a judge, and the most characters of one.
_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]")
_IMAGE_CHARACTERS = 5_000_000


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
