"""Which questions a run had to ask: again from its matches, its answers and its configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import chain
from pathlib import Path

from tiltyard.core.judging.canaries import CheckCounts, check_questions, match_questions
from tiltyard.core.judging.judged_question import JudgedQuestion
from tiltyard.core.judging.matches import Match
from tiltyard.core.judging.question import Question, QuestionPurpose
from tiltyard.errors import UnreadableFile
from tiltyard.files.answers import Answer
from tiltyard.runs.json_files import parse_document
from tiltyard.runs.tournament_files import ANSWERS, CONFIG
from tiltyard.runs.tournament_manifest import TournamentManifest

__all__ = ["ExpectedQuestions", "ResponseTexts", "configured_checks"]


def configured_checks(manifest: TournamentManifest) -> CheckCounts | None:
    """How many questions were planted and repeated; ``None`` where the configuration does not say."""
    if "checks" not in manifest.config:
        return None
    stated, names = manifest.config["checks"], [field.name for field in fields(CheckCounts)]
    if (
        not isinstance(stated, dict)
        or set(stated) != set(names)
        or not all(type(count) is int and count >= 0 for count in stated.values())
    ):
        raise UnreadableFile(f"{CONFIG}: checks: expected a count, 0 or more, of each: {', '.join(names)}")
    return CheckCounts(**stated)


class ResponseTexts(Mapping[tuple[str, str], str]):
    """Responses by model and prompt, each read from the file when it is wanted."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: dict[tuple[str, str], int] = {}
        place = 0
        with path.open("rb") as file:
            for line in file:
                answer = _answer(line)
                self._places[answer.model, answer.prompt_id] = place
                place += len(line)

    def __getitem__(self, key: tuple[str, str]) -> str:
        with self._path.open("rb") as file:
            file.seek(self._places[key])
            return _answer(file.readline()).response

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _answer(line: bytes) -> Answer:
    row = parse_document(ANSWERS, line)
    if not isinstance(row, dict):
        raise UnreadableFile(f"{ANSWERS}: not a JSON object")
    return Answer.from_dict(row, ANSWERS)


class ExpectedQuestions:
    """The questions of one dimension in canonical order, ticked off as their rows are read.

    Every match has a row for each judge and order, whatever became of it; planted questions and
    repeats follow. Where ``checks`` is ``None``, those may be any, each once.
    """

    def __init__(
        self,
        matches: Sequence[Match],
        judges: Sequence[str],
        checks: CheckCounts | None,
        texts: Mapping[tuple[str, str], str],
    ) -> None:
        asked = chain.from_iterable(match_questions(match, judges) for match in matches)
        planted = [] if checks is None else check_questions(matches, texts, judges, checks)
        self._due = chain(asked, planted)
        self._open = checks is None
        self._extra: set[str] = set()

    def problem(self, judged: JudgedQuestion) -> str | None:
        """What is wrong with the place of the next row, if anything."""
        question, due = judged.question, next(self._due, None)
        if due is not None:
            return None if question == due else f"question {question.id} stands where {_named(due)} is due"
        if not self._open or question.purpose is QuestionPurpose.MATCH or question.id in self._extra:
            return f"question {question.id} is none of this run, or stands twice"
        self._extra.add(question.id)
        return None

    def left(self) -> str | None:
        """What is missing when all rows have been read, if anything."""
        due = next(self._due, None)
        return None if due is None else f"ends where {_named(due)} is due"


def _named(question: Question) -> str:
    return (
        f"question {question.id} ({question.purpose.value}, judge {question.judge}, "
        f"prompt {question.prompt_id}, {question.first} and {question.second})"
    )
