"""Models of a live arena, opened from their settings."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace

import pytest

from support.faulty_upstream import faulty_upstream
from tiltyard.errors import BadConfig
from tiltyard.judges.chat_models import open_chat_model
from tiltyard.judges.providers.provider import ChatRequest, ChatTurn, StreamTimeouts
from tiltyard.settings.environment import Environment
from tiltyard.settings.live_models import load_live_models

TEXT = """\
models:
- {name: a, provider: openai, base_url: "http://127.0.0.1:9/v1", model: m, temperature: 0.5, %s}
- {name: b, provider: anthropic, model: m}
"""


def entrants(folder, more="maker: x"):
    path = folder / "models.yaml"
    path.write_text(TEXT % more)
    return load_live_models(path).entrants()


async def test_a_model_is_opened_with_its_parameters(tmp_path):
    timeouts = StreamTimeouts(first_token_seconds=3)
    model = open_chat_model(
        entrants(tmp_path, "headers: {x-team: red}")[0], Environment(tmp_path, None, {}), timeouts
    )
    body = model.body(ChatRequest((ChatTurn("user", "Hello?"),), None, 50))
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("m", 0.5, 50)
    assert model.timeouts == timeouts
    assert "x-team" in model.provider.address
    await model.aclose()


def test_thinking_that_the_template_opens(tmp_path):
    async def go(upstream):
        entrant = entrants(tmp_path, "thinking_open: true")[0]
        entrant = replace(entrant, base_url=upstream.base_url)
        model = open_chat_model(entrant, Environment(tmp_path, None, {}))
        request = ChatRequest((ChatTurn("user", "Hello?"),), None, 50)
        *pieces, end = [piece async for piece in model.stream(request)]
        await model.aclose()
        assert end.stop == "end"
        return "".join(piece.text for piece in pieces), "".join(piece.thinking for piece in pieces)

    with faulty_upstream() as upstream:
        upstream.script("m", text="Hm.</think>Yes")
        assert asyncio.run(go(upstream)) == ("Yes", "Hm.")


def test_a_key_that_is_not_set_is_told_before_anything_is_sent(tmp_path):
    with pytest.raises(BadConfig, match="ANTHROPIC_API_KEY"):
        open_chat_model(entrants(tmp_path)[1], Environment(tmp_path, None, {}))


@pytest.mark.parametrize("option", ["stream: false", "n: 2", "messages: []", "max_tokens_field: limit"])
def test_an_option_that_is_ours_is_told_before_anything_is_sent(tmp_path, option):
    with pytest.raises(BadConfig, match=f"model a: options: {option.split(':')[0]}"):
        open_chat_model(entrants(tmp_path, f"options: {{{option}}}")[0], Environment(tmp_path, None, {}))


def test_without_the_extra_the_models_are_read_and_the_extra_is_named(tmp_path):
    entrants(tmp_path)
    code = """
import sys
from pathlib import Path
sys.modules["aiohttp"] = None
from tiltyard.errors import MissingExtra
from tiltyard.judges.chat_models import open_chat_model
from tiltyard.settings.environment import Environment
from tiltyard.settings.live_models import load_live_models
entrant = load_live_models(Path("models.yaml")).entrants()[0]
try:
    open_chat_model(entrant, Environment(Path(), None, {}))
except MissingExtra as error:
    print(error.extra)
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.stderr) == ("judges\n", "")
