"""What an arena needs before its first vote, and what a voter would see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tiltyard.arena.content.arena_texts import read_texts
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.log.buckets import fetch_rows
from tiltyard.arena.operators.arena_stages import count_test_votes
from tiltyard.postgres.connections import Connection, ConnectionPool, connect_from_pool, translate_errors

#: Responses to one prompt that a preview chooses from.
_PREVIEWED_RESPONSE_LIMIT = 50


@dataclass(frozen=True, slots=True)
class OpeningChecklist:
    """What there is of what an arena needs."""

    prompts: int
    #: Enabled models.
    models: int
    #: Prompts to which two models or more have responses.
    matchable: int
    #: Invitations and passcodes that let somebody in.
    invitations: int
    #: Texts that the operator has written.
    texts: tuple[str, ...]
    test_votes: int
    entry: str

    @property
    def can_serve(self) -> bool:
        """Whether there is anything to vote on."""
        return self.models > 1 and self.matchable > 0

    @property
    def can_enter(self) -> bool:
        """Whether anybody could come in once the arena is open."""
        return self.entry == "open" or self.invitations > 0


@dataclass(frozen=True, slots=True)
class PreviewedResponse:
    """One response to a prompt."""

    model: str
    response: int
    kind: str


@dataclass(frozen=True, slots=True)
class AnsweredPrompt:
    """A prompt with two responses or more."""

    prompt: int
    name: str
    text: str
    language: str | None
    responses: tuple[PreviewedResponse, ...]


async def read_checklist(pool: ConnectionPool, arena: Arena) -> OpeningChecklist:
    """What the arena has now."""
    async with connect_from_pool(pool) as connection:
        ((prompts, models, matchable, invitations),) = await _rows(
            connection, "checklist_counts", arena=arena.arena
        )
    return OpeningChecklist(
        prompts=prompts,
        models=models,
        matchable=matchable,
        invitations=invitations,
        texts=tuple(await read_texts(pool, arena)),
        test_votes=await count_test_votes(pool, arena),
        entry=arena.settings.entry,
    )


async def find_answered_prompt(pool: ConnectionPool, arena: Arena, first: int) -> AnsweredPrompt | None:
    """The first prompt from number ``first`` on that a voter could see; ``None`` if there is none. Nothing is logged."""
    async with connect_from_pool(pool) as connection:
        rows = await _rows(
            connection, "checklist_pair", arena=arena.arena, prompt=first, limit=_PREVIEWED_RESPONSE_LIMIT
        )
    if not rows:
        return None
    prompt, name, text, language = rows[0][:4]
    return AnsweredPrompt(prompt, name, text, language, tuple(PreviewedResponse(*row[4:]) for row in rows))


async def _rows(connection: Connection, named: str, **values: object) -> Sequence[Any]:
    with translate_errors("read what an arena has before it opens"):
        return await fetch_rows(connection, named, values)
