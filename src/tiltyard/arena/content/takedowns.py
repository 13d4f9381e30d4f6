"""Withdraw responses and prompts, and close the open matchups that show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tiltyard.arena.content.arenas import read_log_head
from tiltyard.arena.log.buckets import fetch_row, fetch_rows
from tiltyard.postgres.connections import Connection, translate_errors


@dataclass(frozen=True, slots=True)
class ShownMatchup:
    """An open matchup that shows a response."""

    source: int
    serial: int
    session: int
    a: int
    b: int
    prompt: int
    ballot: int
    #: Whether it was prefetched and has not been shown.
    unseen: bool


@dataclass(frozen=True, slots=True)
class SeenMatchups:
    """Matchups, by source and serial, that were open at a position of the log."""

    upto: int
    matchups: tuple[tuple[int, int], ...]


async def withdraw_responses(
    connection: Connection, arena: int, prompt: int, model: int | None, at: datetime, *, hide: bool = False
) -> list[tuple[int, int]]:
    """Withdraw the responses to a prompt, all or one model's; return their numbers and models.

    Those that are only hidden keep their bytes and can be shown again.
    """
    values = {"arena": arena, "prompt": prompt, "model": model, "at": at, "hide": hide}
    found = await fetch_rows(connection, "takedowns_responses", values)
    return sorted((int(response), int(by)) for response, by in found)


async def withdraw_hidden_responses(
    connection: Connection, arena: int, prompt: int, model: int | None
) -> list[int]:
    """Withdraw hidden responses for good; return their numbers."""
    values = {"arena": arena, "prompt": prompt, "model": model}
    found = await fetch_rows(connection, "takedowns_hidden", values)
    return sorted(int(response) for (response,) in found)


async def show_responses(
    connection: Connection, arena: int, prompt: int, model: int | None
) -> list[tuple[int, int]]:
    """Make hidden responses live again; return their numbers and models."""
    values = {"arena": arena, "prompt": prompt, "model": model}
    found = await fetch_rows(connection, "takedowns_show", values)
    return sorted((int(response), int(by)) for response, by in found)


async def withdraw_prompt_text(connection: Connection, arena: int, prompt: int, at: datetime) -> bool:
    """Delete a prompt's text; its name and hash are kept. False if it was already withdrawn."""
    values = {"arena": arena, "prompt": prompt, "at": at}
    return await fetch_row(connection, "takedowns_prompt", values) is not None


async def find_open_matchups(
    connection: Connection, arena: int, prompt: int, model: int | None
) -> SeenMatchups:
    """Open matchups on a prompt, all or one model's, found without the arena's lock."""
    upto = await read_log_head(connection, arena)
    values = {"arena": arena, "prompt": prompt, "model": model, "upto": upto}
    with translate_errors("look for open matchups"):
        found = await fetch_rows(connection, "takedowns_open", values)
        return SeenMatchups(upto, tuple((int(source), int(serial)) for source, serial in found))


async def open_matchups_with(
    connection: Connection, arena: int, responses: Sequence[int], seen: SeenMatchups, now: datetime
) -> list[ShownMatchup]:
    """Open matchups that show any of these responses: of those in ``seen``, and those served since.

    Call it under the arena's lock.
    """
    values = {
        "arena": arena,
        "responses": list(responses),
        "sources": [source for source, _ in seen.matchups],
        "serials": [serial for _, serial in seen.matchups],
        "after": seen.upto,
        "now": now,
    }
    found = await fetch_rows(connection, "takedowns_shown", values)
    return [ShownMatchup(*each) for each in found]
