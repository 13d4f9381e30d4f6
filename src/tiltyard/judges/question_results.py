"""The results of a plan's questions, read from the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol

from tiltyard.core.judging.judged_question import JudgedQuestion, match_id_of
from tiltyard.core.judging.question import Question
from tiltyard.core.judging.verdict import QuestionState
from tiltyard.judges.judge_setup import JudgeSetup
from tiltyard.judges.ledger import Ledger
from tiltyard.judges.providers.provider import Body

__all__ = ["PlannedQuestions", "QuestionResults"]

_QUESTION_BATCH_COUNT = 500


class PlannedQuestions(Protocol):
    """The questions of a plan with the keys of their requests, and who is asked."""

    def keys(self, dimension: str) -> Iterator[tuple[Question, str]]: ...
    def seat(self, question: Question) -> JudgeSetup: ...


class QuestionResults:
    """The results of a plan's questions. Raw replies are parsed again each time: the cache stores only them."""

    def __init__(self, plan: PlannedQuestions, ledger: Ledger, run: str) -> None:
        self._plan = plan
        self._ledger = ledger
        self._run = run
        self._failed: dict[str, tuple[str, str | None]] | None = None
        self._states: dict[str, Counter[str]] = {}
        #: The first error message of each state, of the dimensions read so far.
        self.problems: dict[str, str] = {}
        #: The first question whose reply could not be parsed.
        self.first_unreadable: JudgedQuestion | None = None

    @property
    def states(self) -> Counter[str]:
        """Number of questions by state, of the dimensions read so far."""
        return sum(self._states.values(), Counter[str]())

    def dimension(self, name: str) -> Iterator[JudgedQuestion]:
        """All questions of one dimension with their results, in canonical order."""
        states = self._states[name] = Counter()
        for judged in self._dimension(name):
            states[judged.state] += 1
            if judged.problem is not None:
                self.problems.setdefault(judged.state, judged.problem)
            if judged.state is QuestionState.UNPARSEABLE and self.first_unreadable is None:
                self.first_unreadable = judged
            yield judged

    def _dimension(self, name: str) -> Iterator[JudgedQuestion]:
        questions = self._plan.keys(name)
        while together := list(islice(questions, _QUESTION_BATCH_COUNT)):
            replies = self._ledger.replies(key for _, key in together)
            for question, key in together:
                yield self._judged(question, key, replies.get(key, []))

    def _judged(self, question: Question, key: str, bodies: Sequence[Body]) -> JudgedQuestion:
        seat = self._plan.seat(question)
        if not bodies:
            state, problem = self._failures().get(key, (QuestionState.UNASKED, None))
            return JudgedQuestion(
                question,
                match_id_of(question),
                QuestionState(state),
                None,
                problem,
                None,
                seat.form,
                key,
                asks=0,
            )
        readings = [seat.reading(body) for body in bodies]
        reply, reading = next((pair for pair in readings if pair[1].state is QuestionState.OK), readings[-1])
        return JudgedQuestion(
            question=question,
            match_id=match_id_of(question),
            state=reading.state,
            verdict=reading.verdict,
            problem=reading.problem,
            reply=reply,
            form=seat.form,
            key=key,
            asks=len(bodies),
        )

    def _failures(self) -> Mapping[str, tuple[str, str | None]]:
        """State and error of the last attempt, by request without a reply."""
        if self._failed is None:
            self._failed = {}
            for attempt in self._ledger.attempts(self._run):
                # An attempt without a question ID only filled a prompt cache.
                if attempt.question_id and attempt.state in (
                    QuestionState.PROVIDER_ERROR,
                    QuestionState.EXPIRED,
                    QuestionState.LOST,
                ):
                    self._failed[attempt.request_key] = attempt.state, attempt.error
        return self._failed
