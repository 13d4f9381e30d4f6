"""Streamed answers of both protocols, from a server on loopback that is scripted byte by byte."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing, asynccontextmanager, suppress

import pytest

from support.asking import run
from tiltyard.errors import BadOption, ProviderFault, StreamBroken
from tiltyard.judges.chat_models import ChatModel
from tiltyard.judges.providers.local_replies import open_http_provider
from tiltyard.judges.providers.provider import (
    ChatRequest,
    ChatTurn,
    StreamEnd,
    StreamPiece,
    StreamTimeouts,
    Usage,
)

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
HELLO = ChatRequest((ChatTurn("user", "Hello?"),), "Be brief.", 100)
SOON = StreamTimeouts(first_token_seconds=0.2, gap_seconds=0.2, total_seconds=5.0)


class Upstream:
    """What the server was sent, and whether its connection was closed while it still wrote."""

    def __init__(self):
        self.heads, self.bodies, self.connections = [], [], 0
        self.asked, self.closed = asyncio.Event(), asyncio.Event()


@asynccontextmanager
async def upstream(*answers):
    """Give each request the next answer, the last one again and again: bytes, or a function that writes them."""
    told = Upstream()

    async def serve(reader, writer):
        told.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(head.lower().split("content-length:")[1].split("\r\n")[0])
                told.heads.append(head)
                told.bodies.append(json.loads(await reader.readexactly(length)))
                told.asked.set()
                answer = answers[min(len(told.bodies), len(answers)) - 1]
                if callable(answer):
                    await answer(reader, writer, told)
                else:
                    writer.write(answer)
                    await writer.drain()
                if b"connection: close" in (answer if isinstance(answer, bytes) else b"connection: close"):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            told.closed.set()
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", told
    finally:
        server.close()


@asynccontextmanager
async def chat(url, name="openai", timeouts=None, options=None, key="key"):
    timeouts = timeouts or StreamTimeouts()
    model = ChatModel(
        open_http_provider(name, url, key, timeouts.total_seconds, None), "m", options or {}, timeouts
    )
    try:
        yield model
    finally:
        await model.aclose()


def answer(*answers, name="openai", request=HELLO, timeouts=None, options=None, key="key"):
    """The text, the thinking and the end of an answer; or its fault as the end; and what the server was sent."""

    async def go():
        text, thinking, end = [], [], None
        async with upstream(*answers) as (url, told), chat(url, name, timeouts, options, key) as model:
            try:
                async with aclosing(model.stream(request)) as pieces:
                    async for piece in pieces:
                        assert end is None, "nothing follows the end"
                        if isinstance(piece, StreamEnd):
                            end = piece
                        else:
                            assert piece.text or piece.thinking
                            text.append(piece.text)
                            thinking.append(piece.thinking)
            except ProviderFault as fault:
                end = fault
        return "".join(text), "".join(thinking), end, told

    return run(go())


def event(document, name=None):
    head = f"event: {name}\n" if name else ""
    data = document if isinstance(document, str) else json.dumps(document, ensure_ascii=False)
    return f"{head}data: {data}\n\n".encode()


def delta(text=None, finish=None, **more):
    message = ({} if text is None else {"content": text}) | more
    return event({"id": "chatcmpl-1", "choices": [{"index": 0, "delta": message, "finish_reason": finish}]})


def usage(given, made, **more):
    return event({"choices": [], "usage": {"prompt_tokens": given, "completion_tokens": made} | more})


DONE = event("[DONE]")
STOP = delta(finish="stop")


def said(kind, **fields):
    return event({"type": kind, **fields}, kind)


def written(text, kind="text"):
    return said("content_block_delta", index=0, delta={"type": f"{kind}_delta", kind: text})


STARTED = said("message_start", message={"usage": {"input_tokens": 7, "output_tokens": 1}})
STOPPED = said("message_stop")


def ending(reason="end_turn", made=5):
    return said("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": made})


def refusal(status, document, more=""):
    data = json.dumps(document).encode()
    return f"HTTP/1.1 {status} No\r\n{more}content-length: {len(data)}\r\n\r\n".encode() + data


# OpenAI's protocol.


def test_an_answer_of_the_openai_protocol():
    text, thinking, end, told = answer(
        HEAD + delta("", role="assistant") + delta("Good ") + delta("day") + STOP + usage(9, 4) + DONE
    )
    assert (text, thinking) == ("Good day", "")
    assert end == StreamEnd(9, 4, "end", Usage(9, 4))
    [body] = told.bodies
    assert body == {
        "model": "m",
        "max_tokens": 100,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert "authorization: bearer key" in told.heads[0].lower()
    assert "accept-encoding: identity" in told.heads[0].lower()


def test_a_conversation_is_sent_with_all_its_turns():
    turns = (ChatTurn("user", "1"), ChatTurn("assistant", "2"), ChatTurn("user", "3"))
    asked = ChatRequest(turns, None, 5)
    [body] = answer(HEAD + STOP + DONE, request=asked)[3].bodies
    assert [(each["role"], each["content"]) for each in body["messages"]] == [
        ("user", "1"),
        ("assistant", "2"),
        ("user", "3"),
    ]


def test_a_request_ends_with_the_user():
    with pytest.raises(ValueError, match="the user's"):
        ChatRequest((ChatTurn("user", "1"), ChatTurn("assistant", "2")), None, 5)


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("stop", "end"),
        ("length", "length"),
        ("content_filter", "refused"),
        ("eos", "end"),
        ("MAX_TOKENS", "length"),
    ],
)
def test_reasons_of_the_openai_protocol(reason, stop):
    end = answer(HEAD + delta("a", finish=reason) + DONE)[2]
    assert end == StreamEnd(None, None, stop)


def test_a_refusal_is_text_and_refused():
    text, _, end, _ = answer(HEAD + delta(refusal="I cannot ") + delta(refusal="do that.") + STOP + DONE)
    assert (text, end.stop) == ("I cannot do that.", "refused")


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thinking_of_the_openai_protocol(field):
    parts = delta(**{field: "Hm, "}) + delta(**{field: "yes."}) + delta("Yes") + STOP + DONE
    assert answer(HEAD + parts)[:2] == ("Yes", "Hm, yes.")


def test_the_same_thinking_in_both_fields_counts_once():
    assert answer(HEAD + delta("a", reasoning="b", reasoning_content="b") + STOP + DONE)[:2] == ("a", "b")


def test_parts_of_content_as_mistral_sends_them():
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]},
        {"type": "text", "text": "Yes"},
        3,
    ]
    assert answer(HEAD + delta(parts) + STOP + DONE)[:2] == ("Yes", "Hm")


def test_usage_of_caches_and_of_groq():
    cached = usage(9, 4, prompt_tokens_details={"cached_tokens": 6})
    assert answer(HEAD + delta("a") + STOP + cached + DONE)[2] == StreamEnd(9, 4, "end", Usage(3, 4, 0, 6))
    groq = event({"choices": None, "x_groq": {"usage": {"prompt_tokens": 2, "completion_tokens": 1}}})
    assert answer(HEAD + delta("a") + STOP + groq + DONE)[2].output_tokens == 1


def test_usage_stated_in_every_chunk_counts_once():
    assert answer(HEAD + usage(9, 1) + delta("a") + usage(9, 2) + STOP + DONE)[2].output_tokens == 2


@pytest.mark.parametrize(
    ("status", "document"),
    [
        (400, {"error": {"message": "Unrecognized request argument supplied: stream_options"}}),
        (422, {"message": {"detail": [{"loc": ["body", "stream_options"], "msg": "Extra inputs"}]}}),
    ],
)
def test_a_server_that_refuses_to_state_usage_is_asked_without(status, document):
    refused = refusal(status, document)

    async def go():
        async with upstream(refused, HEAD + delta("a") + STOP + DONE) as (url, told), chat(url) as model:
            for _ in range(2):
                assert [piece async for piece in model.stream(HELLO)][-1].stop == "end"
        return told.bodies

    bodies = run(go())
    assert ["stream_options" in body for body in bodies] == [True, False, False], "it is remembered"


def test_a_refusal_of_something_else_is_told_and_not_learnt_from():
    refused = refusal(422, {"detail": "no"})
    _, _, fault, told = answer(refused)
    assert (fault.status, fault.billed, len(told.bodies)) == (422, False, 2)

    async def go():
        async with upstream(refused, refused, HEAD + STOP + DONE) as (url, told), chat(url) as model:
            with pytest.raises(ProviderFault):
                await anext(model.stream(HELLO))
            assert [piece async for piece in model.stream(HELLO)][-1].stop == "end"
        return told.bodies

    assert "stream_options" in run(go())[-1]


def test_limits_of_an_endpoint_are_learnt_from_its_refusal():
    said = "max_tokens is too large: 100. This model supports at most 80 completion tokens"
    told = answer(refusal(400, {"error": {"message": said}}), HEAD + delta("a") + STOP + DONE)[3]
    assert [body["max_tokens"] for body in told.bodies] == [100, 80]


def test_options_are_fields_of_the_request():
    [body] = answer(
        HEAD + STOP + DONE, options={"temperature": 0.5, "max_tokens_field": "max_completion_tokens"}
    )[3].bodies
    assert body["temperature"] == 0.5
    assert body["max_completion_tokens"] == 100
    with pytest.raises(BadOption, match="stream"):
        answer(HEAD, options={"stream": False})


# Anthropic's protocol.


def test_an_answer_of_the_anthropic_protocol():
    text, thinking, end, told = answer(
        HEAD
        + STARTED
        + said("content_block_start", index=0, content_block={"type": "thinking", "thinking": ""})
        + said("ping")
        + written("Hm.", "thinking")
        + said("content_block_delta", index=0, delta={"type": "signature_delta", "signature": "xyz"})
        + said("content_block_stop", index=0)
        + said("content_block_start", index=1, content_block={"type": "text", "text": ""})
        + written("Good ")
        + written("day")
        + said("a_new_event")
        + ending()
        + STOPPED,
        name="anthropic",
    )
    assert (text, thinking) == ("Good day", "Hm.")
    assert end == StreamEnd(7, 5, "end", Usage(7, 5))
    [body] = told.bodies
    assert body == {
        "model": "m",
        "max_tokens": 100,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Hello?"}],
        "stream": True,
    }
    assert "x-api-key: key" in told.heads[0].lower()


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refused"),
        ("stop_sequence", "end"),
    ],
)
def test_reasons_of_the_anthropic_protocol(reason, stop):
    end = answer(HEAD + STARTED + written("a") + ending(reason) + STOPPED, name="anthropic")[2]
    assert end.stop == stop


def test_tokens_of_caches_are_part_of_the_input():
    counts = {"input_tokens": 3, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 5}
    begun = said("message_start", message={"usage": counts})
    end = answer(HEAD + begun + written("a") + ending() + STOPPED, name="anthropic")[2]
    assert end == StreamEnd(28, 5, "end", Usage(3, 5, 5, 20))


def test_the_count_of_the_first_token_is_not_the_output():
    unknown = said("message_delta", delta={"stop_reason": "end_turn"})
    assert (
        answer(HEAD + STARTED + written("a") + unknown + STOPPED, name="anthropic")[2].output_tokens is None
    )


def test_an_answer_without_text_is_sent_back_as_one_that_anthropic_takes():
    asked = ChatRequest((ChatTurn("user", "1"), ChatTurn("assistant", " "), ChatTurn("user", "3")), None, 5)
    [body] = answer(HEAD + STARTED + ending() + STOPPED, name="anthropic", request=asked)[3].bodies
    assert body["messages"][1]["content"].strip()


@pytest.mark.parametrize(
    ("kind", "status", "throttled"),
    [("overloaded_error", 529, True), ("rate_limit_error", 429, True), ("api_error", 500, False)],
)
def test_errors_of_anthropic_before_and_within_an_answer(kind, status, throttled):
    error = said("error", error={"type": kind, "message": "Sorry"})
    fault = answer(HEAD + error, name="anthropic")[2]
    assert (type(fault), fault.status, fault.throttled, fault.retryable) == (
        ProviderFault,
        status,
        throttled,
        True,
    )
    assert fault.said == "Sorry"

    async def within(_, writer, __):
        writer.write(HEAD + STARTED + written("a"))
        await asyncio.sleep(0.05)
        writer.write(error)

    text, _, fault, _ = answer(within, name="anthropic")
    assert text == "a"
    assert (type(fault), fault.status, fault.throttled, fault.billed) == (
        StreamBroken,
        status,
        throttled,
        True,
    )


# Errors.


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (event({"error": {"message": "Sorry", "code": 502}}), 502),
        (event({"error": {"message": "Sorry", "code": "rate_limit_exceeded"}}), 429),
        (event({"choices": [{"delta": {}, "error": {"message": "Sorry", "code": 500}}]}), 500),
        (event({"message": "Sorry", "code": 503}, "error"), 503),
        (b'error: {"message": "Sorry", "code": 500}\n\n', 500),
        (event({"error": "Sorry"}), 200),
    ],
)
def test_error_events_of_the_openai_protocol(error, status):
    fault = answer(HEAD + error)[2]
    assert (type(fault), fault.status, fault.retryable) == (ProviderFault, status, True)
    assert "Sorry" in str(fault)


@pytest.mark.parametrize(
    ("status", "retryable", "throttled", "fatal"),
    [
        (429, True, True, False),
        (500, True, False, False),
        (401, False, False, True),
        (404, False, False, True),
    ],
)
def test_statuses_are_the_faults_of_other_calls(status, retryable, throttled, fatal):
    fault = answer(refusal(status, {"error": {"message": "Sorry"}}, "retry-after: 7\r\n"))[2]
    assert (fault.status, fault.retryable, fault.throttled, fault.fatal) == (
        status,
        retryable,
        throttled,
        fatal,
    )
    assert fault.retry_after == 7
    assert not isinstance(fault, StreamBroken)


async def half(_, writer, __):
    writer.write(HEAD + delta("Good "))
    await asyncio.sleep(0.05)


async def reset(_, writer, __):
    writer.write(CHUNKED + b"5\r\ndata:\r\n")
    await asyncio.sleep(0.05)
    writer.transport.abort()


async def garbled(_, writer, __):
    writer.write(HEAD + delta("Good "))
    await asyncio.sleep(0.05)
    writer.write(b"data: \xff\xfe{not json\n\n")


async def gave_up(_, writer, __):
    writer.write(HEAD + delta("Good "))
    await asyncio.sleep(0.05)
    writer.write(delta(finish="error"))


@pytest.mark.parametrize("broken", [half, garbled, gave_up])
def test_a_stream_that_breaks_off_after_it_began(broken):
    text, _, fault, _ = answer(broken)
    assert text == "Good "
    assert isinstance(fault, StreamBroken)
    assert (fault.retryable, fault.billed) == (True, True)


@pytest.mark.parametrize(
    "broken",
    [
        HEAD,
        HEAD + b": hello\n\n",
        HEAD + b"\x00\x01\x02 garbage",
        HEAD + b"data: 3\n\n",
        reset,
        HEAD + b'data: {"cho',
    ],
)
def test_a_stream_that_never_gives_a_piece_is_no_broken_stream(broken):
    text, _, fault, _ = answer(broken)
    assert (text, type(fault)) == ("", ProviderFault)
    assert (fault.retryable, fault.billed) == (True, True)


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_nobody_listening_was_not_billed(name):
    async def go():
        async with chat("http://127.0.0.1:9", name) as model:
            with pytest.raises(ProviderFault, match="connection failed") as caught:
                await anext(model.stream(HELLO))
            assert not caught.value.billed

    run(go())


def test_a_key_that_is_missing_is_told_before_anything_is_sent():
    async def go():
        async with chat(None, "anthropic", key=None) as model:
            with pytest.raises(ProviderFault, match="ANTHROPIC_API_KEY"):
                await anext(model.stream(HELLO))

    run(go())


def test_a_website_is_told_apart_from_a_model():
    fault = answer(HEAD + b"<!doctype html><p>Hello")[2]
    assert fault.fatal
    assert "base_url" in str(fault)


def test_a_key_that_the_server_repeats_is_left_out():
    text, _, _, _ = answer(HEAD + delta("Your key is sk-123456789.") + STOP + DONE, key="sk-123456789")
    assert text == "Your key is [secret]."


# Ends.


def test_an_answer_is_complete_without_done_once_its_reason_is_known():
    assert answer(HEAD + delta("a") + STOP)[2] == StreamEnd(None, None, "end")
    assert answer(HEAD + STARTED + written("a") + ending(), name="anthropic")[2].output_tokens == 5


def test_an_answer_is_complete_with_done_alone():
    assert answer(HEAD + delta("a") + DONE)[2] == StreamEnd(None, None, "end")


def test_what_follows_the_end_mark_is_not_read():
    assert answer(HEAD + delta("a") + STOP + DONE + delta("b"))[0] in {"a", "ab"}

    async def late(_, writer, __):
        writer.write(HEAD + delta("a") + STOP + DONE)
        await asyncio.sleep(0.03)
        writer.write(b"data: garbage\n\n")

    text, _, end, _ = answer(late)
    assert (text, end.stop) == ("a", "end")


def test_a_connection_that_stays_open_after_the_end_mark_keeps_nobody_waiting():
    async def open_end(reader, writer, _):
        writer.write(HEAD + delta("a") + STOP + DONE)
        await reader.read()

    assert answer(open_end)[2].stop == "end"


def test_a_stall_after_the_reason_loses_only_the_usage():
    async def stalled(reader, writer, _):
        writer.write(HEAD + delta("a") + STOP)
        await reader.read()

    assert answer(stalled, timeouts=SOON)[2] == StreamEnd(None, None, "end")


def test_a_connection_is_used_again():
    parts = delta("a") + STOP + DONE

    async def go():
        whole = CHUNKED + f"{len(parts):x}\r\n".encode() + parts + b"\r\n0\r\n\r\n"
        async with upstream(whole) as (url, told), chat(url) as model:
            for _ in range(3):
                assert [piece async for piece in model.stream(HELLO)][-1].stop == "end"
        return told.connections

    assert run(go()) == 1


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_a_server_that_does_not_stream_gives_one_piece(name):
    openai = {
        "choices": [
            {"message": {"content": "Good day", "reasoning_content": "Hm"}, "finish_reason": "length"}
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 4},
    }
    anthropic = {
        "content": [{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "Good day"}],
        "stop_reason": "max_tokens",
        "usage": {"input_tokens": 9, "output_tokens": 4},
    }
    data = json.dumps(openai if name == "openai" else anthropic).encode()
    whole = (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(data) + data
    )
    text, thinking, end, _ = answer(whole, name=name)
    assert (text, thinking, end) == ("Good day", "Hm", StreamEnd(9, 4, "length", Usage(9, 4)))


@pytest.mark.parametrize("name", ["openai", "anthropic"])
@pytest.mark.parametrize("data", [b"{}", b'{"error": {"message": "Sorry"}}', b"[1]", b"{"])
def test_a_document_that_is_no_answer(name, data):
    fault = answer(HEAD + data, name=name)[2]
    assert type(fault) is ProviderFault


# Timeouts and limits.


def test_no_first_token():
    async def silent(reader, writer, _):
        writer.write(HEAD)
        for _ in range(1000):
            writer.write(b": keep-alive\n\n" + delta("", role="assistant"))
            await writer.drain()
            await asyncio.sleep(0.01)
        await reader.read()

    fault = answer(silent, timeouts=SOON)[2]
    assert type(fault) is ProviderFault
    assert "within 0.2 seconds" in str(fault)
    assert (fault.retryable, fault.billed) == (True, True)


def test_no_answer_at_all_is_the_same():
    async def mute(reader, *_):
        await reader.read()

    assert "within 0.2 seconds" in str(answer(mute, timeouts=SOON)[2])


def test_a_stall_in_the_middle():
    async def stalled(reader, writer, _):
        writer.write(HEAD + delta("a"))
        await reader.read()

    text, _, fault, _ = answer(stalled, timeouts=SOON)
    assert (text, type(fault)) == ("a", StreamBroken)
    assert "for 0.2 seconds" in str(fault)


def test_an_answer_without_end_is_ended():
    async def endless(_, writer, __):
        writer.write(HEAD)
        while True:
            writer.write(delta("a"))
            await writer.drain()
            await asyncio.sleep(0.01)

    fault = answer(endless, timeouts=StreamTimeouts(5, 5, 0.3))[2]
    assert "complete after 0.3" in str(fault)


def test_a_server_that_ignores_the_limit_is_cut():
    async def huge(_, writer, __):
        writer.write(HEAD)
        while True:
            writer.write(delta("a" * 1000))
            await writer.drain()

    text, _, end, _ = answer(huge)
    assert end == StreamEnd(None, None, "length")
    assert 6400 < len(text) < 1_000_000


def test_a_line_without_end_is_refused():
    async def line(_, writer, __):
        writer.write(HEAD + b"data: ")
        with suppress(ConnectionError):
            while True:
                writer.write(b"a" * 100_000)
                await writer.drain()

    assert "too large" in str(answer(line)[2])


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_closing_the_iterator_closes_the_connection(name):
    async def go():
        async def talks(reader, writer, told):
            writer.write(HEAD + (delta("a") if name == "openai" else STARTED + written("a")))
            assert await reader.read() == b""
            told.closed.set()

        async with upstream(talks) as (url, told), chat(url, name) as model:
            pieces = model.stream(HELLO)
            assert await anext(pieces) == StreamPiece("a")
            assert not told.closed.is_set()
            await pieces.aclose()
            await asyncio.wait_for(told.closed.wait(), 30)

    run(go())


def test_cancelling_the_reader_closes_the_connection():
    async def go():
        async def silent(reader, writer, told):
            writer.write(HEAD)
            assert await reader.read() == b""
            told.closed.set()

        async with upstream(silent) as (url, told), chat(url) as model:
            reading = asyncio.ensure_future(anext(model.stream(HELLO)))
            await told.asked.wait()
            reading.cancel()
            await asyncio.wait_for(told.closed.wait(), 30)

    run(go())


# Bytes.


def test_bytes_may_be_cut_anywhere():
    whole = (
        HEAD + b": hello\r\n\r\n" + delta("Grüße 👋 ").replace(b"\n", b"\r\n") + delta("你好") + STOP + DONE
    )

    async def dripped(_, writer, __):
        for at in range(len(whole)):
            writer.write(whole[at : at + 1])
            await writer.drain()
            await asyncio.sleep(0)

    assert answer(dripped)[0] == "Grüße 👋 你好"


def test_a_character_in_two_halves_is_joined():
    halves = (
        b'data: {"choices": [{"delta": {"content": "\\ud83d"}}]}\n\n',
        b'data: {"choices": [{"delta": {"content": "\\udc4b"}}]}\n\n',
    )

    async def apart(_, writer, __):
        writer.write(HEAD + halves[0])
        await asyncio.sleep(0.05)
        writer.write(halves[1] + STOP + DONE)

    assert answer(apart)[0] == "👋"
    assert answer(HEAD + halves[0] + STOP + DONE)[0] == "\N{REPLACEMENT CHARACTER}"


def test_tags_in_a_stream():
    parts = b"".join(map(delta, ["<thi", "nk>Hm", ".</", "think>\n\n", "Yes", " <think>"]))
    assert answer(HEAD + parts + STOP + DONE)[:2] == ("Yes <think>", "Hm.")
