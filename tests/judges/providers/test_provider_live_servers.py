"""Streams from two real llama.cpp servers, by both protocols; the gate asks one, in `test_provider_tiny_llm`."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from support.asking import run
from support.live_servers import live_servers, write_models_file
from tiltyard.judges.chat_models import open_chat_model
from tiltyard.judges.providers.provider import ChatRequest, ChatTurn, StreamPiece
from tiltyard.settings.environment import Environment
from tiltyard.settings.live_models import LiveModels

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def entrants(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live")
    with live_servers() as servers:
        more = [server.entry("anthropic", name=f"{server.name}, the other way") for server in servers]
        yield LiveModels.load(write_models_file(folder, *servers, more=more)).entrants()


async def answer(model, *texts, limit=256):
    roles = ("user", "assistant")
    turns = tuple(ChatTurn(roles[number % 2], text) for number, text in enumerate(texts))
    pieces = [piece async for piece in model.stream(ChatRequest(turns, "Be brief.", limit))]
    return pieces[:-1], pieces[-1]


def test_both_models_answer_by_both_protocols(entrants, tmp_path):
    async def go():
        models = [open_chat_model(entrant, Environment(tmp_path, None, {})) for entrant in entrants]
        answers = await asyncio.gather(*(answer(model, "Which bird?") for model in models))
        for entrant, (pieces, end) in zip(entrants, answers, strict=True):
            text = "".join(piece.text for piece in pieces)
            assert all(isinstance(piece, StreamPiece) for piece in pieces)
            assert entrant.name[:6].lower() not in text.lower(), "no model says its name"
            assert text.split()
            assert end.stop in {"end", "length"}
            assert end.input_tokens > 10
            assert 0 < end.output_tokens <= 256
        for model in models:
            await model.aclose()
        return ["".join(piece.text for piece in pieces) for pieces, _ in answers]

    first, second, _, _ = run(go())
    assert first != second


def test_a_conversation_goes_on(entrants, tmp_path):
    async def go():
        # A connection each: the server may close the first while the second answer is asked for.
        pieces, before = await answered("Which bird?")
        text = "".join(piece.text for piece in pieces)
        _, after = await answered("Which bird?", text, "And then?")
        assert after.input_tokens > before.input_tokens

    async def answered(*texts):
        model = open_chat_model(entrants[0], Environment(tmp_path, None, {}))
        async with aclosing(model):
            return await answer(model, *texts)

    run(go())


@pytest.mark.parametrize("number", [0, 2])
def test_a_limit_is_told(entrants, tmp_path, number):
    async def go():
        model = open_chat_model(entrants[number], Environment(tmp_path, None, {}))
        end = (await answer(model, "Which bird?", limit=3))[1]
        await model.aclose()
        return end

    end = run(go())
    assert (end.output_tokens, end.stop) == (3, "length")


def test_an_answer_can_be_left(entrants, tmp_path):
    async def go():
        model = open_chat_model(entrants[1], Environment(tmp_path, None, {}))
        for _ in range(8):
            async with aclosing(model.stream(ChatRequest((ChatTurn("user", "?"),), None, 256))) as pieces:
                assert isinstance(await anext(pieces), StreamPiece)
        assert (await answer(model, "Still there?"))[1].stop in {"end", "length"}
        await model.aclose()

    run(go())
