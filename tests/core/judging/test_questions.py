"""What a judge is asked: stable names, one system text for each rubric and form, nothing shown unasked."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.core.judging import (
    TOOL_NAME,
    VERDICT_SCHEMA,
    Form,
    Purpose,
    Question,
    Reply,
    Rubric,
    Shown,
    Step,
    ask_of,
    nonce_of,
    read_reply,
)

ANY = st.text(st.characters(exclude_categories=()))
SHOWN = st.builds(Shown, ANY, ANY, ANY, st.none() | ANY, st.none() | ANY)
RUBRIC = Rubric("factuality", "v1", "Be right. {braces} are text, 100 %.")
FIELDS = {
    "judge": "j",
    "dimension": "d",
    "prompt_id": "p",
    "first": "x",
    "second": "y",
    "purpose": Purpose.MATCH,
    "replicate": 0,
    "spoilt": None,
}


def test_ids_of_questions_depend_on_every_field_and_on_nothing_else():
    changes = {
        "purpose": Purpose.REPEAT,
        "replicate": 1,
        "spoilt": 0,
        **dict.fromkeys(("judge", "dimension", "prompt_id", "first", "second"), "other"),
    }
    assert set(changes) == set(FIELDS) == {field.name for field in dataclasses.fields(Question)}
    ids = [Question(**FIELDS | {name: value}).id for name, value in changes.items()]
    swapped = Question(**FIELDS | {"first": "y", "second": "x"})
    assert len({*ids, Question(**FIELDS).id, swapped.id}) == 10
    assert Question(**FIELDS).id == Question("j", "d", "p", "x", "y").id
    assert (Question(**FIELDS).order, swapped.order) == (0, 1)


def test_an_id_is_the_hash_of_the_canonical_json_of_its_fields():
    said = json.dumps(FIELDS, sort_keys=True, separators=(",", ":"))
    assert Question(**FIELDS).id == hashlib.sha256(said.encode()).hexdigest()[:32]


@given(SHOWN, ANY)
def test_the_nonce_is_a_hash_over_the_texts_each_with_its_length(shown, rubric_text):
    data = b""
    for text in (shown.prompt, shown.first, shown.second, rubric_text):
        encoded = text.encode("utf-8", "surrogatepass")
        data += len(encoded).to_bytes(8, "big") + encoded
    nonce = nonce_of(shown, Rubric("d", "v1", rubric_text))
    assert nonce == hashlib.sha256(data).hexdigest()[:32]


def test_moving_text_from_one_place_to_the_next_changes_the_nonce():
    shown = [Shown("ab", "c", "d"), Shown("a", "bc", "d"), Shown("a", "b", "cd"), Shown("ab", "d", "c")]
    assert len({nonce_of(texts, RUBRIC) for texts in shown}) == 4


@given(SHOWN, SHOWN, st.sampled_from(list(Form)), st.booleans(), st.booleans())
def test_the_system_text_is_the_same_for_all_questions_of_one_rubric_and_form(
    one, other, form, gold, expected
):
    rubric = dataclasses.replace(RUBRIC, gold=gold, expected_behavior=expected)
    ask = ask_of(one, rubric, form, 100)
    assert ask.system == ask_of(other, rubric, form, 100).system
    assert rubric.text in ask.system
    assert (ask.form, ask.max_tokens) == (form, 100)
    assert ask.schema == (None if form is Form.TEXT else VERDICT_SCHEMA)
    assert ask == ask_of(one, rubric, form, 100)


@given(SHOWN, st.booleans(), st.booleans())
def test_gold_and_expected_behaviour_reach_only_rubrics_that_ask_for_them(shown, gold, expected):
    ask = ask_of(shown, dataclasses.replace(RUBRIC, gold=gold, expected_behavior=expected), Form.TEXT, 1)
    assert ("<<<BEGIN REFERENCE ANSWER" in ask.user) == (gold and shown.gold is not None)
    wanted = expected and shown.expected_behavior is not None
    assert ("<<<BEGIN EXPECTED BEHAVIOUR" in ask.user) == wanted
    assert ("REFERENCE ANSWER" in ask.system) == gold
    assert ("EXPECTED BEHAVIOUR" in ask.system) == expected


def test_the_nonce_comes_first_in_the_message_and_ordinary_texts_stand_as_they_are():
    shown = Shown("Why?\n", "Because.\r\n\tIt is.", "", "gold", "calm")
    ask = ask_of(shown, dataclasses.replace(RUBRIC, gold=True, expected_behavior=True), Form.TEXT, 1)
    nonce = nonce_of(shown, dataclasses.replace(RUBRIC, gold=True, expected_behavior=True))
    assert re.search(r"\b[0-9a-f]{32}\b", ask.user)[0] == nonce
    inside = re.findall(rf"<<<BEGIN ([A-Z ]+) {nonce}>>>\n(.*?)\n<<<END \1 {nonce}>>>", ask.user, re.DOTALL)
    assert inside == [
        ("PROMPT", "Why?\n"),
        ("REFERENCE ANSWER", "gold"),
        ("EXPECTED BEHAVIOUR", "calm"),
        ("RESPONSE A", "Because.\r\n\tIt is."),
        ("RESPONSE B", ""),
    ]


def test_the_schema_asks_for_reasoning_first_and_for_nothing_that_providers_refuse():
    assert (
        list(VERDICT_SCHEMA["properties"])
        == VERDICT_SCHEMA["required"]
        == ["reasoning", "verdict", "both_bad"]
    )
    assert VERDICT_SCHEMA["properties"]["verdict"]["enum"] == list(Step)
    assert VERDICT_SCHEMA["additionalProperties"] is False
    assert not re.search(r"minLength|maxLength|minimum|maximum|pattern", json.dumps(dict(VERDICT_SCHEMA)))


@pytest.mark.parametrize("form", list(Form))
def test_each_form_says_how_to_reply(form):
    system = ask_of(Shown("p", "x", "y"), RUBRIC, form, 1).system
    for step in Step:
        assert f"- {step.value}:" in system
    assert (TOOL_NAME in system) == (form is Form.TOOL)
    assert ("JSON" in system) == (form is Form.SCHEMA)
    assert ("VERDICT:" in system) == (form is Form.TEXT)


def test_the_lines_that_the_text_form_shows_are_lines_that_the_parser_reads():
    system = ask_of(Shown("p", "x", "y"), RUBRIC, Form.TEXT, 1).system
    lines = re.findall("^VERDICT:.*$", system, re.MULTILINE)
    read = [read_reply(Reply(line), Form.TEXT).verdict for line in lines]
    assert [(verdict.step, verdict.both_bad) for verdict in read] == [(Step.FIRST, False), (Step.FIRST, True)]
