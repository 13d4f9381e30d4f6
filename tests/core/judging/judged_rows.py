"""Rows of verdicts to test with."""

from __future__ import annotations

import json

from tiltyard.core.judging import (
    Form,
    Judged,
    Match,
    Purpose,
    Question,
    Reply,
    State,
    Step,
    match_id_of,
    read_reply,
)


def said(step: Step, *, both_bad: bool = False, reasoning: str = "r") -> Reply:
    return Reply(json.dumps({"reasoning": reasoning, "verdict": step.value, "both_bad": both_bad}))


def judged_from(question: Question, reply: Reply, form: Form = Form.SCHEMA) -> Judged:
    reading = read_reply(reply, form)
    return Judged(
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


def failed(question: Question, state: State = State.PROVIDER_ERROR) -> Judged:
    return Judged(question, match_id_of(question), state, None, "it failed", None, Form.TEXT, "0" * 64, 0)


def questions_of(match: Match, judge: str, purpose: Purpose = Purpose.MATCH) -> tuple[Question, Question]:
    a, b = match.model_a, match.model_b
    replicate = int(purpose is Purpose.REPEAT)
    return (
        Question(judge, match.dimension, match.prompt_id, a, b, purpose, replicate),
        Question(judge, match.dimension, match.prompt_id, b, a, purpose, replicate),
    )
