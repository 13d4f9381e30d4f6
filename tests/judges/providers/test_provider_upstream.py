"""Streams from the scripted upstream of live battles: every fault it has, and nothing of it in an answer."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing

import pytest

from support.asking import run
from support.faulty_upstream import FAULTS, TELLTALE, UpstreamScript, faulty_upstream, upstream_words
from tiltyard.errors import ProviderFault, StreamBroken
from tiltyard.judges.chat_models import ChatModel
from tiltyard.judges.providers.provider import ChatRequest, ChatTurn, StreamEnd, StreamTimeouts
from tiltyard.judges.providers.provider_factory import open_streaming_provider

#: How each fault ends: the class of the error and its status, or why the answer ended.
ENDS = {
    "none": "end",
    "400": (ProviderFault, 400),
    "401": (ProviderFault, 401),
    "404": (ProviderFault, 404),
    "429": (ProviderFault, 429),
    "500": (ProviderFault, 500),
    "503": (ProviderFault, 503),
    "refuse": (ProviderFault, None),
    "html": (ProviderFault, 200),
    "stall-first": (ProviderFault, None),
    "stall-middle": (StreamBroken, None),
    "garbage": (StreamBroken, 200),
    "garbage-first": (ProviderFault, 200),
    "half": (StreamBroken, None),
    "reset": (StreamBroken, None),
    "no-end": (StreamBroken, 200),
    "error-event": (StreamBroken, 500),
    "error-first": (ProviderFault, 500),
    "filter": "refused",
    "refuse-usage": "end",
    "one-document": "end",
    "keep-alive": (ProviderFault, None),
}
SILENT = {"stall-first", "stall-middle", "keep-alive"}
HELLO = ChatRequest((ChatTurn("user", "Hello?"),), None, 10_000)


@pytest.fixture(scope="module")
def upstream():
    with faulty_upstream() as running:
        yield running


def answer(upstream, model, seconds=0.3, request=HELLO):
    async def go():
        timeouts = StreamTimeouts(first_token_seconds=seconds, gap_seconds=seconds)
        asked = ChatModel(
            open_streaming_provider("openai", upstream.base_url, None, timeouts), model, {}, timeouts
        )
        text, thinking, end = "", "", None
        try:
            async for piece in asked.stream(request):
                if isinstance(piece, StreamEnd):
                    end = piece
                else:
                    text, thinking = text + piece.text, thinking + piece.thinking
        except ProviderFault as fault:
            end = fault
        finally:
            await asked.aclose()
        return text, thinking, end

    return run(go())


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_ends_as_it_should(upstream, fault):
    # With a rate, text has arrived before the fault.
    text, _, end = answer(upstream, f"heron@rate=200,fault={fault}", 0.3 if fault in SILENT else 30)
    expected = ENDS[fault]
    if isinstance(expected, str):
        assert end.stop == expected
    else:
        assert type(end) is expected[0]
        assert fault == "half" or end.status == expected[1], (
            "what half a stream lacks depends on where it was cut"
        )
        assert bool(text) == (expected[0] is StreamBroken)
    assert TELLTALE not in text


def test_an_answer_is_the_words_of_its_model(upstream):
    text, thinking, end = answer(upstream, "heron@thinking=5", 30)
    assert text == "".join(upstream_words("heron@thinking=5", 40))
    assert (len(thinking.split()), end.input_tokens, end.output_tokens) == (5, 7, 45)
    tagged = "heron@thinking=5,tags=1"
    text, thinking, _ = answer(upstream, tagged, 30)
    assert (text, thinking) == ("".join(upstream_words(tagged, 40)), "".join(upstream_words(f"{tagged}?", 5)))


def test_a_script_is_set_and_wears_off(upstream):
    upstream.script("wren", fault="500", times=1, text="Good day 👋, all.")
    assert answer(upstream, "wren")[2].status == 500
    assert answer(upstream, "wren", 30)[0] == "Good day 👋, all."
    assert upstream.tally()["calls"]["wren"] == 2
    assert upstream.bodies()[-1]["messages"] == [{"role": "user", "content": "Hello?"}]
    with pytest.raises(AssertionError, match="one of"):
        upstream.script("wren", fault="nonsense")


def test_a_slow_answer_comes_at_its_pace(upstream):
    start = time.monotonic()
    text, _, _ = answer(upstream, "slow@rate=100,tokens=30", 30)
    assert len(text.split()) == 30
    assert time.monotonic() - start > 0.28


def test_stamps_are_times(upstream):
    before = time.monotonic_ns() // 1000
    stamps = [int(word) for word in answer(upstream, "s@stamped=1,rate=200,tokens=20", 30)[0].split()]
    assert len(stamps) == 20
    assert before < stamps[0] <= stamps[-1] < time.monotonic_ns() // 1000
    assert stamps == sorted(stamps)


def test_a_huge_answer_is_cut(upstream):
    request = ChatRequest((ChatTurn("user", "Hello?"),), None, 100)
    text, _, end = answer(upstream, "h@tokens=200000", 30, request)
    assert end.stop == "length"
    assert len(text) < 100_000


def test_who_leaves_is_counted():
    async def go(url):
        timeouts = StreamTimeouts()
        asked = ChatModel(open_streaming_provider("openai", url, None, timeouts), "m@rate=20", {}, timeouts)
        async with aclosing(asked.stream(HELLO)) as pieces:
            await anext(pieces)
        await asked.aclose()

    with faulty_upstream(process=True) as upstream:
        asyncio.run(go(upstream.base_url))
        end = time.monotonic() + 30
        while upstream.tally()["open"] and time.monotonic() < end:
            time.sleep(0.02)
        tally = upstream.tally()
    assert (tally["open"], tally["closed_early"]) == (0, 1)


def test_scripts_in_names_have_their_types():
    assert UpstreamScript.named("m@rate=2.5,tokens=3,fault=half") == UpstreamScript(
        "half", tokens=3, rate=2.5
    )
    assert UpstreamScript.named("m") == UpstreamScript()
