"""The answers file, and what converts into it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.format_samples import FIXTURES, as_json_lines
from support.sizes import sized
from tiltyard.errors import BadOption, UnreadableFile
from tiltyard.files.answer import KINDS, SCORES_ONLY, Answer, AnswerUsage
from tiltyard.files.answers import (
    drop_replaced_answers,
    read_answers,
    write_answers,
)

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def test_reading() -> None:
    first, second = read_answers(FIXTURES / "answers.jsonl")
    assert first == Answer(
        prompt_id="p1",
        prompt="Name a tree.",
        model="oak",
        response="An oak.",
        category="nature",
        language="en",
        gold="any tree",
        expected_behavior="answers",
        source="hand",
        extra={"tokens": 3},
    )
    assert (second.prompt_id, second.kind, second.gold) == ("2", "image", None)


@settings(max_examples=sized(10, 100), deadline=None)
@given(
    st.lists(
        st.builds(
            Answer,
            prompt_id=text,
            prompt=text,
            model=text,
            response=text,
            kind=st.sampled_from(KINDS),
            category=st.none() | text,
            language=st.none() | text,
            gold=st.none() | text,
            expected_behavior=st.none() | text,
            source=st.none() | text,
            truncated=st.booleans(),
            extra=st.dictionaries(st.sampled_from(["x", "y"]), st.integers() | text, max_size=2),
        ),
        max_size=4,
    )
)
def test_round_trip(tmp_path_factory, answers: list[Answer]) -> None:
    path = tmp_path_factory.mktemp("answers") / "responses.jsonl.gz"
    write_answers(path, answers)
    assert list(read_answers(path)) == answers


def test_a_mark_of_truncation_may_be_spelled_as_text(tmp_path) -> None:
    path = tmp_path / "answers.csv"
    marks = ("true", "False", "1", "0", "")
    rows = [f"p{k},Why?,oak,So.,{mark}" for k, mark in enumerate(marks)]
    path.write_text("\n".join(["prompt_id,prompt,model,response,truncated", *rows]) + "\n")
    assert [one.truncated for one in read_answers(path)] == [True, False, True, False, False]


def test_whole_and_later_answers_replace_truncated_ones() -> None:
    def answer(model: str, response: str, *, truncated: bool) -> Answer:
        return Answer(prompt_id="p", prompt="Why?", model=model, response=response, truncated=truncated)

    whole_after = [answer("oak", "Be", truncated=True), answer("oak", "Because.", truncated=False)]
    whole_before = [answer("elm", "Because.", truncated=False), answer("elm", "Be", truncated=True)]
    never_whole = [answer("ash", "B", truncated=True), answer("ash", "Be", truncated=True)]
    # Two whole ones that differ are for whoever reads them to refuse.
    differing = [answer("yew", "Because.", truncated=False), answer("yew", "So.", truncated=False)]
    kept = list(drop_replaced_answers([*whole_after, *whole_before, *never_whole, *differing]))
    assert kept == [whole_after[1], whole_before[0], never_whole[1], *differing]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "smell"}, "line 1: kind is 'smell'; expected one of text, image, audio, app"),
        ({"response": None}, "line 1: response is missing; expected text"),
        ({"prompt": ["x"]}, "line 1: prompt is list; expected text"),
        ({"model": True}, "line 1: model is bool; expected text"),
        ({"truncated": "perhaps"}, "line 1: truncated is 'perhaps'; expected true or false"),
        ({"truncated": ["x"]}, """line 1: truncated is "['x']"; expected true or false"""),
    ],
)
def test_answers_that_are_wrong(change: dict, message: str, tmp_path) -> None:
    row = {"prompt_id": "p", "prompt": "q", "model": "m", "response": "r", **change}
    path = as_json_lines([row], tmp_path / "responses.jsonl")
    with pytest.raises(UnreadableFile) as caught:
        list(read_answers(path))
    assert str(caught.value) == f"{path}, {message}"


def test_answers_are_written_as_json_lines_only(tmp_path) -> None:
    with pytest.raises(BadOption, match=r"\.jsonl, \.jsonl\.gz, \.jsonl\.zst"):
        write_answers(tmp_path / "responses.parquet", [])


def test_arena_hard() -> None:
    first, second = read_answers(FIXTURES / "arena_hard/model_answer/oak.jsonl")
    assert first == Answer(
        prompt_id="u1",
        prompt="Sort a list.",
        model="oak",
        response="Use sorted().",
        category="hard_prompt",
        source="arena-hard",
        usage=AnswerUsage(output_tokens=4),
    )
    assert (second.response, second.system) == ("A line.", "Be brief.")


def test_older_arena_hard_answers(tmp_path) -> None:
    path = as_json_lines([{"question_id": "q", "model_id": "oak", "choices": []}], tmp_path / "oak.jsonl")
    with pytest.raises(UnreadableFile, match="line 1: only"):
        list(read_answers(path))


def test_a_conversation_is_read_from_its_messages(tmp_path) -> None:
    row = {
        "prompt_id": "p",
        "model": "oak",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "human", "value": "Hello."},
            {"from": "gpt", "content": [{"type": "output_text", "text": "Good day."}, "Sir."]},
            {"role": "user", "content": [{"type": "text", "text": "Look."}, IMAGE]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"function": {"name": "see", "arguments": "{}"}}],
            },
            {"role": "tool", "name": "see", "content": "a tree"},
            {"role": "assistant", "content": {"answer": "A tree."}},
        ],
        "usage": {"prompt_tokens": 5, "completion_tokens": 7.0, "cost": 0.5, "latency": 2},
        "scores": {"acc": True, "odd": None},
        "repeat": 1,
        "params_hash": "x",
    }
    (answer,) = read_answers(as_json_lines([row], tmp_path / "answers.jsonl"))
    assert (answer.prompt, answer.response, answer.system) == ("Look.", "A tree.", "Be brief.")
    assert [one.role for one in answer.messages] == ["user", "assistant", "user"]
    assert answer.messages[1].text == "Good day.\nSir."
    assert answer.messages[2].parts[1].url == "https://example.org/tree.png"
    assert [one.role for one in answer.trace] == ["assistant", "tool"]
    assert answer.trace[0].tool_calls[0].name == "see"
    assert (answer.usage, answer.scores) == (
        AnswerUsage(input_tokens=5, output_tokens=7, cost_usd=0.5, latency_seconds=2.0),
        {"acc": 1.0},
    )
    write_answers(tmp_path / "again.jsonl", [answer])
    assert list(read_answers(tmp_path / "again.jsonl")) == [answer]


IMAGE = {"type": "image_url", "image_url": {"url": "https://example.org/tree.png"}}


def test_one_question_and_one_answer_are_the_short_form(tmp_path) -> None:
    short = {"prompt_id": "p", "prompt": "Why?", "model": "oak", "response": "So."}
    messages = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]
    long = {"prompt_id": "p", "model": "oak", "messages": messages}
    both = short | {"messages": messages}
    asked = short | {"messages": messages[:1]}
    found = read_answers(as_json_lines([short, long, both, asked], tmp_path / "answers.jsonl"))
    assert len({answer.to_dict().__repr__() for answer in found}) == 1


def test_older_files_may_use_the_new_names_for_something_else(tmp_path) -> None:
    row = {"prompt_id": "p", "prompt": "?", "model": "oak", "response": "!"}
    old = {
        "messages": "none",
        "trace": {},
        "usage": {"seconds": 3},
        "scores": 7,
        "system": [1],
        "params_hash": {},
    }
    (answer,) = read_answers(as_json_lines([row | old], tmp_path / "answers.jsonl"))
    assert answer.to_dict() == row | {"kind": "text"} | old


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"repeat": -1}, "repeat is '-1'; expected 0 or a positive number"),
        ({"repeat": "two"}, "repeat is 'two'; expected 0 or a positive number"),
        ({"scores": {"acc": "high"}}, "the score acc is 'high'; expected a number"),
        ({"scores": {"acc": 10**400}}, "the score acc is '1000"),
        ({"usage": {"cost": "much"}}, "cost_usd of usage is 'much'; expected a number"),
        ({"messages": [7]}, "message 1 is int; expected an object"),
        ({"messages": [{"role": "user", "content": [7]}]}, "the content of a message has int"),
        ({"messages": [{"role": "user", "tool_calls": 7}]}, "tool_calls is not a list of objects"),
        ({"messages": [{"role": "user", "tool_calls": [{}]}]}, "a tool call has no name"),
    ],
)
def test_wrong_parts_of_conversations(change: dict, message: str, tmp_path) -> None:
    row = {"prompt_id": "p", "prompt": "q", "model": "m", "response": "r", **change}
    with pytest.raises(UnreadableFile) as caught:
        list(read_answers(as_json_lines([row], tmp_path / "responses.jsonl")))
    assert f"line 1: {message}" in str(caught.value)


def test_parts_of_messages_in_the_shapes_of_several_tools(tmp_path) -> None:
    content = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        {"type": "document", "document": "a.pdf"},
        {"type": "audio"},
        {"type": "hologram"},
        {"type": "tool_use", "name": "see", "input": {"x": 1}},
        {"text": "bare"},
        None,
    ]
    result = {
        "role": "user",
        "content": [{"type": "tool_result", "content": [{"type": "text", "text": "seen"}]}],
    }
    messages = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": content}, result]
    row = {"prompt_id": "p", "prompt": "Hi.", "model": "m", "response": "r", "trace": messages}
    (answer,) = read_answers(as_json_lines([row], tmp_path / "answers.jsonl"))
    parts = [(part.kind, part.url, part.text) for part in answer.trace[1].parts]
    assert parts == [
        ("image", "data:image/png;base64,AAAA", ""),
        ("image", "https://example.org/a.png", ""),
        ("file", "a.pdf", ""),
        ("audio", None, ""),
        ("hologram", None, ""),
        ("text", None, "bare"),
    ]
    assert answer.trace[1].tool_calls[0].arguments == '{"x": 1}'
    assert (answer.trace[2].role, answer.trace[2].text) == ("tool", "seen")
    write_answers(tmp_path / "again.jsonl", [answer])
    assert list(read_answers(tmp_path / "again.jsonl")) == [answer]


def test_scores_without_a_response(tmp_path) -> None:
    row = {"prompt_id": "p", "prompt": "q", "model": "m", "kind": "scores", "scores": {"acc": 1}}
    (answer,) = read_answers(as_json_lines([row], tmp_path / "answers.jsonl"))
    assert (answer.kind, answer.response, answer.scores) == (SCORES_ONLY, "", {"acc": 1.0})
