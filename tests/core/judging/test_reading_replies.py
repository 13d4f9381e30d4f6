"""A reply is a whole, well-formed verdict, or it is its own state. Never a tie, never an exception."""

from __future__ import annotations

import itertools
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.sizes import sized
from tiltyard.core.judging.verdict import (
    QuestionState,
    Reply,
    Verdict,
    VerdictForm,
    VerdictStep,
    find_json_objects,
    read_reply,
)

FORMS = list(VerdictForm)
STEPS = list(VerdictStep)
VERDICTS = st.builds(Verdict, st.sampled_from(STEPS), st.booleans(), st.text())


def document(verdict: Verdict) -> dict:
    return {"reasoning": verdict.reasoning, "verdict": verdict.step.value, "both_bad": verdict.both_bad}


def read_json(text: str):
    return read_reply(Reply(text), VerdictForm.SCHEMA)


def read_text(text: str):
    return read_reply(Reply(text), VerdictForm.TEXT)


@given(VERDICTS)
def test_a_whole_verdict_is_read_as_it_was_said_by_schema_and_by_tool(verdict):
    said = document(verdict)
    for text in (json.dumps(said), json.dumps(said, indent=2), f"\n```json\n{json.dumps(said)}\n```\n"):
        assert read_json(text).verdict == verdict
    reading = read_reply(Reply(None, said), VerdictForm.TOOL)
    assert (reading.state, reading.verdict, reading.problem) == (QuestionState.OK, verdict, None)


LINES = (
    *("VERDICT: {}", "verdict: {}", "**VERDICT: {}**", "**VERDICT:** {}", "**Verdict**: {}"),
    *("VERDICT: **{}**", "   VERDICT :   {}   ", "VERDICT:{}"),
)


@pytest.mark.parametrize("line", LINES)
def test_the_last_line_of_a_text_is_the_verdict(line):
    for step, both_bad in itertools.product(STEPS, (False, True)):
        said = step.value + (" BOTH_BAD" if both_bad else "")
        for ending in ("", "\n", "\r\n\n   \n"):
            reading = read_text(f"A is right.\n\nB is not.\n\n{line.format(said)}{ending}")
            assert reading.verdict == Verdict(step, both_bad, "A is right.\n\nB is not.")
        assert read_text(line.format(said)).verdict == Verdict(step, both_bad, "")


@pytest.mark.parametrize(
    "text",
    [
        *("VERDICT: BOTH", "VERDICT: BOTH_BAD", "VERDICT: BOTH BAD", "VERDICT: A or B", "VERDICT: AB"),
        *("VERDICT: C", "VERDICT: tie", "VERDICT: A > > > B", "VERDICT: A  >  B", "VERDICT: A>>>B"),
        *("VERDICT: A<B", "VERDICT: B=A", "VERDICT: A>BBOTH_BAD"),
        *("VERDICT: A>B, clearly", "VERDICT: A>B.", "VERDICT A>B", "FINAL VERDICT: A>B", "The verdict: A>B"),
        *("ＶＥＲＤＩＣＴ: A>B", "VERDICT: A>B\nHope this helps!", "VERDICT: A>B\n\u200b"),
        *("VERDICT: B>A\nVERDICT: A>B", "VERDICT: A>B BOTH_BAD\nVERDICT: A>B"),
        *("**Verdict: A**\nVERDICT: A>>B", "Verdict: A\nVERDICT: B"),
        *("```\nVERDICT: A>B\n```\nOn reflection, no.", "```\n```"),
        *("A>B", "[[A>B]]", "I cannot say.", "", "   \n\t "),
    ],
)
def test_a_text_that_does_not_end_in_one_exact_verdict_is_unparseable(text):
    reading = read_text(text)
    assert (reading.state, reading.verdict) == (QuestionState.UNPARSEABLE, None)
    assert reading.problem


def test_what_is_said_twice_alike_is_one_verdict():
    reading = read_text("**VERDICT: A>B**\nThat is,\nVERDICT: A>B")
    assert reading.verdict == Verdict(VerdictStep.FIRST, False, "**VERDICT: A>B**\nThat is,")
    text = f"Draft: {json.dumps(WHOLE)}\nFinal: {json.dumps(WHOLE | {'reasoning': 'shorter'})}"
    assert read_json(text).verdict == Verdict(VerdictStep.FIRST, False, "shorter")


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("**VERDICT: A**", (VerdictStep.FIRST, False)),
        ("Verdict: B", (VerdictStep.SECOND, False)),
        ("Verdict: B BOTH_BAD", (VerdictStep.SECOND, True)),
        ("VERDICT： A>B", (VerdictStep.FIRST, False)),
        ("### Verdict: A=B", (VerdictStep.EVEN, False)),
        ("VERDICT: `B>>A`", (VerdictStep.SECOND_MUCH, False)),
        ("__VERDICT:__ **A>>B** BOTH_BAD", (VerdictStep.FIRST_MUCH, True)),
        ("**Verdict: A**\nVERDICT: A>B", (VerdictStep.FIRST, False)),
        ("verdict: a", (VerdictStep.FIRST, False)),
        ("verdict: b>>a both_bad", (VerdictStep.SECOND_MUCH, True)),
        ("VERDICT: A > B", (VerdictStep.FIRST, False)),
        ("VERDICT: b >> a", (VerdictStep.SECOND_MUCH, False)),
    ],
)
def test_other_spellings_of_one_verdict_are_read(text, verdict):
    reading = read_text(f"Because.\n{text}")
    assert reading.state is QuestionState.OK, reading.problem
    assert (reading.verdict.step, reading.verdict.both_bad) == verdict


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("```\n", "\n```"),
        ("```JSON\n", "\n```\n"),
        ("~~~json\n", "\n~~~"),
        ("   ```json\n   ", "\n   ```"),
        ("```json\n", ""),
        ("Here is the JSON:\n", ""),
        ("Here it is: ", " I hope this helps!"),
        ("Response A opens with { and never closes it. ", ""),
        ("It answers with {x} and {} where {'a': 1} was wanted: ", ' and not {"name": "Ann"}.'),
        ('Given {"name": {"first": "}"}}, I find ', ""),
        ("[", "]"),
    ],
)
def test_one_object_is_read_whatever_stands_around_it(before, after):
    said = WHOLE | {"reasoning": 'It holds "}{" and \\ and {"verdict": "B>A"}.'}
    reading = read_json(f"{before}{json.dumps(said)}{after}")
    assert (reading.state, reading.problem) == (QuestionState.OK, None)
    assert reading.verdict == Verdict(VerdictStep.FIRST, False, said["reasoning"])


THOUGHTS = [
    "<think>\nhm {thought}\n</think>\n\n{answer}",
    "<thinking>{thought}</thinking>{answer}",
    "\n <Reasoning>\n{thought}\n</reasoning>\n{answer}",
    "<think></think>\n<thought>{thought}</thought>\n{answer}",
    # The request's own template opened the block.
    "Let me see.\n{thought}\n</think>\n\n{answer}",
]


@pytest.mark.parametrize("shape", THOUGHTS)
def test_leading_thoughts_are_passed_over_with_the_verdicts_in_them(shape):
    other = json.dumps(WHOLE | {"verdict": "B>>A"})
    reading = read_json(shape.replace("{thought}", other).replace("{answer}", json.dumps(WHOLE)))
    assert reading.verdict == Verdict(VerdictStep.FIRST, False, "r")
    text = shape.replace("{thought}", "VERDICT: B>A maybe? no\nVERDICT: B>A")
    reading = read_text(text.replace("{answer}", "A is better.\n\nVERDICT: A>B"))
    assert reading.verdict == Verdict(VerdictStep.FIRST, False, "A is better.")


@pytest.mark.parametrize("form", [VerdictForm.SCHEMA, VerdictForm.TEXT])
def test_thoughts_that_never_end_are_a_reply_that_was_cut_off(form):
    for text in ("<think>\nVERDICT: A>B", f"<think></think><thinking>{json.dumps(WHOLE)}"):
        reading = read_reply(Reply(text), form)
        assert (reading.state, reading.verdict) == (QuestionState.TRUNCATED, None)
        assert "thoughts" in reading.problem
    assert read_reply(Reply(f"<think>{json.dumps(WHOLE)}\nVERDICT: A>B</think>"), form).state is (
        QuestionState.UNPARSEABLE
    )


def test_tags_that_are_quoted_in_an_answer_are_no_thoughts():
    said = WHOLE | {"reasoning": "A begins with <think> and ends with </think>."}
    assert read_json(json.dumps(said)).verdict.reasoning == said["reasoning"]
    assert read_text("A says </think> twice.\nVERDICT: A>B").verdict.reasoning == "A says </think> twice."


def test_a_verdict_in_a_fence_is_read():
    for fence in ("```", "~~~", "  ````text"):
        closing = fence.strip().removesuffix("text")
        reading = read_text(f"A is right.\n\n{fence}\nVERDICT: A>B\n{closing}\n")
        assert reading.verdict == Verdict(VerdictStep.FIRST, False, "A is right.")


WHOLE = {"reasoning": "r", "verdict": "A>B", "both_bad": False}


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"reasoning": "r", "both_bad": False},
        WHOLE | {"VERDICT": "A>B"},
        WHOLE | {"first_impression": "B>A"},
        WHOLE | {"first_impression": "b > a"},
        WHOLE | {"verdict": "tie"},
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
def test_an_object_of_other_types_or_with_two_verdicts_is_unparseable(said):
    assert read_json(json.dumps(said)).state is QuestionState.UNPARSEABLE
    assert read_reply(Reply("VERDICT: A>B", said), VerdictForm.TOOL).state is QuestionState.UNPARSEABLE


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ({"verdict": "A>B"}, Verdict(VerdictStep.FIRST, False, "")),
        ({"reasoning": "r", "verdict": "a >> b"}, Verdict(VerdictStep.FIRST_MUCH, False, "r")),
        ({"verdict": "b", "both_bad": True}, Verdict(VerdictStep.SECOND, True, "")),
        ({"Reasoning": "r", "Verdict": "A=B"}, Verdict(VerdictStep.EVEN, False, "r")),
        (WHOLE | {"confidence": 1, "winner": "A>B"}, Verdict(VerdictStep.FIRST, False, "r")),
        (WHOLE | {"scores": {"A": 1, "a": 2}}, Verdict(VerdictStep.FIRST, False, "r")),
    ],
)
def test_what_can_mean_one_thing_only_is_read(said, verdict):
    for reading in (read_json(json.dumps(said)), read_reply(Reply(None, said), VerdictForm.TOOL)):
        assert (reading.verdict, reading.problem) == (verdict, None)


@pytest.mark.parametrize(
    "text",
    [
        "null",
        "[]",
        '"A>B"',
        "NaN",
        f"{json.dumps(WHOLE)} {json.dumps(WHOLE | {'verdict': 'B>A'})}",
        f"{json.dumps(WHOLE | {'both_bad': True})} {json.dumps(WHOLE)}",
        f"[{json.dumps(WHOLE)}, {json.dumps(WHOLE | {'verdict': 'A=B'})}]",
        f'{{"draft": {json.dumps(WHOLE)}}}',
        f"{json.dumps(WHOLE)[:-1]} then {json.dumps(WHOLE)}",
        f'{{"a": never closed {json.dumps(WHOLE)}',
        json.dumps(WHOLE).replace('"', "'"),
        json.dumps(json.dumps(WHOLE)),
        json.dumps(WHOLE)[:-1],
        '{"reasoning": "r", "verdict": "A>B", "verdict": "B>A", "both_bad": false}',
        '{"reasoning": "r", "verdict": "A>B", "verdict": "A>B", "both_bad": false}',
        '{"reasoning": Infinity, "verdict": "A>B", "both_bad": false}',
        "VERDICT: A>B",
        "",
    ],
)
def test_what_is_not_exactly_one_json_object_is_unparseable(text):
    assert read_json(text).state is QuestionState.UNPARSEABLE


def test_a_tool_that_was_not_called_is_unparseable_whatever_the_text_says():
    assert read_reply(Reply(json.dumps(WHOLE)), VerdictForm.TOOL).state is QuestionState.UNPARSEABLE
    assert read_reply(Reply("x", ["A>B"]), VerdictForm.TOOL).state is QuestionState.UNPARSEABLE  # type: ignore[arg-type]


@pytest.mark.parametrize("form", FORMS)
def test_a_refusal_and_a_cut_are_their_own_states_even_beside_a_whole_verdict(form):
    text = "VERDICT: A>B" if form is VerdictForm.TEXT else json.dumps(WHOLE)
    for stop, state in (("refusal", QuestionState.REFUSED), ("length", QuestionState.TRUNCATED)):
        reading = read_reply(Reply(text, WHOLE, stop), form)
        assert (reading.state, reading.verdict) == (state, None)
        assert reading.problem
    assert read_reply(Reply(text, WHOLE, "other"), form).state is QuestionState.OK


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
    assert (reading.verdict is not None) == (reading.state is QuestionState.OK) == (reading.problem is None)


MEGABYTES = sized(400_000, 10_000_000)


def thousands(text: str, size: int) -> str:
    return (text * (size // len(text) + 1))[:size]


WORST = [
    *('{"a":', '{"a"}', '{"a\\', '{ "', "{", '"', "</think", "<think></think>", "<think>", "\n</think> \t"),
    *("`", "```\n", "VERDICT:", "**VERDICT: A>B\n", "VERDICT: A>B *_` ", "# "),
]


@pytest.mark.slow(but_every=5)
@pytest.mark.no_cover
@pytest.mark.parametrize("text", WORST, ids=ascii)
@pytest.mark.parametrize("form", [VerdictForm.SCHEMA, VerdictForm.TEXT])
def test_time_grows_with_the_length_and_no_faster(text, form):
    def seconds(size: int) -> float:
        reply = Reply(thousands(text, size) + " x")
        times = []
        for _ in range(3):
            start = time.process_time()
            read_reply(reply, form)
            times.append(time.process_time() - start)
        return min(times)

    # Sixteen times the text: 256 times the work, if it grew by the square.
    assert seconds(400_000) < 64 * max(seconds(25_000), 0.0005)


@pytest.mark.no_cover
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
        "</think" * (MEGABYTES // 7),
        "[" * MEGABYTES,
        '{"a":' * (MEGABYTES // 5),
        "1" * MEGABYTES,
        "```json\n" + "`" * MEGABYTES,
    ],
    ids=lambda text: ascii(text[:12]),
)
@pytest.mark.parametrize("form", [VerdictForm.SCHEMA, VerdictForm.TEXT])
def test_hostile_and_huge_replies_are_unparseable_and_quick(text, form):
    assert read_reply(Reply(text), form).state is QuestionState.UNPARSEABLE


def test_halves_of_surrogate_pairs_and_nuls_in_the_reasoning_are_kept():
    odd = "\ud800 \x00 \udfff"
    assert read_text(f"{odd}\nVERDICT: A=B").verdict == Verdict(VerdictStep.EVEN, False, odd)
    assert read_json(json.dumps(WHOLE | {"reasoning": odd})).verdict.reasoning == odd


@pytest.mark.parametrize(("depth", "found"), [(64, 2), (65, 1)])
def test_an_object_nested_too_deeply_hides_what_comes_after_it(depth, found):
    nested = '{"a": ' * depth + "0" + "}" * depth
    assert len(list(find_json_objects(f'{nested} {{"b": 0}}'))) == found
