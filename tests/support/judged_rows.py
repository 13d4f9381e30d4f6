"""Rows of verdicts to test with."""

from __future__ import annotations

import json

from tiltyard.core.judging.judged_question import JudgedQuestion, match_id_of
from tiltyard.core.judging.matches import Match
from tiltyard.core.judging.question import Question, QuestionPurpose
from tiltyard.core.judging.verdict import QuestionState, Reply, VerdictForm, VerdictStep, read_reply


def said(step: VerdictStep, *, both_bad: bool = False, reasoning: str = "r") -> Reply:
    return Reply(json.dumps({"reasoning": reasoning, "verdict": step.value, "both_bad": both_bad}))


def judged_from(question: Question, reply: Reply, form: VerdictForm = VerdictForm.SCHEMA) -> JudgedQuestion:
    reading = read_reply(reply, form)
    return JudgedQuestion(
        question,
        match_id_of(question),
        reading.state,
        reading.verdict,
        reading.problem,
        reply,
        form,
        key="0" * 64,
        asks=1,
    )


def failed(question: Question, state: QuestionState = QuestionState.PROVIDER_ERROR) -> JudgedQuestion:
    return JudgedQuestion(
        question, match_id_of(question), state, None, "it failed", None, VerdictForm.TEXT, "0" * 64, 0
    )


def questions_of(
    match: Match, judge: str, purpose: QuestionPurpose = QuestionPurpose.MATCH
) -> tuple[Question, Question]:
    a, b = match.model_a, match.model_b
    replicate = int(purpose is QuestionPurpose.REPEAT)
    return (
        Question(judge, match.dimension, match.prompt_id, a, b, purpose, replicate),
        Question(judge, match.dimension, match.prompt_id, b, a, purpose, replicate),
    )
