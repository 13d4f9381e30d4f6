"""Recomputes the questions a run had to ask, from its matches, answers and configuration."""

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
from tiltyard.files.answer import Answer
from tiltyard.runs.json_files import parse_document
from tiltyard.runs.tournament_files import ANSWERS, CONFIG
from tiltyard.runs.tournament_manifest import TournamentManifest


def configured_checks(manifest: TournamentManifest) -> CheckCounts | None:
    """The numbers of control questions and repeats; ``None`` if the configuration does not contain them."""
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
    """Responses by model and prompt, each read from the file on access."""

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
        return self.answer(*key).response

    def answer(self, model: str, prompt_id: str) -> Answer:
        """A response with its prompt."""
        with self._path.open("rb") as file:
            file.seek(self._places[model, prompt_id])
            return _answer(file.readline())

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
    """The questions of one dimension in canonical order, checked off as their rows are read.

    Every match has a row for each judge and order, whatever the result; control questions and
    repeats follow. If ``checks`` is ``None``, these may be any questions, each at most once.
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
        """The problem with the position of the next row, if any."""
        question, due = judged.question, next(self._due, None)
        if due is not None:
            return None if question == due else f"question {question.id} is in the place of {_named(due)}"
        if not self._open or question.purpose is QuestionPurpose.MATCH or question.id in self._extra:
            return f"question {question.id} is not part of this run, or is a duplicate"
        self._extra.add(question.id)
        return None

    def left(self) -> str | None:
        """What is missing after all rows have been read, if anything."""
        due = next(self._due, None)
        return None if due is None else f"ends before {_named(due)}"


def _named(question: Question) -> str:
    return (
        f"question {question.id} ({question.purpose.value}, judge {question.judge}, "
        f"prompt {question.prompt_id}, {question.first} and {question.second})"
    )
