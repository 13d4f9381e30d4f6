"""The results of a plan's questions, read from the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice

from tiltyard.core.judging.judged_question import JudgedQuestion, match_id_of
from tiltyard.core.judging.question import Question
from tiltyard.core.judging.verdict import QuestionState
from tiltyard.judges.ledger import Attempt, Ledger
from tiltyard.judges.providers.provider import Body
from tiltyard.runs.money import dollars_text
from tiltyard.tournament.tournament_plan import TournamentPlan

__all__ = ["QuestionResults", "attempt_rows"]

_QUESTION_BATCH_COUNT = 500


class QuestionResults:
    """The results of a plan's questions. Raw replies are parsed again each time: the cache stores only them."""

    def __init__(self, plan: TournamentPlan, ledger: Ledger, run: str) -> None:
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


def attempt_rows(attempts: Iterable[Attempt]) -> Iterator[dict[str, object]]:
    """The published form of the ledger's attempts."""
    for one in attempts:
        yield {
            "attempt_id": one.attempt_id,
            "question_id": one.question_id,
            "request_key": one.request_key,
            "ask": one.ask,
            "judge_model": one.judge,
            "dimension": one.dimension,
            "mode": "live" if one.batch is None else "batch",
            "batch_id": one.batch or None,
            # Another worker is still waiting for it, or its batch was not collected.
            "state": "in_flight" if one.state == "intent" else one.state,
            "input_tokens": one.input_tokens,
            "output_tokens": one.output_tokens,
            "cache_write_tokens": one.cache_write_tokens,
            "cache_read_tokens": one.cache_read_tokens,
            "usd": None if one.cost is None else dollars_text(one.cost),
            "reserved_usd": dollars_text(one.reserved),
            "error": one.error,
            "worker": one.worker,
            "started_at": _moment(one.started_at),
            "finished_at": None if one.finished_at is None else _moment(one.finished_at),
        }


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).isoformat(timespec="milliseconds")
