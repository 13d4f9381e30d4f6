"""Responses and prompts that are withdrawn, and the open matchups that end by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tiltyard.arena.content.arenas import read_head
from tiltyard.postgres.connecting import translated
from tiltyard.postgres.connection_pool import Connection
from tiltyard.postgres.statements import statement

__all__ = [
    "Seen",
    "Shown",
    "find_open",
    "open_matchups_with",
    "withdraw_prompt_text",
    "withdraw_responses",
]


@dataclass(frozen=True, slots=True)
class Shown:
    """An open matchup that shows a response."""

    source: int
    serial: int
    session: int
    a: int
    b: int
    prompt: int
    ballot: int


@dataclass(frozen=True, slots=True)
class Seen:
    """Matchups by source and serial that were open when a log had come to a position."""

    upto: int
    matchups: tuple[tuple[int, int], ...]


async def withdraw_responses(
    connection: Connection, arena: int, prompt: int, model: int | None, at: datetime
) -> list[tuple[int, int]]:
    """Withdraw the live responses to a prompt, all or one model's: their numbers and models."""
    values = {"arena": arena, "prompt": prompt, "model": model, "at": at}
    found = await connection.execute(statement("takedowns_responses"), values)
    return sorted((int(response), int(by)) for response, by in await found.fetchall())


async def withdraw_prompt_text(connection: Connection, arena: int, prompt: int, at: datetime) -> bool:
    """A prompt's text goes; its name and its hash stay. False if it was gone already."""
    values = {"arena": arena, "prompt": prompt, "at": at}
    return await (await connection.execute(statement("takedowns_prompt"), values)).fetchone() is not None


async def find_open(connection: Connection, arena: int, prompt: int, model: int | None) -> Seen:
    """Open matchups on a prompt, all or one model's, found without the arena's lock."""
    upto = await read_head(connection, arena)
    values = {"arena": arena, "prompt": prompt, "model": model, "upto": upto}
    with translated("look for open matchups"):
        found = await connection.execute(statement("takedowns_open"), values)
        return Seen(upto, tuple((int(source), int(serial)) for source, serial in await found.fetchall()))


async def open_matchups_with(
    connection: Connection, arena: int, responses: Sequence[int], seen: Seen, now: datetime
) -> list[Shown]:
    """Under the arena's lock: open matchups, of those seen and those served since, that show any of these."""
    values = {
        "arena": arena,
        "responses": list(responses),
        "sources": [source for source, _ in seen.matchups],
        "serials": [serial for _, serial in seen.matchups],
        "after": seen.upto,
        "now": now,
    }
    found = await connection.execute(statement("takedowns_shown"), values)
    return [Shown(*each) for each in await found.fetchall()]
