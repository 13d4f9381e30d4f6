"""The answers inside conversations, as arenas store them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from tiltyard.errors import BadBattle

Answers = Callable[[Mapping[str, object]], tuple[str, str]]


def answers_in(key_a: str, key_b: str) -> Answers:
    """Return a reader of the two answers under these keys of a record."""

    def answers(record: Mapping[str, object]) -> tuple[str, str]:
        return _answer(record, key_a), _answer(record, key_b)

    return answers


def assistant_text(conversation: object) -> str | None:
    """The assistant's text: plain text, turns with roles, or a list of replies, also as JSON text.

    Several replies are joined by newlines. ``None`` if the value is not a conversation.
    """
    if isinstance(conversation, str):
        return _from_json(conversation)
    if not isinstance(conversation, list):
        return None
    turns = [turn for turn in conversation if not isinstance(turn, dict) or turn.get("role") == "assistant"]
    texts = [_content_text(turn.get("content") if isinstance(turn, dict) else turn) for turn in turns]
    known = [text for text in texts if text is not None]
    return "\n".join(known) if len(known) == len(texts) else None


def _answer(record: Mapping[str, object], key: str) -> str:
    text = assistant_text(record.get(key))
    if text is None:
        raise BadBattle(f"{key} contains no readable answer; style is measured in text")
    return text


def _from_json(text: str) -> str | None:
    """A conversation as JSON in a CSV field; any other text is the answer itself."""
    if text.lstrip().startswith("["):
        try:
            return assistant_text(json.loads(text))
        except (ValueError, RecursionError):
            return text
    return text


def _content_text(content: object) -> str | None:
    """The text of one turn: text, nothing, or blocks, of which only those with text count."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        blocks = (block.get("text") if isinstance(block, dict) else block for block in content)
        return "\n".join(text for text in blocks if isinstance(text, str))
    return None
