"""Manners: how a model behaves, chosen by how its name begins, e.g. ``fence-1`` or ``most-4096``.

What it puts around its verdict: ``fence``, ``tilde``, ``chatty``, ``think``, ``template``, ``ramble``.
What it needs and allows: ``needs-N`` tokens of thoughts before it answers; at ``most-N`` tokens of
output; a ``context-N`` for request and reply; ``renamed`` knows only ``max_completion_tokens``; ``plain`` knows neither
schemas nor tools; ``closed`` rejects whatever it is asked. What it prefers: ``likes-WORD``, responses with the word;
``first``, the response that is shown first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_THOUGHT = "Let me see.\nVERDICT: A=B? No.\nVERDICT: B>A"

_AROUND: Mapping[str, Callable[[str], str]] = {
    "fence": lambda text: f"```\n{text}\n```",
    "tilde": lambda text: f"~~~json\n{text}\n~~~",
    "chatty": lambda text: f"Here is the JSON:\n```json\n{text}\n```\nI hope this helps!",
    "think": lambda text: f"<think>\n{_THOUGHT}\n</think>\n\n{text}",
    "template": lambda text: f"{_THOUGHT}\n</think>\n\n{text}",
    "ramble": lambda _text: "Both have merit,\x1b[31m and it is hard to say." + " Hm." * 300 + " So B?",
}


def mannered(model: str, text: str) -> str:
    """``text`` as this model would put it."""
    around = _AROUND.get(model.partition("-")[0])
    return text if around is None else around(text)


def likes(model: str, question: str) -> str | None:
    """The step of a model ``likes-WORD``: for the only response that has the word, or of ``first``; ``None``: it has no taste."""
    if model.startswith("first"):
        return "A>B"
    if not model.startswith("likes-"):
        return None
    first, _, second = question.partition("RESPONSE B")
    word = model.removeprefix("likes-")
    has = word in first.partition("RESPONSE A")[2], word in second
    return {(True, False): "A>B", (False, True): "B>A"}.get(has, "A=B")


def needed(model: str) -> int:
    """Tokens that this model thinks before it answers."""
    return _number(model) if model.startswith("needs-") else 0


def limit_refusal(body: Mapping[str, Any], input_tokens: int) -> str | None:
    """Why a request is refused for its limit or its form, in the words of OpenAI, Anthropic and vLLM; ``None``: it is not."""
    model = body["model"]
    limit = body.get("max_tokens") or body.get("max_completion_tokens") or 0
    if model.startswith("plain") and not {"response_format", "output_config", "tools"}.isdisjoint(body):
        return "response_format and tools are not supported with this model"
    if model.startswith("closed"):
        return "Unsupported value: 'temperature' does not support 0 with this model."
    if model.startswith("renamed") and "max_tokens" in body:
        return (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead."
        )
    if model.startswith("most-") and limit > _number(model):
        if "system" in body:
            return f"max_tokens: {limit} > {_number(model)}, which is the maximum allowed number of output tokens for {model}"
        return (
            f"max_tokens is too large: {limit}. This model supports at most {_number(model)} completion tokens, "
            f"whereas you provided {limit}."
        )
    if model.startswith("context-") and input_tokens + limit > _number(model):
        return (
            f"This model's maximum context length is {_number(model)} tokens. However, you requested {limit} output "
            f"tokens and your prompt contains at least {input_tokens} input tokens, for a total of at least "
            f"{input_tokens + limit} tokens."
        )
    return None


def _number(model: str) -> int:
    return int(model.split("-")[1])
