"""Whatever events say, the end is an answer or one `ProviderFault`; and what was said is not lost."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.sizes import sized
from tiltyard.errors import ProviderFault
from tiltyard.judges.providers.anthropic import AnthropicStream
from tiltyard.judges.providers.openai import OpenAIStream
from tiltyard.judges.providers.provider import StreamEnd, StreamPiece, StreamTimeouts
from tiltyard.judges.providers.stream_readers import (
    EventParser,
    OversizedStream,
    ServerEvent,
    SilenceWatch,
    StreamDeadline,
    StreamSilent,
    SurrogateJoiner,
    ThinkingTags,
)

READERS = [OpenAIStream, AnthropicStream]
#: The words of both protocols, wherever they may turn up.
KEYS = st.sampled_from(
    [
        "type",
        "choices",
        "delta",
        "message",
        "content",
        "text",
        "thinking",
        "reasoning",
        "reasoning_content",
        "finish_reason",
        "stop_reason",
        "error",
        "code",
        "usage",
        "x_groq",
        "refusal",
        "content_block",
        "index",
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "input_tokens",
        "output_tokens",
    ]
)
WORDS = st.sampled_from(
    [
        *[
            "message_start",
            "content_block_start",
            "content_block_delta",
            "message_delta",
            "message_stop",
            "error",
            "stop",
            "length",
        ],
        *["content_filter", "end_turn", "refusal", "<think>", "</think>", "�", "a"],
        "",
    ]
)
PLAIN = st.one_of(st.none(), st.booleans(), st.integers(-5, 600), st.floats(allow_nan=False), WORDS)
DOCUMENTS = st.recursive(
    PLAIN,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=5)),
    max_leaves=12,
)
CHOICES = st.fixed_dictionaries(
    {"choices": st.lists(st.fixed_dictionaries({"delta": DOCUMENTS, "finish_reason": PLAIN}), max_size=2)}
)


def outcome(reader, batches):
    """The pieces of a stream, and its end or its fault."""
    pieces, end = [], None
    try:
        for batch in batches:
            piece = reader.read(batch)
            if piece is not None:
                pieces.append(piece)
        rest = reader.rest()
        pieces += [] if rest is None else [rest]
        end = reader.end()
    except ProviderFault as fault:
        end = fault
    for piece in pieces:
        assert isinstance(piece, StreamPiece)
        (piece.text + piece.thinking).encode()
    if isinstance(end, StreamEnd):
        assert end.stop in {"end", "length", "refused"}
        assert all(count is None or count >= 0 for count in (end.input_tokens, end.output_tokens))
    return pieces, end


@pytest.mark.parametrize("kind", READERS)
@given(st.lists(st.one_of(DOCUMENTS, CHOICES), max_size=6), st.sampled_from(["", "error", "message_delta"]))
@settings(max_examples=sized(10, 1000))
def test_any_json_is_an_answer_or_a_fault(kind, documents, name):
    events = [ServerEvent(name, json.dumps(document).encode()) for document in documents]
    outcome(kind("here"), [[event] for event in events])


@pytest.mark.parametrize("kind", READERS)
@given(st.dictionaries(KEYS, DOCUMENTS, max_size=6))
@settings(max_examples=sized(10, 1000))
def test_any_document_is_an_answer_or_a_fault(kind, document):
    outcome(kind("here"), [document])


@pytest.mark.parametrize("kind", READERS)
@given(
    st.lists(st.binary(max_size=60), max_size=8), st.lists(st.sampled_from([b"data: ", b"\n\n", b"event: "]))
)
def test_any_bytes_are_an_answer_or_a_fault(kind, chunks, joints):
    parser = EventParser()
    batches = [
        parser.feed(chunk + joint) for chunk, joint in zip(chunks, [*joints, *[b""] * 8], strict=False)
    ]
    outcome(kind("here"), [*batches, parser.close()])


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), max_size=12), st.data())
def test_pieces_together_are_the_whole_text(texts, data):
    """However many events arrive together."""
    whole = "x" + "".join(texts)
    events = [
        ServerEvent("", json.dumps({"choices": [{"delta": {"content": text}}]}).encode())
        for text in ["x", *texts]
    ]
    events.append(ServerEvent("", b"[DONE]"))
    batches = []
    while events:
        size = data.draw(st.integers(1, len(events)))
        batches.append(events[:size])
        events = events[size:]
    pieces, end = outcome(OpenAIStream("here"), batches)
    assert "".join(piece.text for piece in pieces) == whole
    assert end == StreamEnd(None, None, "end")


# Silence.


def test_the_deadline_counts_from_the_last_piece():
    deadline = StreamDeadline(StreamTimeouts(10, 3, 20), 100.0)
    assert (deadline.at, deadline.problem) == (110, "no token within 10 seconds")
    deadline.heard(105.0)
    assert (deadline.at, deadline.problem) == (108, "no further token for 3 seconds")
    deadline.heard(119.0)
    assert (deadline.at, deadline.problem) == (120, "the answer was not complete after 20 seconds")
    deadline.ended(119.5)
    assert deadline.at == pytest.approx(119.6)


class Content:
    """A stream that says nothing until it is closed."""

    def __init__(self):
        self.closed = asyncio.get_running_loop().create_future()

    async def readany(self):
        return await asyncio.shield(self.closed)

    def close(self):
        if not self.closed.done():
            self.closed.set_exception(ConnectionError("closed"))


async def test_a_silent_stream_is_closed_at_its_deadline():
    content = Content()
    now = asyncio.get_running_loop().time()
    watch = SilenceWatch(StreamDeadline(StreamTimeouts(0.05, 5, 5), now), content.close)
    with pytest.raises(StreamSilent):
        await watch.read(content)
    watch.stop()


async def test_nobody_reading_is_not_silence():
    content = Content()
    loop = asyncio.get_running_loop()
    deadline = StreamDeadline(StreamTimeouts(0.05, 0.05, 60), loop.time())
    watch = SilenceWatch(deadline, content.close)
    await asyncio.sleep(0.2)
    assert not content.closed.done()
    deadline.heard(loop.time())
    with pytest.raises(StreamSilent):
        await watch.read(content)
    watch.stop()


async def test_an_error_before_the_deadline_is_its_own():
    content = Content()
    watch = SilenceWatch(StreamDeadline(StreamTimeouts(), asyncio.get_running_loop().time()), content.close)
    content.close()
    with pytest.raises(ConnectionError):
        await watch.read(content)
    watch.stop()


# Server-sent events, wherever their bytes are cut.


EVENTS = [ServerEvent("", b"1"), ServerEvent("a", b"2\n3"), ServerEvent("", b"{}")]


@given(
    st.sampled_from(["\n", "\r", "\r\n"]),
    st.lists(st.integers(0, 60)),
    st.booleans(),
)
def test_events_do_not_depend_on_where_chunks_end(newline, cuts, ended):
    lines = [
        ": comment",
        "data: 1",
        "",
        "id: 7",
        "event: a",
        "data: 2",
        "data:3",
        "",
        "retry: 5",
        "",
        "data: {}",
    ]
    text = ("\ufeff" + newline.join([*lines, "", ""] if ended else lines)).encode()
    parser, found, places = EventParser(), [], [0, *sorted(cuts), len(text)]
    for start, end in pairwise(places):
        found += parser.feed(text[start:end])
    assert found + parser.close() == EVENTS


def test_events_have_limits():
    with pytest.raises(OversizedStream, match="line"):
        EventParser(10).feed(b"data: 1234567890\n")
    with pytest.raises(OversizedStream, match="line"):
        EventParser(10).feed(b"data: 1234567890")
    with pytest.raises(OversizedStream, match="event"):
        EventParser(10).feed(b"data: 1234\n" * 3)
    parser = EventParser(10, 20)
    parser.feed(b"data: 12\n\n")
    with pytest.raises(OversizedStream, match="more than 20"):
        parser.feed(b"data: 12\n\n\n")


# Thinking between tags, and characters in two halves, wherever the text is cut.


def split(pieces):
    tags, text, thinking = ThinkingTags(), "", ""
    for piece in [*map(tags.split, pieces), tags.rest()]:
        text, thinking = text + piece[0], thinking + piece[1]
    return text, thinking


@pytest.mark.parametrize(
    ("whole", "text", "thinking"),
    [
        ("<think>Hm.</think>\n\nYes", "Yes", "Hm."),
        ("\n<think>\nHm </thin </think>Yes </think>", "Yes </think>", "\nHm </thin "),
        ("[THINK]Hm[/THINK]Yes", "Yes", "Hm"),
        ("<think>Hm", "", "Hm"),
        ("<think>Hm</thi", "", "Hm</thi"),
        ("Use <think> here", "Use <think> here", ""),
        ("<thin", "<thin", ""),
        ("<thinner> is no tag", "<thinner> is no tag", ""),
        ("  Yes", "  Yes", ""),
        ("<think></think>", "", ""),
        ("<think>a</think><think>b", "<think>b", "a"),
        ("   ", "   ", ""),
        ("", "", ""),
    ],
)
@given(st.lists(st.integers(0, 40)))
def test_thinking_between_tags(whole, text, thinking, cuts):
    places = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    assert split([whole[start:end] for start, end in pairwise(places)]) == (
        text,
        thinking,
    )


@given(st.lists(st.integers(0, 40)))
def test_thinking_that_was_opened_in_the_prompt(cuts):
    whole = "Hm, <think> so.</think>\n\nYes"
    places = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    tags = ThinkingTags(opened=True)
    pieces = [tags.split(whole[start:end]) for start, end in pairwise(places)]
    assert "".join(text for text, _ in pieces) == "Yes"
    assert "".join(thinking for _, thinking in pieces) == "Hm, <think> so."
    assert tags.rest() == ("", "")


def test_many_blanks_are_not_held_back():
    assert ThinkingTags().split(" " * 1000)[0] == " " * 1000


@given(st.text(st.sampled_from("ab👋é"), max_size=8), st.integers(0, 20))
def test_halves_are_joined_wherever_they_are_cut(text, at):
    units = text.encode("utf-16-le", "surrogatepass")
    halves = [units[: 2 * at], units[2 * at :]]
    joiner = SurrogateJoiner()
    assert (
        "".join(joiner.join(half.decode("utf-16-le", "surrogatepass")) for half in halves) + joiner.rest()
        == text
    )
