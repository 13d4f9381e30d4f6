"""What a judge is asked: stable names, one system text for each rubric and form, nothing shown unasked."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.core.judging.question import (
    TOOL_NAME,
    VERDICT_SCHEMA,
    Question,
    QuestionPurpose,
    QuestionTexts,
    Rubric,
    build_chat_prompt,
    parse_rubric,
    question_nonce,
)
from tiltyard.core.judging.verdict import Reply, VerdictForm, VerdictStep, read_reply
from tiltyard.errors import UnreadableFile

ANY = st.text(st.characters(exclude_categories=()))
SHOWN = st.builds(QuestionTexts, ANY, ANY, ANY, st.none() | ANY, st.none() | ANY)
RUBRIC = Rubric("factuality", "v1", "Be right. {braces} are text, 100 %.")
FIELDS = {
    "judge": "j",
    "dimension": "d",
    "prompt_id": "p",
    "first": "x",
    "second": "y",
    "purpose": QuestionPurpose.MATCH,
    "replicate": 0,
    "spoilt": None,
}
#: Of a swapped copy only.
SWAPPED = {"swapped": "other"}


def test_ids_of_questions_depend_on_every_field_and_on_nothing_else():
    changes = {
        "purpose": QuestionPurpose.REPEAT,
        "replicate": 1,
        "spoilt": 0,
        **SWAPPED,
        **dict.fromkeys(("judge", "dimension", "prompt_id", "first", "second"), "other"),
    }
    assert set(changes) == set(FIELDS | SWAPPED) == {field.name for field in dataclasses.fields(Question)}
    ids = [Question(**FIELDS | {name: value}).id for name, value in changes.items()]
    swapped = Question(**FIELDS | {"first": "y", "second": "x"})
    assert len({*ids, Question(**FIELDS).id, swapped.id}) == 11
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
    nonce = question_nonce(shown, Rubric("d", "v1", rubric_text))
    assert nonce == hashlib.sha256(data).hexdigest()[:32]


@given(SHOWN, SHOWN, st.sampled_from(list(VerdictForm)), st.booleans(), st.booleans())
def test_the_system_text_is_the_same_for_all_questions_of_one_rubric_and_form(
    one, other, form, gold, expected
):
    rubric = dataclasses.replace(RUBRIC, gold=gold, expected_behavior=expected)
    ask = build_chat_prompt(one, rubric, form, 100)
    assert ask.system == build_chat_prompt(other, rubric, form, 100).system
    assert rubric.text in ask.system
    assert (ask.form, ask.max_tokens) == (form, 100)
    assert ask.schema == (None if form is VerdictForm.TEXT else VERDICT_SCHEMA)
    assert ask == build_chat_prompt(one, rubric, form, 100)


@given(SHOWN, st.booleans(), st.booleans())
def test_gold_and_expected_behaviour_reach_only_rubrics_that_ask_for_them(shown, gold, expected):
    ask = build_chat_prompt(
        shown, dataclasses.replace(RUBRIC, gold=gold, expected_behavior=expected), VerdictForm.TEXT, 1
    )
    assert ("<<<BEGIN REFERENCE ANSWER" in ask.user) == (gold and shown.gold is not None)
    wanted = expected and shown.expected_behavior is not None
    assert ("<<<BEGIN EXPECTED BEHAVIOUR" in ask.user) == wanted
    assert ("REFERENCE ANSWER" in ask.system) == gold
    assert ("EXPECTED BEHAVIOUR" in ask.system) == expected


def test_the_nonce_comes_first_in_the_message_and_ordinary_texts_stand_as_they_are():
    shown = QuestionTexts("Why?\n", "Because.\r\n\tIt is.", "", "gold", "calm")
    ask = build_chat_prompt(
        shown, dataclasses.replace(RUBRIC, gold=True, expected_behavior=True), VerdictForm.TEXT, 1
    )
    nonce = question_nonce(shown, dataclasses.replace(RUBRIC, gold=True, expected_behavior=True))
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
    assert VERDICT_SCHEMA["properties"]["verdict"]["enum"] == list(VerdictStep)
    assert VERDICT_SCHEMA["additionalProperties"] is False
    assert not re.search(r"minLength|maxLength|minimum|maximum|pattern", json.dumps(dict(VERDICT_SCHEMA)))


@pytest.mark.parametrize("form", list(VerdictForm))
def test_each_form_says_how_to_reply(form):
    system = build_chat_prompt(QuestionTexts("p", "x", "y"), RUBRIC, form, 1).system
    for step in VerdictStep:
        assert f"- {step.value}:" in system
    assert (TOOL_NAME in system) == (form is VerdictForm.TOOL)
    assert ("JSON" in system) == (form is VerdictForm.SCHEMA)
    assert ("VERDICT:" in system) == (form is VerdictForm.TEXT)


def test_the_lines_that_the_text_form_shows_are_lines_that_the_parser_reads():
    system = build_chat_prompt(QuestionTexts("p", "x", "y"), RUBRIC, VerdictForm.TEXT, 1).system
    lines = re.findall("^VERDICT:.*$", system, re.MULTILINE)
    read = [read_reply(Reply(line), VerdictForm.TEXT).verdict for line in lines]
    assert [(verdict.step, verdict.both_bad) for verdict in read] == [
        (VerdictStep.FIRST, False),
        (VerdictStep.FIRST, True),
    ]


# Rubric files: versioned, asking for what they need, saying what is wrong with them.


SHIPPED = {
    "factuality": (True, False),
    "calibration": (True, True),
    "clinical_utility": (True, True),
    "instruction_following": (False, False),
    "groundedness": (False, False),
    "code": (False, False),
}


@pytest.mark.parametrize("dimension", SHIPPED)
def test_the_shipped_rubrics_are_read_and_ask_for_what_they_need(dimension):
    text = files("tiltyard.settings").joinpath("rubrics", f"{dimension}.txt").read_text("utf-8")
    rubric = parse_rubric(dimension, text, dimension)
    assert (rubric.gold, rubric.expected_behavior) == SHIPPED[dimension]
    assert rubric.version == "v1"
    assert "both_bad:" in rubric.text


@given(st.text(st.characters(exclude_categories=["Cs"])), st.booleans(), st.booleans())
def test_a_rubric_is_read_back_as_it_was_written(text, gold, expected):
    body = text.replace("\r\n", "\n").strip()
    if body and not body.startswith("#") and "{" not in body:
        rubric = Rubric("d", "v7", body, gold, expected)
        assert parse_rubric("d", rubric.file_text(), "here") == rubric


@pytest.mark.parametrize(
    ("placeholders", "gold", "expected"),
    [
        ("{prompt} {response_a}{response_b}", False, False),
        ("参考{gold_answer}", True, False),
        ("{expected_behavior}", False, True),
        ("{gold_answer}, {expected_behavior}, again {gold_answer}", True, True),
    ],
)
def test_a_placeholder_shows_its_part_below_and_the_rubric_stays_one_prefix(placeholders, gold, expected):
    rubric = parse_rubric("d", f"# version: v1\nCompare: {placeholders}", "here")
    assert (rubric.gold, rubric.expected_behavior) == (gold, expected)
    assert rubric.text == f"Compare: {placeholders}"
    assert parse_rubric("d", rubric.file_text(), "here") == rubric
    first = build_chat_prompt(QuestionTexts("p", "x", "y", "yes", "calm"), rubric, VerdictForm.TEXT, 1)
    other = build_chat_prompt(QuestionTexts("q", "y", "x"), rubric, VerdictForm.TEXT, 1)
    assert first.system == other.system
    assert first.system.count("(shown below)") == placeholders.count("{")
    assert "{" not in first.system
    assert ("<<<BEGIN REFERENCE ANSWER" in first.user) == gold
    assert ("<<<BEGIN EXPECTED BEHAVIOUR" in first.user) == expected


@pytest.mark.parametrize(
    "text",
    [
        "{{prompt}} {{silver}}",
        r"\boxed{answer}, \text{gold}, x^{n}_{i}",
        '{"verdict": "A"}, {}, {a, b}, { silver }',
    ],
)
def test_other_braces_reach_the_judge_as_they_are(text):
    rubric = parse_rubric("d", f"# version: v1\n{text}", "here")
    assert (rubric.gold, rubric.expected_behavior) == (False, False)
    assert text in build_chat_prompt(QuestionTexts("p", "x", "y"), rubric, VerdictForm.TEXT, 1).system


#: First digits of the SHA-256 of a question by each shipped rubric, as it was before there were placeholders.
KEPT = {
    "factuality": "e93f0f5127ba",
    "calibration": "3e48ca02a7dc",
    "clinical_utility": "ccfe79477cd1",
}


def test_requests_of_rubrics_without_placeholders_keep_their_bytes():
    """Replies that were paid for stay valid."""
    digests = {}
    for dimension in KEPT:
        text = files("tiltyard.settings").joinpath("rubrics", f"{dimension}.txt").read_text("utf-8")
        shown = QuestionTexts("p", "x", "y", "gold", "calm")
        ask = build_chat_prompt(shown, parse_rubric(dimension, text, dimension), VerdictForm.SCHEMA, 1)
        digests[dimension] = hashlib.sha256(f"{ask.system}\n{ask.user}".encode()).hexdigest()[:12]
    assert digests == KEPT


def test_every_part_of_a_rubric_is_part_of_its_identity():
    rubrics = [
        Rubric("d", "v1", "t"),
        Rubric("d", "v2", "t"),
        Rubric("d", "v1", "u"),
        Rubric("d", "v1", "t", gold=True),
        Rubric("d", "v1", "t", expected_behavior=True),
    ]
    assert len({rubric.sha256 for rubric in rubrics}) == 5
    assert Rubric("other", "v1", "t").sha256 == rubrics[0].sha256


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "line 1"),
        ("Be right.", "line 1"),
        ("# version: 1\nBe right.", "line 1"),
        ("# version: v1", "has no text"),
        ("# version: v1\n# uses: gold\n \n", "has no text"),
        ("# version: v1\n# uses: silver\nBe right.", "line 2"),
        ("# version: v1\nBe {bold}: {prompt} {gold} {bold}", "{bold}, {gold};.*{gold_answer}"),
    ],
)
def test_a_rubric_without_version_or_text_is_an_error_that_names_the_place(text, wrong):
    with pytest.raises(UnreadableFile, match=f"here.*{wrong}"):
        parse_rubric("d", text, "here")
