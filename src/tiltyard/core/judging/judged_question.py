"""A judged question: a question with its result, as a row of a run's verdicts."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tiltyard.core.judging.matches import Match
from tiltyard.core.judging.question import Question, QuestionPurpose
from tiltyard.core.judging.verdict import (
    PARSER_VERSION,
    QuestionState,
    Reply,
    Verdict,
    VerdictForm,
    VerdictStep,
    read_reply,
)
from tiltyard.errors import UnreadableFile

#: Version of the row format; a reader of version N can read all earlier versions.
SCHEMA_VERSION = 1

_Named = TypeVar("_Named", bound=enum.StrEnum)

#: States with a parsed reply; the others have none.
_REPLIED = frozenset(
    {QuestionState.OK, QuestionState.REFUSED, QuestionState.TRUNCATED, QuestionState.UNPARSEABLE}
)


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    """One question, its state, its verdict (if and only if the state is ``ok``), and the reply it was parsed from."""

    question: Question
    #: The match it belongs to; ``None`` for canaries.
    match_id: str | None
    state: QuestionState
    verdict: Verdict | None
    problem: str | None
    #: The reply that was parsed, if any: the last one, if it was retried.
    reply: Reply | None
    form: VerdictForm
    #: The key of the request in the reply cache.
    key: str
    #: The number of replies parsed: 1, or 2 if the first was unusable.
    asks: int
    parser: int = PARSER_VERSION

    @property
    def free(self) -> bool:
        """Whether its verdict was known without asking: the responses are the same."""
        return self.verdict is not None and self.asks == 0

    def to_dict(self) -> dict[str, object]:
        """The row as written."""
        question, verdict, reply = self.question, self.verdict, self.reply
        served = {"model": reply.model} if reply and reply.model else {}
        return {
            "schema": SCHEMA_VERSION,
            "question_id": question.id,
            "match_id": self.match_id,
            "judge_model": question.judge,
            "dimension": question.dimension,
            "prompt_id": question.prompt_id,
            "first": question.first,
            "second": question.second,
            "order": question.order,
            "purpose": question.purpose.value,
            "replicate": question.replicate,
            "spoilt": question.spoilt,
            **({} if question.swapped is None else {"swapped": question.swapped}),
            "state": self.state.value,
            "verdict": verdict.step.value if verdict else None,
            "both_bad": verdict.both_bad if verdict else None,
            "reasoning": verdict.reasoning if verdict else None,
            "problem": self.problem,
            "form": self.form.value,
            "parser": self.parser,
            "request_key": self.key,
            "asks": self.asks,
            "reply": {"text": reply.text, "data": reply.data, "stop": reply.stop, **served}
            if reply
            else None,
        }

    @classmethod
    def from_dict(cls, row: Mapping[str, Any], where: str) -> JudgedQuestion:
        """Parse a row; a missing, unknown or contradictory field raises an error."""
        fields = _Row(row, where)
        judged = cls(
            question=_question(fields),
            match_id=fields.text_or_none("match_id"),
            state=fields.one_of("state", QuestionState),
            verdict=_verdict(fields),
            problem=fields.text_or_none("problem"),
            reply=_reply(fields),
            form=fields.one_of("form", VerdictForm),
            key=fields.text("request_key"),
            asks=fields.count("asks"),
            parser=fields.count("parser"),
        )
        _check(judged, fields)
        return judged


def reparse(judged: JudgedQuestion) -> JudgedQuestion:
    """Parse its reply again with the current parser; unchanged if there is no reply."""
    if judged.reply is None:
        return judged
    reading = read_reply(judged.reply, judged.form)
    return dataclasses.replace(
        judged, state=reading.state, verdict=reading.verdict, problem=reading.problem, parser=PARSER_VERSION
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """Typed access to the fields of a row; errors name the location."""

    row: Mapping[str, Any]
    where: str

    def wrong(self, key: str, expected: str) -> UnreadableFile:
        value = repr(self.row[key])
        return UnreadableFile(f"{self.where}: {key} is {value[:80]}; expected {expected}")

    def text(self, key: str) -> str:
        value = self.row[key]
        if not isinstance(value, str):
            raise self.wrong(key, "text")
        return value

    def text_or_none(self, key: str) -> str | None:
        return None if self.row[key] is None else self.text(key)

    def count(self, key: str) -> int:
        value = self.row[key]
        if type(value) is not int or value < 0:
            raise self.wrong(key, "a whole number, 0 or more")
        return value

    def one_of(self, key: str, allowed: type[_Named]) -> _Named:
        try:
            return allowed(self.row[key])
        except ValueError:
            raise self.wrong(key, f"one of {', '.join(allowed)}") from None


_KEYS = frozenset(
    JudgedQuestion(
        Question("", "", "", "", ""), None, QuestionState.LOST, None, None, None, VerdictForm.TEXT, "", 0
    ).to_dict()
)


def _question(fields: _Row) -> Question:
    row = fields.row
    if row.keys() - {"swapped"} != _KEYS:
        odd = ", ".join(sorted(_KEYS.symmetric_difference(row)))
        raise UnreadableFile(f"{fields.where}: missing or unknown: {odd}; this is not a row of verdicts")
    if type(row["schema"]) is not int or row["schema"] != SCHEMA_VERSION:
        raise fields.wrong("schema", f"{SCHEMA_VERSION}; a newer Tiltyard may read it")
    if row["spoilt"] is not None and fields.count("spoilt") > 1:
        raise fields.wrong("spoilt", "0, 1 or null")
    return Question(
        judge=fields.text("judge_model"),
        dimension=fields.text("dimension"),
        prompt_id=fields.text("prompt_id"),
        first=fields.text("first"),
        second=fields.text("second"),
        purpose=fields.one_of("purpose", QuestionPurpose),
        replicate=fields.count("replicate"),
        spoilt=row["spoilt"],
        swapped=fields.text("swapped") if "swapped" in row else None,
    )


def _verdict(fields: _Row) -> Verdict | None:
    keys = ("verdict", "both_bad", "reasoning")
    if fields.row["state"] != QuestionState.OK:
        for key in keys:
            if fields.row[key] is not None:
                raise fields.wrong(key, "null, because the state is not ok")
        return None
    if not isinstance(fields.row["both_bad"], bool):
        raise fields.wrong("both_bad", "true or false")
    return Verdict(fields.one_of("verdict", VerdictStep), fields.row["both_bad"], fields.text("reasoning"))


def _reply(fields: _Row) -> Reply | None:
    reply = fields.row["reply"]
    if reply is None:
        return None
    if not isinstance(reply, Mapping) or set(reply) - {"model"} != {"text", "data", "stop"}:
        raise fields.wrong("reply", "null or an object with text, data, stop and maybe model")
    inner = _Row(reply, f"{fields.where}, reply")
    if not isinstance(reply["data"], Mapping | None):
        raise inner.wrong("data", "an object or null")
    model = inner.text("model") if "model" in reply else None
    return Reply(inner.text_or_none("text"), reply["data"], inner.text("stop"), model)


def _check(judged: JudgedQuestion, fields: _Row) -> None:
    """Check that redundant fields of a row are consistent."""
    question = judged.question
    if fields.row["question_id"] != question.id:
        raise fields.wrong("question_id", f"{question.id}, by the row's own fields")
    if type(fields.row["order"]) is not int or fields.row["order"] != question.order:
        raise fields.wrong("order", f"{question.order}, by the names of the models")
    if judged.match_id != match_id_of(question):
        raise fields.wrong("match_id", f"{match_id_of(question)}, by the row's own fields")
    if (judged.reply is not None) != (judged.state in _REPLIED):
        raise fields.wrong("reply", f"one exactly where a reply was read; the state is {judged.state}")


def match_id_of(question: Question) -> str | None:
    """The match that a question or repeat belongs to; ``None`` for canaries."""
    if question.purpose not in (QuestionPurpose.MATCH, QuestionPurpose.REPEAT):
        return None
    return Match.between(question.dimension, question.prompt_id, question.first, question.second).id
