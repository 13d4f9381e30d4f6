"""Whatever events say, the end is an answer or one `ProviderFault`; and what was said is not lost."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.sizes import sized
from tiltyard.errors import ProviderFault
from tiltyard.judges.providers.anthropic import AnthropicStream
from tiltyard.judges.providers.openai import OpenAIStream
from tiltyard.judges.providers.provider import StreamEnd, StreamPiece, StreamTimeouts
from tiltyard.judges.providers.server_events import (
    EventParser,
    ServerEvent,
    SilenceWatch,
    StreamDeadline,
    StreamSilent,
)

READERS = [OpenAIStream, AnthropicStream]
#: The words of both protocols, wherever they may turn up.
KEYS = st.sampled_from(
    [
        *(
            "type",
            "choices",
            "delta",
            "message",
            "content",
            "text",
            "thinking",
            "reasoning",
            "reasoning_content",
        ),
        *(
            "finish_reason",
            "stop_reason",
            "error",
            "code",
            "usage",
            "x_groq",
            "refusal",
            "content_block",
            "index",
        ),
        *("prompt_tokens", "completion_tokens", "total_tokens", "input_tokens", "output_tokens"),
    ]
)
WORDS = st.sampled_from(
    [
        *(
            "message_start",
            "content_block_start",
            "content_block_delta",
            "message_delta",
            "message_stop",
            "error",
        ),
        *(
            "stop",
            "length",
            "content_filter",
            "end_turn",
            "refusal",
            "<think>",
            "</think>",
            "\ud83d",
            "a",
            "",
        ),
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
@settings(max_examples=sized(40, 1000))
def test_any_json_is_an_answer_or_a_fault(kind, documents, name):
    events = [ServerEvent(name, json.dumps(document).encode()) for document in documents]
    outcome(kind("here"), [[event] for event in events])


@pytest.mark.parametrize("kind", READERS)
@given(st.dictionaries(KEYS, DOCUMENTS, max_size=6))
@settings(max_examples=sized(40, 1000))
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
