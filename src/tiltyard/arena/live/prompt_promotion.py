"""Prompts of live battles as a fixed set of prompts, whose answers can then compete under the ranking policy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tiltyard.arena.live.conversation_release import (
    ReleaseCounts,
    ReleasedBattle,
    find_live_arena,
    read_conversations,
)
from tiltyard.core.live.prompt_texts import UNKNOWN_LANGUAGE, detect_language
from tiltyard.foundation.local_files import atomic_write
from tiltyard.postgres.connections import connect

#: The category of an arena that has no categories.
_ANY_CATEGORY = "any"


@dataclass(frozen=True, slots=True)
class PromotedPrompt:
    """A distinct prompt, as it was first written."""

    prompt_id: str
    text: str
    source: str
    category: str | None
    language: str | None

    def line(self) -> str:
        """A line of a file that tournaments and ``tiltyard generate`` read as a bank of prompts."""
        fields = {
            "prompt_id": self.prompt_id,
            "text": self.text,
            "source": self.source,
            "category": self.category,
            "language": self.language,
        }
        given = {name: value for name, value in fields.items() if value is not None}
        return json.dumps(given, ensure_ascii=False) + "\n"


def promote_prompts(url: str, arena: str, path: Path) -> ReleaseCounts:
    """Write the distinct first prompts of an arena's battles that may be released, as JSON Lines."""
    counts, lines = ReleaseCounts(), 0
    with connect(url, name="tiltyard promotion") as connection:
        number = find_live_arena(connection, arena)
        battles = read_conversations(connection, number, counts)
        with atomic_write(str(path)) as file:
            for prompt in promoted_lines(battles, arena, counts):
                file.write(prompt.line().encode())
                lines += 1
    counts.battles = lines
    return counts


def promoted_lines(
    battles: Iterator[ReleasedBattle], arena: str, counts: ReleaseCounts
) -> Iterator[PromotedPrompt]:
    """Each distinct prompt once, in the order in which it was first written; flagged ones are counted and left out.

    Only the first prompt of a battle stands alone: the others answer what the two models said.
    """
    seen: set[int] = set()
    for battle in battles:
        first = battle.turns[0]
        if battle.free_prompt in seen:
            continue
        if first.flags.get("rules") or "prompt" in first.flags.get("identity", ()):
            counts.leave_out("flagged")
            continue
        seen.add(battle.free_prompt)
        language = battle.language or detect_language(first.prompt)
        yield PromotedPrompt(
            f"live-{battle.free_prompt}",
            first.prompt,
            f"live:{arena}",
            None if battle.category == _ANY_CATEGORY else battle.category,
            None if language == UNKNOWN_LANGUAGE else language,
        )
