"""Rows of verdicts: read back as written, read again from their replies, strict about both."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.judged_rows import failed, judged_from, said
from tiltyard.core.judging.judged_question import JudgedQuestion, reparse
from tiltyard.core.judging.matches import Match
from tiltyard.core.judging.question import Question, QuestionPurpose
from tiltyard.core.judging.verdict import (
    PARSER_VERSION,
    QuestionState,
    Reply,
    Verdict,
    VerdictForm,
    VerdictStep,
)
from tiltyard.errors import UnreadableFile

NAME = st.text(max_size=4)
QUESTIONS = st.one_of(
    st.builds(Question, NAME, NAME, NAME, NAME, NAME),
    st.builds(
        Question,
        NAME,
        NAME,
        NAME,
        NAME,
        NAME,
        st.sampled_from(QuestionPurpose),
        st.integers(0, 3),
        st.sampled_from([None, 0, 1]),
    ),
)
OBJECTS = st.fixed_dictionaries(
    {"reasoning": st.text(), "verdict": st.sampled_from([*VerdictStep, "A"]), "both_bad": st.booleans()}
)
REPLIES = st.one_of(
    st.builds(said, st.sampled_from(VerdictStep), both_bad=st.booleans(), reasoning=st.text()),
    st.builds(
        Reply,
        st.none() | st.text(),
        st.none() | OBJECTS,
        st.sampled_from(["end", "length", "refusal", "other"]),
    ),
)
JUDGED = st.one_of(
    st.builds(judged_from, QUESTIONS, REPLIES, st.sampled_from(VerdictForm)),
    st.builds(
        failed,
        QUESTIONS,
        st.sampled_from([QuestionState.PROVIDER_ERROR, QuestionState.EXPIRED, QuestionState.LOST]),
    ),
)


@given(JUDGED)
def test_a_row_is_read_back_as_it_was_written(judged):
    row = json.loads(json.dumps(judged.to_dict()))
    assert JudgedQuestion.from_dict(row, "here") == judged
    assert row["question_id"] == judged.question.id
    assert row["order"] == int(judged.question.first > judged.question.second)
    assert row["schema"] == 1


@given(JUDGED)
def test_reading_a_reply_again_finds_the_same(judged):
    assert reparse(judged) == judged


def test_reading_again_finds_what_the_reply_says_whatever_the_row_says():
    honest = judged_from(Question("j", "d", "p", "x", "y"), said(VerdictStep.SECOND))
    forged = dataclasses.replace(
        honest, verdict=Verdict(VerdictStep.FIRST, both_bad=False, reasoning="r"), parser=0
    )
    assert reparse(forged) == honest
    hidden = dataclasses.replace(honest, state=QuestionState.REFUSED, verdict=None, problem="no")
    assert reparse(hidden) == honest
    assert reparse(honest).parser == PARSER_VERSION


def test_matches_and_repeats_name_their_match_and_canaries_none():
    match_id = Match("d", "p", "x", "y").id
    for purpose in QuestionPurpose:
        judged = failed(Question("j", "d", "p", "y", "x", purpose, spoilt=0))
        expected = match_id if purpose in {QuestionPurpose.MATCH, QuestionPurpose.REPEAT} else None
        assert judged.to_dict()["match_id"] == expected


ROW = judged_from(Question("j", "d", "p", "x", "y"), said(VerdictStep.FIRST)).to_dict()
LOST = failed(Question("j", "d", "p", "x", "y"), QuestionState.LOST).to_dict()
WRONG = [
    *(
        (name, value)
        for name in ("judge_model", "dimension", "prompt_id", "first", "second")
        for value in (None, 1, "z")
    ),
    *(("schema", value) for value in (0, 2, True, 1.0, "1", None)),
    *(("question_id", value) for value in (None, "", "0" * 32)),
    *(("match_id", value) for value in (None, 1, "0" * 32)),
    *(("order", value) for value in (1, False, 0.0, None)),
    *(("purpose", value) for value in ("repeat", "other", None, [])),
    *(("replicate", value) for value in (-1, 1, True, 0.0, None)),
    *(("spoilt", value) for value in (-1, 0, 2, True, "0")),
    *(("state", value) for value in ("refused", "lost", "fine", None, {})),
    *(("verdict", value) for value in (None, "A", 1, ["A>B"])),
    *(("both_bad", value) for value in (None, 0, "false")),
    *(("reasoning", value) for value in (None, 1)),
    *(("problem", value) for value in (1, [])),
    *(("form", value) for value in (None, "json", 1)),
    *(("parser", value) for value in (None, "1", -1, True)),
    *(("request_key", value) for value in (None, 1)),
    *(("asks", value) for value in (None, -1, 1.0, False)),
    *(
        ("reply", value)
        for value in (
            None,
            "text",
            {},
            {"text": "", "data": None},
            {"text": 1, "data": None, "stop": "end"},
            {"text": "", "data": [], "stop": "end"},
            {"text": "", "data": None, "stop": None},
        )
    ),
]


@pytest.mark.parametrize("key", ROW)
def test_a_row_that_is_wrong_or_contradicts_itself_is_an_error_that_names_the_place(key):
    for value in [value for name, value in WRONG if name == key]:
        with pytest.raises(UnreadableFile, match=r"^here"):
            JudgedQuestion.from_dict(ROW | {key: value}, "here")
    with pytest.raises(UnreadableFile, match=f"^here: .*{key}"):
        JudgedQuestion.from_dict({name: value for name, value in ROW.items() if name != key}, "here")
    with pytest.raises(UnreadableFile, match=r"^here: .*surplus"):
        JudgedQuestion.from_dict(ROW | {"surplus": 1}, "here")


@pytest.mark.parametrize("key", ["verdict", "both_bad", "reasoning", "reply"])
def test_a_state_without_reply_has_neither_reply_nor_verdict(key):
    assert JudgedQuestion.from_dict(LOST, "here").state is QuestionState.LOST
    with pytest.raises(UnreadableFile, match=f"^here: {key}"):
        JudgedQuestion.from_dict(LOST | {key: ROW[key]}, "here")
