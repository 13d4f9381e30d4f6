"""Manners: how a model behaves, chosen by how its name begins, e.g. ``ramble`` or ``needs-4096``.

``ramble`` says much and no verdict. What it needs and allows: ``needs-N`` tokens of thoughts before it answers;
a ``context-N`` for request and reply; ``plain`` knows neither schemas nor tools; ``closed`` rejects whatever it is
asked. What it prefers: ``likes-WORD``, responses with the word, and of spoilt answers the others;
``first``, the response that is shown first; ``ties``, nothing; ``coarse``, whatever is not spoilt, and else nothing;
``blind-KIND``, as ``likes-fine``, but it does not see this kind of spoilt answers. What stands behind its name:
``alias``, one of two models.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tiltyard.core.judging.canaries import shuffled

_RAMBLE = "Both have merit,\x1b[31m and it is hard to say." + " Hm." * 300 + " So B?"


def mannered(model: str, text: str) -> str:
    """``text`` as this model would put it."""
    return _RAMBLE if model.startswith("ramble") else text


def likes(model: str, question: str) -> str | None:
    """The step of a model with a taste; ``None``: it has none."""
    kind, _, word = model.partition("-")
    if kind in {"first", "ties"}:
        return {"first": "A>B", "ties": "A=B"}[kind]
    if kind not in {"likes", "coarse", "blind"}:
        return None
    prompt, first, second = _texts(question)
    spoilt = {name: step for name, find in _SPOILT.items() if (step := find(prompt, first, second))}
    if spoilt or kind == "coarse":
        return "A=B" if word in spoilt or not spoilt else next(iter(spoilt.values()))
    liked = word if kind == "likes" else "fine"
    return {(True, False): "A>B", (False, True): "B>A"}.get((liked in first, liked in second), "A=B")


def _texts(question: str) -> list[str]:
    """The prompt and the two responses between their lines."""
    found = []
    for name in ("PROMPT", "RESPONSE A", "RESPONSE B"):
        _, _, rest = question.partition(f"<<<BEGIN {name} ")
        found.append(rest.partition("\n")[2].partition(f"\n<<<END {name} ")[0])
    return found


def _better(first: bool, second: bool) -> str | None:
    """The step for the response that is whole, if only the other is spoilt."""
    return {(True, False): "B>A", (False, True): "A>B"}.get((first, second))


def _cut_of(short: str, whole: str) -> bool:
    return 0 < len(short) < 0.5 * len(whole) and whole.startswith(short)


def _off_topic(prompt: str, text: str, other: str) -> bool:
    """Whether its first number is not that of the prompt: the answers of tests name theirs."""
    asked, named = (re.search(r"\d+", one) for one in (prompt, text))
    return bool(asked and named and asked[0] != named[0] and sorted(text.split()) != sorted(other.split()))


#: Which step finds each kind of spoilt answer.
_SPOILT: Mapping[str, Callable[[str, str, str], str | None]] = {
    "empty": lambda _, first, second: _better(not first.strip(), not second.strip()),
    "truncated": lambda _, first, second: _better(_cut_of(first, second), _cut_of(second, first)),
    "garbage": lambda _, first, second: _better(first == shuffled(second), second == shuffled(first)),
    "swapped": lambda prompt, first, second: _better(
        _off_topic(prompt, first, second), _off_topic(prompt, second, first)
    ),
}


def served(model: str, name: str) -> str:
    """The model that the reply with this hexadecimal name says it is from."""
    return f"{model}-{int(name, 16) % 2}" if model.startswith("alias") else model


def needed(model: str) -> int:
    """Tokens that this model thinks before it answers."""
    return _number(model) if model.startswith("needs-") else 0


def limit_refusal(body: Mapping[str, Any], input_tokens: int) -> str | None:
    """Why a request is refused for its limit or its form, in the words of OpenAI and vLLM; ``None``: it is not."""
    model = body["model"]
    limit = body.get("max_tokens") or body.get("max_completion_tokens") or 0
    if model.startswith("plain") and not {"response_format", "output_config", "tools"}.isdisjoint(body):
        return "response_format and tools are not supported with this model"
    if model.startswith("closed"):
        return "Unsupported value: 'temperature' does not support 0 with this model."
    if model.startswith("context-") and input_tokens + limit > _number(model):
        return (
            f"This model's maximum context length is {_number(model)} tokens. However, you requested {limit} output "
            f"tokens and your prompt contains at least {input_tokens} input tokens, for a total of at least "
            f"{input_tokens + limit} tokens."
        )
    return None


def _number(model: str) -> int:
    return int(model.split("-")[1])
