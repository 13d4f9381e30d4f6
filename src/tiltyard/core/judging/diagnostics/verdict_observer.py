"""The observer: it is shown questions with what became of them, and keeps what diagnostics need."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from tiltyard.core.judging.diagnostics.judge_diagnostics import (
    NO_FAMILY,
    JudgeDiagnostics,
    JudgeObservations,
    diagnose,
)
from tiltyard.core.judging.diagnostics.verdict_rows import PURPOSES, SIGNS, VerdictRows, row_values
from tiltyard.core.judging.question import Question, QuestionPurpose
from tiltyard.core.judging.verdict import QuestionState, Verdict
from tiltyard.errors import BadOption

__all__ = ["ResponseTraits", "VerdictObserver"]

_PURPOSE = {purpose: k for k, purpose in enumerate(PURPOSES)}
_SPOILING = (QuestionPurpose.TRUNCATED, QuestionPurpose.GARBAGE)


@dataclass(frozen=True, slots=True)
class ResponseTraits:
    """What shows of the two responses from outside: characters, list items, families of their models."""

    first_length: int
    second_length: int
    first_lists: int = 0
    second_lists: int = 0
    first_family: str | None = None
    second_family: str | None = None


class VerdictObserver:
    """Collects verdicts question by question, in any order; 24 bytes for each that is ok.

    Each question is shown once, with the state in which it ended. Repeats and canaries may
    come without traits, and so may matches whose responses are not at hand.
    """

    def __init__(self) -> None:
        self._states: dict[tuple[str, str], Counter[QuestionState]] = {}
        self._rows: dict[tuple[str, str], array[int]] = {}
        self._prompts: dict[str, int] = {}
        self._models: dict[str, int] = {}
        self._families: dict[str | None, int] = {None: -1}

    def add(
        self,
        question: Question,
        state: QuestionState,
        verdict: Verdict | None,
        traits: ResponseTraits | None = None,
    ) -> None:
        """Take in one question. Only a question whose state is ok has a verdict."""
        _check(question, state, verdict)
        place = question.judge, question.dimension
        if place not in self._rows:
            self._states[place], self._rows[place] = Counter(), array("i")
        self._states[place][state] += 1
        if verdict is not None:
            self._rows[place].extend(self._row(question, verdict, traits or ResponseTraits(0, 0)))

    def _row(self, question: Question, verdict: Verdict, traits: ResponseTraits) -> tuple[int, ...]:
        prompts, models, families = self._prompts, self._models, self._families
        names = (
            prompts.setdefault(question.prompt_id, len(prompts)),
            models.setdefault(question.first, len(models)),
            models.setdefault(question.second, len(models)),
            families.setdefault(traits.first_family, len(families)),
            families.setdefault(traits.second_family, len(families)),
        )
        return row_values(
            names,
            _PURPOSE[question.purpose],
            SIGNS[verdict.step],
            verdict.both_bad,
            question.spoilt,
            _sign(traits.first_length - traits.second_length),
            _sign(traits.first_lists - traits.second_lists),
        )

    def diagnostics(
        self, families: Mapping[str, str | None] | None = None, level: float = 0.95
    ) -> tuple[JudgeDiagnostics, ...]:
        """Diagnostics of each judge: over all dimensions first, then one by one; judges by name.

        ``families`` gives each judge's own family; a judge without one has no same-family preference.
        """
        own = {
            judge: self._families.get(family, NO_FAMILY)
            for judge, family in (families or {}).items()
            if family is not None
        }
        seen = {
            place: JudgeObservations.of(self._states[place], VerdictRows.read(rows))
            for place, rows in self._rows.items()
        }
        return diagnose(seen, own, level)


def _check(question: Question, state: QuestionState, verdict: Verdict | None) -> None:
    purpose, problem = question.purpose, None
    if (verdict is None) == (state is QuestionState.OK):
        problem = f"is {state} with verdict {verdict!r}; ok has a verdict and nothing else has"
    elif purpose in _SPOILING and question.spoilt not in (0, 1):
        problem = f"has spoilt {question.spoilt!r}; expected the slot of the copy, 0 or 1"
    elif purpose is QuestionPurpose.REPEAT and question.replicate < 1:
        problem = f"has replicate {question.replicate}; expected 1 or more"
    if problem is not None:
        asked = f"a {purpose} question to {question.judge} on prompt {question.prompt_id!r}"
        raise BadOption(f"{asked} {problem}")


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)
