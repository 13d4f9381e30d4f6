"""Models of a live arena, opened from their settings."""

from __future__ import annotations

import asyncio

import pytest

from tiltyard.errors import BadConfig
from tiltyard.judges.chat_models import open_chat_model
from tiltyard.judges.providers import ChatRequest, ChatTurn, StreamTimeouts
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


def test_a_model_is_opened_with_its_parameters(tmp_path):
    async def go():
        timeouts = StreamTimeouts(first_token_seconds=3)
        model = open_chat_model(
            entrants(tmp_path, "headers: {x-team: red}")[0], Environment(tmp_path, None, {}), timeouts
        )
        body = model.body(ChatRequest((ChatTurn("user", "Hello?"),), None, 50))
        assert (body["model"], body["temperature"], body["max_tokens"]) == ("m", 0.5, 50)
        assert model.timeouts == timeouts
        assert "x-team" in model.provider.address
        await model.aclose()

    asyncio.run(go())


def test_a_key_that_is_not_set_is_told_before_anything_is_sent(tmp_path):
    with pytest.raises(BadConfig, match="ANTHROPIC_API_KEY"):
        open_chat_model(entrants(tmp_path)[1], Environment(tmp_path, None, {}))


@pytest.mark.parametrize("option", ["stream: false", "n: 2", "messages: []", "max_tokens_field: limit"])
def test_an_option_that_is_ours_is_told_before_anything_is_sent(tmp_path, option):
    with pytest.raises(BadConfig, match=f"model a: options: {option.split(':')[0]}"):
        open_chat_model(entrants(tmp_path, f"options: {{{option}}}")[0], Environment(tmp_path, None, {}))
