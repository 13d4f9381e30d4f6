"""The definition of a format: how its files are recognised, and how its records become battles.

Times and conversations are here too, as several formats have them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tiltyard.errors import BadBattle

#: The reason for skipping a record that lacks one of two verdicts.
UNREADABLE = "a verdict of the judge could not be read"
#: Smaller numbers in text are years or dates (2026, 20260301), not seconds: this is in 1973.
_MIN_TIMESTAMP_SECONDS = 100_000_000
#: Larger numbers of seconds since 1970 are implausible: the number is in milliseconds.
_MAX_TIMESTAMP_SECONDS = 100_000_000_000


def has_columns(*names: str) -> Callable[[Collection[str]], bool]:
    """Return a test whether records have all these columns."""
    return frozenset(names).issubset


def row_of(record: Mapping[str, object], gives: Mapping[str, str], **known: object) -> dict[str, object]:
    """The canonical fields of a record: those in ``gives`` under its headers, but for those that are known."""
    return {name: record.get(header) for name, header in gives.items()} | known


def assistant_text(conversation: object) -> str | None:
    """The assistant's text: plain text, turns with roles, or a list of replies, also as JSON text.

    Several replies are joined by newlines. ``None`` if the value is not a conversation.
    """
    if isinstance(conversation, str):
        # A conversation as JSON in a CSV field; any other text is the answer itself.
        if conversation.lstrip().startswith("["):
            try:
                return assistant_text(json.loads(conversation))
            except (ValueError, RecursionError):
                return conversation
        return conversation
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


@dataclass(frozen=True)
class SkippedRecord:
    """A record that is not a battle, and the reason; such records are counted and shown."""

    reason: str


#: A row of canonical fields, or the reason why the record was skipped.
Converted = Mapping[str, object] | SkippedRecord
#: The same, with its location.
Settled = tuple[str, Converted]


@dataclass(frozen=True, kw_only=True)
class BattleFormat:
    """One format of battle files.

    ``gives`` are the canonical columns that ``convert`` fills, each with the header that it needs;
    a file without that header lacks the column. ``also_reads`` are the other headers it uses.
    Native formats list none: they read every header and keep unknown ones. ``answers_in``
    names the headers of the two answers, and ``answer`` reads one of them. ``style`` returns the style columns
    of records that state them, under the headers ``style_in``: then no answer is measured. ``settle``
    gets all converted records at once, for formats in which a battle spans several records.
    ``with_baseline`` returns the same format for records that do not name the baseline themselves.
    """

    name: str
    kinds: frozenset[str]
    recognises: Callable[[Collection[str]], bool]
    convert: Callable[[Mapping[str, object]], Converted]
    gives: Mapping[str, str] = field(default_factory=dict)
    also_reads: tuple[str, ...] = ()
    answers_in: tuple[str, ...] = ()
    answer: Callable[[Mapping[str, object], str], str] = _answer
    style: Callable[[Mapping[str, object]], Mapping[str, float]] | None = None
    style_in: tuple[str, ...] = ()
    settle: Callable[[Iterator[Settled]], Iterator[Settled]] | None = None
    with_baseline: Callable[[str], BattleFormat] | None = None

    @property
    def reads(self) -> frozenset[str]:
        """The headers it uses; empty means all of them."""
        return frozenset((*self.gives.values(), *self.also_reads))

    def answers(self, record: Mapping[str, object]) -> tuple[str, str]:
        """The two answers of a record."""
        key_a, key_b = self.answers_in
        return self.answer(record, key_a), self.answer(record, key_b)


def parse_time_text(text: str) -> float | str:
    """Seconds since 1970 if the text is such a number; any other text unchanged."""
    try:
        number = float(text)
    except ValueError:
        return text
    return number if abs(number) >= _MIN_TIMESTAMP_SECONDS else text


def parse_arena_time(moment: Any) -> Any:
    """The time of a vote: some exports use milliseconds, and numbers in CSV are text."""
    if isinstance(moment, str):
        moment = parse_time_text(moment)
    if isinstance(moment, int | float) and abs(moment) >= _MAX_TIMESTAMP_SECONDS:
        try:
            return moment / 1000
        except OverflowError:
            return moment
    return moment
