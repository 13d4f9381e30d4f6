"""Reading: raw replies of each provider, reduced to what a parser needs; whatever came."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.asking import anthropic, ask, openai, opened, run
from support.servers.paid_llm import paid_llm
from tiltyard.core.judging.verdict import Reply, VerdictForm
from tiltyard.judges.providers.provider import Usage

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def message(*blocks, stop="end_turn", **more):
    return {"content": list(blocks), "stop_reason": stop, **more}


def completion(stop="stop", **fields):
    return {"choices": [{"finish_reason": stop, "message": {"role": "assistant", **fields}}]}


def call(arguments):
    return [{"type": "function", "function": {"name": "give_verdict", "arguments": arguments}}]


@pytest.mark.parametrize(
    ("stop", "read"),
    [
        ("end_turn", "end"),
        ("tool_use", "end"),
        ("stop_sequence", "end"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
        ("pause_turn", "other"),
        ("something new", "other"),
        (None, "other"),
        (["end_turn"], "other"),
    ],
)
def test_anthropic_stop_reasons(stop, read):
    assert anthropic().read(message({"type": "text", "text": "x"}, stop=stop))[0] == Reply("x", None, read)


@pytest.mark.parametrize(
    ("stop", "read"),
    [
        ("stop", "end"),
        ("tool_calls", "end"),
        ("length", "length"),
        ("content_filter", "refusal"),
        ("something new", "other"),
        (None, "other"),
    ],
)
def test_openai_finish_reasons(stop, read):
    assert openai().read(completion(stop, content="x"))[0] == Reply("x", None, read)


def test_anthropic_joins_text_and_leaves_thinking_out():
    blocks = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]
    assert anthropic().read(message(*blocks))[0].text == "ab"
    assert anthropic().read(message(blocks[0]))[0].text is None


def test_anthropic_tool_input_is_data():
    block = {"type": "tool_use", "id": "1", "name": "give_verdict", "input": {"verdict": "A>B"}}
    assert anthropic().read(message(block, stop="tool_use"))[0] == Reply(None, {"verdict": "A>B"}, "end")


def test_openai_tool_arguments_are_data():
    reply = openai().read(completion("tool_calls", content=None, tool_calls=call('{"verdict": "A>B"}')))[0]
    assert reply == Reply(None, {"verdict": "A>B"}, "end")


@pytest.mark.parametrize("arguments", ['{"verdict": "A', "[]", "NaN", '{"x": NaN}', "7", "[" * 100_000])
def test_openai_tool_arguments_that_are_no_object_stay_text(arguments):
    reply = openai().read(completion("tool_calls", content=None, tool_calls=call(arguments)))[0]
    assert (reply.text, reply.data) == (arguments, None)


@pytest.mark.parametrize(
    ("stated", "read"), [("m-2", "m-2"), ("", None), (7, None), (None, None), ("x" * 999, "x" * 200)]
)
def test_the_model_that_was_served(stated, read):
    assert anthropic().read(message(model=stated))[0].model == read
    assert openai().read(completion(content="x") | {"model": stated})[0].model == read
    assert openai().read(completion(refusal="no") | {"model": stated})[0].model == read


def test_openai_refusals_and_parts():
    assert openai().read(completion(content=None, refusal="no"))[0] == Reply("no", None, "refusal")
    parts = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]
    assert openai().read(completion(content=parts))[0].text == "ab"
    assert openai().read(completion(content=None))[0].text is None


def test_usage_is_split_as_it_is_billed():
    usage = {
        "input_tokens": 5,
        "output_tokens": 7,
        "cache_creation_input_tokens": 11,
        "cache_read_input_tokens": 13,
    }
    assert anthropic().read({"usage": usage})[1] == Usage(5, 7, 11, 13)
    nothing = {"input_tokens": 5, "output_tokens": 7, "cache_creation_input_tokens": None}
    assert anthropic().read({"usage": nothing})[1] == Usage(5, 7)
    details = {"cached_tokens": 60, "cache_write_tokens": 10}
    stated = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": details}
    assert openai().read({"usage": stated})[1] == Usage(30, 7, 10, 60)
    assert openai().read({"usage": stated | {"prompt_tokens_details": None}})[1] == Usage(100, 7)


def test_thoughts_that_only_the_total_counts_are_output():
    """As Gemini's and xAI's endpoints state them."""
    stated = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 207}
    assert openai().read({"usage": stated})[1] == Usage(100, 107)
    for total in (107, 50, None, "many"):
        assert openai().read({"usage": stated | {"total_tokens": total}})[1] == Usage(100, 7)


@pytest.mark.parametrize("bad", [None, 3, [], {}, {"input_tokens": 1}, {"prompt_tokens": "many"}])
def test_usage_that_is_none_is_none(bad):
    assert anthropic().read({"usage": bad})[1] is None
    assert openai().read({"usage": bad})[1] is None


@given(st.integers() | st.booleans() | st.floats(), st.integers(-5, 200), st.integers(-5, 200))
def test_cached_tokens_never_make_input_negative(prompt, cached, written):
    details = {"cached_tokens": cached, "cache_write_tokens": written}
    usage = {"prompt_tokens": prompt, "completion_tokens": 1, "prompt_tokens_details": details}
    read = openai().read({"usage": usage})[1]
    if isinstance(prompt, int) and not isinstance(prompt, bool) and prompt >= 0:
        assert read.input + read.cache_read + read.cache_write == prompt
        assert min(read.input, read.cache_read, read.cache_write) >= 0
    else:
        assert read is None


@given(st.dictionaries(st.sampled_from(["content", "stop_reason", "usage", "choices", "error"]), JSON))
def test_reading_never_raises(body):
    for provider in (anthropic(), openai()):
        reply, usage = provider.read(body)
        assert reply.stop in {"end", "length", "refusal", "other"}
        assert usage is None or usage.input >= 0


@given(JSON, JSON, JSON)
def test_reading_never_raises_deeper_down(first, second, third):
    openai().read({"choices": [{"finish_reason": first, "message": second}]})
    openai().read({"choices": [{"message": {"content": first, "refusal": second, "tool_calls": [third]}}]})
    openai().read({"choices": [{"message": {"tool_calls": [{"function": {"arguments": first}}]}}]})
    anthropic().read(
        {"content": [first, {"type": "text", "text": second}, {"type": "tool_use", "input": third}]}
    )


def test_text_can_always_be_written_down():
    broken = json.loads('"\\ud83d\\ude00 whole, \\ud83d alone"')
    assert openai().read(completion(content=broken))[0].text == "\U0001f600 whole, \ufffd alone"
    assert openai().read(completion(content="\U0001f600"))[0].text == "\U0001f600"
    anthropic().read(message({"type": "text", "text": broken}))[0].text.encode()


@pytest.mark.parametrize("name", ["anthropic", "openai"])
@pytest.mark.parametrize("form", VerdictForm)
def test_a_verdict_comes_back_in_each_form(name, form):
    async def go(url):
        async with opened(name, url) as provider:
            for number in range(5):
                body = provider.body("m", ask(f"which {number}?", form), {})
                reply, usage = provider.read(await provider.complete(body))
                said = reply.data or (
                    json.loads(reply.text) if form is VerdictForm.SCHEMA else {"verdict": reply.text}
                )
                assert any(step in said["verdict"] for step in ("A>>B", "A>B", "A=B", "B>A", "B>>A"))
                assert (reply.data is not None) == (form is VerdictForm.TOOL)
                assert usage.output > 0
                cut = provider.body("m", ask(f"which {number}?", form, limit=3), {})
                assert provider.read(await provider.complete(cut))[0].stop == "length"

    with paid_llm() as server:
        run(go(server.base_url(name)))
