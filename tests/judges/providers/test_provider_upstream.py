"""Streams from the scripted upstream of live battles: every fault it has, and nothing of it in an answer."""

from __future__ import annotations

import pytest

from support.asking import run
from support.faulty_upstream import FAULTS, TELLTALE, faulty_upstream, upstream_words
from tiltyard.errors import ProviderFault, StreamBroken
from tiltyard.judges.chat_models import ChatModel
from tiltyard.judges.providers.local_replies import open_http_provider
from tiltyard.judges.providers.provider import ChatRequest, ChatTurn, StreamEnd, StreamTimeouts

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
            open_http_provider("openai", upstream.base_url, None, timeouts.total_seconds, None),
            model,
            {},
            timeouts,
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
