"""Inputs of a tournament: the prompt bank, the answers and the rubrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiltyard.core.judging.matches import Prompt
from tiltyard.core.judging.rubric import Rubric
from tiltyard.errors import BadConfig, UnreadableFile
from tiltyard.files.answers import Answer, drop_replaced_answers, read_answers
from tiltyard.files.format_detection import open_records
from tiltyard.settings.rubric_files import load_rubric
from tiltyard.settings.tournament_config import TournamentConfig

__all__ = ["TournamentInputs", "load_inputs", "read_bank", "responses_path"]


@dataclass(frozen=True)
class TournamentInputs:
    """The prompt bank in order, the answers of all entrants, and the rubric of each dimension."""

    bank: Sequence[Prompt]
    #: By (model, prompt_id).
    answers: Mapping[tuple[str, str], Answer]
    rubrics: Mapping[str, Rubric]


def load_inputs(config: TournamentConfig) -> TournamentInputs:
    """Read all files of a configuration; answers of models that are not entrants are ignored."""
    bank = read_bank(config)
    rubrics = {name: load_rubric(config, name) for name in config.dimensions}
    entrants = {one.entrant_id for one in config.entrants}
    prompts = {prompt.prompt_id: prompt.text for prompt in bank}
    answers: dict[tuple[str, str], Answer] = {}
    for answer in drop_replaced_answers(_answers(config, bank)):
        place = answer.model, answer.prompt_id
        if answer.model not in entrants or answer.prompt_id not in prompts:
            continue
        if answer.kind != "text":
            raise BadConfig(
                f"{answer.model}'s answer to prompt {answer.prompt_id} has the kind {answer.kind}; judges can only read text"
            )
        _check_prompt(answer, prompts[answer.prompt_id])
        earlier = answers.get(place)
        if earlier is not None and earlier.response != answer.response:
            raise BadConfig(
                f"{answer.model} has two different answers to prompt {answer.prompt_id}; "
                "keep one answer, or give the second another model name"
            )
        answers[place] = answer
    return TournamentInputs(bank, answers, rubrics)


def _check_prompt(answer: Answer, text: str) -> None:
    """Reject an answer to a different prompt with the same ID."""
    if answer.prompt.split() != text.split():
        raise BadConfig(
            f"{answer.model} answered a different prompt {answer.prompt_id} than the one in the bank: "
            f"{_brief(answer.prompt)}, not {_brief(text)}; answer the bank's prompt, or rename one"
        )


def _brief(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}…")


def read_bank(config: TournamentConfig) -> list[Prompt]:
    """The prompts of the bank, in order, with unique ``prompt_id``."""
    path = config.at(config.prompts.bank_path)
    bank: dict[str, Prompt] = {}
    for where, record in open_records(path).records():
        prompt = _prompt(record, where)
        if prompt.prompt_id in bank and bank[prompt.prompt_id] != prompt:
            raise UnreadableFile(f"{where}: duplicate prompt_id {prompt.prompt_id!r}; rename one")
        bank[prompt.prompt_id] = prompt
    if not bank:
        raise UnreadableFile(f"{path}: no prompts")
    return list(bank.values())


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
