"""Find prompts and responses of an arena, a page at a time. One request looks at a bounded number of prompts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from tiltyard.arena.content.arenas import Arena, find_model, find_prompt
from tiltyard.arena.log.buckets import fetch_one, fetch_rows
from tiltyard.postgres.connections import ConnectionPool, Database

MAX_SEARCH_CHARACTERS = 200
#: Prompts that one request looks at; and if it searches the texts of responses too.
SCANNED_PROMPT_LIMIT = 5_000
SEARCHED_PROMPT_LIMIT = 500
#: Responses to one prompt that are listed.
_LISTED_RESPONSE_LIMIT = 100


@dataclass(frozen=True, slots=True)
class PromptSearch:
    """What prompts must have; empty and false match all."""

    #: In the prompt's name or text, or in the text of a response of at most 64 KiB.
    text: str = ""
    category: str = ""
    #: Prompts to which this model has a response. The text is then searched in its responses only.
    model: str = ""
    #: Prompts with open complaints.
    flagged: bool = False
    #: Prompts with hidden responses.
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class BrowsedPrompt:
    prompt: int
    name: str
    text: str | None
    category: str | None
    language: str | None
    withdrawn_at: datetime | None
    responses: int
    hidden: int
    complaints: int


@dataclass(frozen=True, slots=True)
class BrowsedResponse:
    """A model's response to a prompt, live or hidden."""

    model: str
    hidden: bool


@dataclass(frozen=True, slots=True)
class PromptPage:
    """Prompts that match. ``more`` is the number after which to go on, which need not be that of the last one."""

    prompts: tuple[BrowsedPrompt, ...]
    more: int | None


async def browse_prompts(
    pool: ConnectionPool, arena: Arena, search: PromptSearch, *, after: int, limit: int
) -> PromptPage:
    """A page of the prompts that match, by number; `NotFound` if there is no such model."""
    needle = search.text.strip()[:MAX_SEARCH_CHARACTERS].replace("\0", "")
    scanned = SEARCHED_PROMPT_LIMIT if needle else SCANNED_PROMPT_LIMIT
    async with pool.connection() as connection:
        model = None if not search.model else (await find_model(connection, arena.arena, search.model))[0]
        values: dict[str, object] = {
            "arena": arena.arena,
            "after": after,
            "category": search.category or None,
            "flagged": search.flagged,
            "hidden": search.hidden,
            "model": model,
            "needle": needle or None,
            "limit": limit + 1,
        }
        (upto,) = await fetch_one(connection, "browse_window", {**values, "scanned": scanned})
        if upto is None:
            return PromptPage((), None)
        rows = await fetch_rows(connection, "browse_prompts", {**values, "upto": upto})
        (rest,) = await fetch_one(connection, "browse_window", {**values, "after": upto, "scanned": 1})
    found = tuple(BrowsedPrompt(*row) for row in rows[:limit])
    if len(rows) > limit:
        return PromptPage(found, found[-1].prompt)
    return PromptPage(found, None if rest is None else int(upto))


async def read_prompt_words(
    database: Database, arena: Arena, names: Iterable[str | None]
) -> dict[str | None, str]:
    """What people call prompts: their first words, by name. A withdrawn prompt keeps its name."""
    rows = await fetch_rows(
        database, "browse_words", {"arena": arena.arena, "names": list({one for one in names if one})}
    )
    return dict(rows)


async def list_prompt_responses(pool: ConnectionPool, arena: Arena, prompt: str) -> list[BrowsedResponse]:
    """The models that have a response to a prompt; `NotFound` if there is no such prompt."""
    async with pool.connection() as connection:
        number, _ = await find_prompt(connection, arena.arena, prompt)
        values = {"arena": arena.arena, "prompt": number, "limit": _LISTED_RESPONSE_LIMIT}
        return [BrowsedResponse(*row) for row in await fetch_rows(connection, "browse_responses", values)]
