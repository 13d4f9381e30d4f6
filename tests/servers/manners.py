"""Manners: what a model puts around its verdict, chosen by how its name begins, e.g. ``fence-1``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

_THOUGHT = "Let me see.\nVERDICT: A=B? No.\nVERDICT: B>A"

MANNERS: Mapping[str, Callable[[str], str]] = {
    "fence": lambda text: f"```\n{text}\n```",
    "tilde": lambda text: f"~~~json\n{text}\n~~~",
    "chatty": lambda text: f"Here is the JSON:\n```json\n{text}\n```\nI hope this helps!",
    "think": lambda text: f"<think>\n{_THOUGHT}\n</think>\n\n{text}",
    "template": lambda text: f"{_THOUGHT}\n</think>\n\n{text}",
    "ramble": lambda text: (
        f"Both have merit,\x1b[31m {text[:0]}and it is hard to say." + " Hm." * 300 + " So B?"
    ),
}


def mannered(model: str, text: str) -> str:
    """``text`` as this model would put it."""
    manner = MANNERS.get(model.partition("-")[0])
    return text if manner is None else manner(text)
