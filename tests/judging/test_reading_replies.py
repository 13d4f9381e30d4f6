"""A reply is a whole, well-formed verdict, or it is its own state. Never a tie, never an exception."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.judging import Form, Reply, State, Step, Verdict, read_reply

FORMS = list(Form)
STEPS = list(Step)
VERDICTS = st.builds(Verdict, st.sampled_from(STEPS), st.booleans(), st.text())


def document(verdict: Verdict) -> dict:
    return {"reasoning": verdict.reasoning, "verdict": verdict.step.value, "both_bad": verdict.both_bad}


def read_json(text: str):
    return read_reply(Reply(text), Form.SCHEMA)


def read_text(text: str):
    return read_reply(Reply(text), Form.TEXT)


@given(VERDICTS)
def test_a_whole_verdict_is_read_as_it_was_said_by_schema_and_by_tool(verdict):
    said = document(verdict)
    for text in (json.dumps(said), json.dumps(said, indent=2), f"\n```json\n{json.dumps(said)}\n```\n"):
        assert read_json(text).verdict == verdict
    reading = read_reply(Reply(None, said), Form.TOOL)
    assert (reading.state, reading.verdict, reading.problem) == (State.OK, verdict, None)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("both_bad", [False, True])
@pytest.mark.parametrize(
    "line",
    [
        "VERDICT: {}",
        "verdict: {}",
        "**VERDICT: {}**",
        "**VERDICT:** {}",
        "**Verdict**: {}",
        "VERDICT: **{}**",
        "   VERDICT :   {}   ",
        "VERDICT:{}",
    ],
)
def test_the_last_line_of_a_text_is_the_verdict(step, both_bad, line):
    said = step.value + (" BOTH_BAD" if both_bad else "")
    for ending in ("", "\n", "\r\n\n   \n"):
        reading = read_text(f"A is right.\n\nB is not.\n\n{line.format(said)}{ending}")
        assert reading.verdict == Verdict(step, both_bad, "A is right.\n\nB is not.")
    assert read_text(line.format(said)).verdict == Verdict(step, both_bad, "")


@pytest.mark.parametrize(
    "text",
    [
        "**VERDICT: A**",
        "VERDICT: BOTH",
        "VERDICT: BOTH_BAD",
        "VERDICT: BOTH BAD",
        "VERDICT: A",
        "VERDICT: B",
        "VERDICT: tie",
        "VERDICT: a>b",
        "VERDICT: A > B",
        "VERDICT: A>>>B",
        "VERDICT: A<B",
        "VERDICT: B=A",
        "VERDICT: A>B both_bad",
        "VERDICT: A>BBOTH_BAD",
        "VERDICT: A>B, clearly",
        "VERDICT: A>B.",
        "VERDICT A>B",
        "FINAL VERDICT: A>B",
        "The verdict: A>B",
        "ＶＥＲＤＩＣＴ: A>B",
        "VERDICT： A>B",
        "VERDICT: A>B\nHope this helps!",
        "VERDICT: A>B\n\u200b",
        "VERDICT: B>A\nVERDICT: A>B",
        "VERDICT: A>B BOTH_BAD\nVERDICT: A>B",
        "**Verdict: A**\nVERDICT: A>B",
        "A>B",
        "[[A>B]]",
        "I cannot say.",
        "",
        "   \n\t ",
    ],
)
def test_a_text_that_does_not_end_in_one_exact_verdict_is_unparseable(text):
    reading = read_text(text)
    assert (reading.state, reading.verdict) == (State.UNPARSEABLE, None)
    assert reading.problem


def test_a_verdict_that_is_said_twice_alike_is_one_verdict():
    reading = read_text("**VERDICT: A>B**\nThat is,\nVERDICT: A>B")
    assert reading.verdict == Verdict(Step.FIRST, False, "**VERDICT: A>B**\nThat is,")


def test_a_quoted_verdict_in_the_reasoning_does_not_disturb():
    assert read_text("It writes VERDICT (quoted): B>A.\nVERDICT: A>B").verdict.step is Step.FIRST


WHOLE = {"reasoning": "r", "verdict": "A>B", "both_bad": False}


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"verdict": "A>B", "both_bad": False},
        {"reasoning": "r", "verdict": "A>B"},
        WHOLE | {"confidence": 1},
        WHOLE | {"verdict": "A"},
        WHOLE | {"verdict": "a>b"},
        WHOLE | {"verdict": " A>B"},
        WHOLE | {"verdict": None},
        WHOLE | {"verdict": ["A>B"]},
        WHOLE | {"verdict": {}},
        WHOLE | {"both_bad": 0},
        WHOLE | {"both_bad": "false"},
        WHOLE | {"both_bad": None},
        WHOLE | {"reasoning": None},
        WHOLE | {"reasoning": ["r"]},
    ],
)
def test_an_object_with_other_fields_or_types_is_unparseable(said):
    assert read_json(json.dumps(said)).state is State.UNPARSEABLE
    assert read_reply(Reply("VERDICT: A>B", said), Form.TOOL).state is State.UNPARSEABLE


@pytest.mark.parametrize(
    "text",
    [
        "null",
        "[]",
        '"A>B"',
        "NaN",
        f"Here it is: {json.dumps(WHOLE)}",
        f"{json.dumps(WHOLE)} {json.dumps(WHOLE)}",
        f"```\n{json.dumps(WHOLE)}\n```",
        f"```json\n{json.dumps(WHOLE)}",
        json.dumps(WHOLE)[:-1],
        '{"reasoning": "r", "verdict": "A>B", "verdict": "B>A", "both_bad": false}',
        '{"reasoning": "r", "verdict": "A>B", "verdict": "A>B", "both_bad": false}',
        '{"reasoning": Infinity, "verdict": "A>B", "both_bad": false}',
        "VERDICT: A>B",
        "",
    ],
)
def test_what_is_not_exactly_one_json_object_is_unparseable(text):
    assert read_json(text).state is State.UNPARSEABLE


def test_a_tool_that_was_not_called_is_unparseable_whatever_the_text_says():
    assert read_reply(Reply(json.dumps(WHOLE)), Form.TOOL).state is State.UNPARSEABLE
    assert read_reply(Reply("x", ["A>B"]), Form.TOOL).state is State.UNPARSEABLE  # type: ignore[arg-type]


@pytest.mark.parametrize("form", FORMS)
def test_a_refusal_and_a_cut_are_their_own_states_even_beside_a_whole_verdict(form):
    text = "VERDICT: A>B" if form is Form.TEXT else json.dumps(WHOLE)
    for stop, state in (("refusal", State.REFUSED), ("length", State.TRUNCATED)):
        reading = read_reply(Reply(text, WHOLE, stop), form)
        assert (reading.state, reading.verdict) == (state, None)
        assert reading.problem
    assert read_reply(Reply(text, WHOLE, "other"), form).state is State.OK


@given(
    st.none()
    | st.text(alphabet=st.characters(exclude_categories=()))
    | st.text(alphabet='VERDICT: AB>=*\n{}"'),
    st.none() | st.dictionaries(st.text(), st.none() | st.booleans() | st.text() | st.lists(st.integers())),
    st.sampled_from(["end", "length", "refusal", "other", ""]),
    st.sampled_from(FORMS),
)
def test_reading_never_raises_and_has_a_verdict_exactly_where_it_is_ok(text, data, stop, form):
    reading = read_reply(Reply(text, data, stop), form)
    assert (reading.verdict is not None) == (reading.state is State.OK) == (reading.problem is None)


MEGABYTES = 10_000_000


@pytest.mark.parametrize(
    "text",
    [
        "\ud800\udfff \x00 \ud800",
        "x" * MEGABYTES,
        " " * MEGABYTES + "\nx",
        "x\n" + " " * MEGABYTES + "y\nVERDICT: A>B x",
        "**" * (MEGABYTES // 2),
        "\n" * MEGABYTES + "x",
        "VERDICT" + " " * MEGABYTES + "x",
        "[" * MEGABYTES,
        '{"a":' * (MEGABYTES // 5),
        "1" * MEGABYTES,
        "```json\n" + "`" * MEGABYTES,
    ],
    ids=lambda text: ascii(text[:12]),
)
@pytest.mark.parametrize("form", [Form.SCHEMA, Form.TEXT])
def test_hostile_and_huge_replies_are_unparseable_and_quick(text, form):
    assert read_reply(Reply(text), form).state is State.UNPARSEABLE


def test_halves_of_surrogate_pairs_and_nuls_in_the_reasoning_are_kept():
    odd = "\ud800 \x00 \udfff"
    assert read_text(f"{odd}\nVERDICT: A=B").verdict == Verdict(Step.EVEN, False, odd)
    assert read_json(json.dumps(WHOLE | {"reasoning": odd})).verdict.reasoning == odd
