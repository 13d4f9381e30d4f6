"""Reads the contents of arenas for routes and pages: arenas, models, prompts, responses."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tiltyard.arena.content.arenas import (
    Arena,
    KnownModel,
    KnownPrompt,
    find_arena,
    find_model,
    find_prompt,
    find_response,
    list_arenas,
    list_models,
    list_prompts,
    prompt_language,
    prompt_text,
    read_filters,
)
from tiltyard.errors import NotFound
from tiltyard.postgres.connections import Connection, ConnectionPool, connect_from_pool


@dataclass(frozen=True, slots=True)
class PromptResponses:
    """A prompt and the numbers of responses to it; ``None`` if withdrawn."""

    text: str | None
    responses: tuple[int | None, ...]


async def read_arenas(pool: ConnectionPool) -> list[Arena]:
    """All arenas."""
    async with connect_from_pool(pool) as connection:
        return await list_arenas(connection)


async def read_arena(pool: ConnectionPool, name: str) -> Arena:
    """An arena, read from the database; `NotFound` if there is none with this name."""
    async with connect_from_pool(pool) as connection:
        return await find_arena(connection, name)


async def read_prompt_filters(pool: ConnectionPool, arena: Arena) -> tuple[list[str], list[str]]:
    """The categories and the languages of an arena's prompts."""
    async with connect_from_pool(pool) as connection:
        return await read_filters(connection, arena.arena)


async def read_models(pool: ConnectionPool, arena: Arena) -> list[KnownModel]:
    """All models that were ever added."""
    async with connect_from_pool(pool) as connection:
        return await list_models(connection, arena.arena)


async def check_model(pool: ConnectionPool, arena: Arena, model: str) -> None:
    """Raise `NotFound` unless there is such a model."""
    async with connect_from_pool(pool) as connection:
        await find_model(connection, arena.arena, model)


async def read_prompts(pool: ConnectionPool, arena: Arena, *, after: int, limit: int) -> list[KnownPrompt]:
    """A page of prompts with their texts, ordered by number."""
    async with connect_from_pool(pool) as connection:
        return await list_prompts(connection, arena.arena, after=after, limit=limit)


async def read_prompt_language(pool: ConnectionPool, arena: int, prompt: int) -> str | None:
    """The language of a prompt by number; ``None`` if unknown."""
    async with connect_from_pool(pool) as connection:
        return await prompt_language(connection, arena, prompt)


async def find_kept_response(pool: ConnectionPool, arena: str, model: str, prompt: str) -> int:
    """The number of a model's live or else hidden response to a prompt; `NotFound` if there is none."""
    async with connect_from_pool(pool) as connection:
        number = await _number(connection, arena)
        by, _ = await find_model(connection, number, model)
        to, _ = await find_prompt(connection, number, prompt)
        found = await find_response(connection, number, by, to)
    if found is None:
        raise NotFound("this model has no response to this prompt, or it was withdrawn")
    return found


async def read_prompt_responses(
    pool: ConnectionPool, arena: Arena, prompt: str, models: Collection[str]
) -> PromptResponses:
    """A prompt by its name, with what these models answer to it: live responses, or else hidden ones."""
    async with connect_from_pool(pool) as connection:
        number, withdrawn = await find_prompt(connection, arena.arena, prompt)
        text = None if withdrawn else await prompt_text(connection, arena.arena, number)
        found = [
            await find_response(
                connection, arena.arena, (await find_model(connection, arena.arena, model))[0], number
            )
            for model in models
        ]
    return PromptResponses(text, tuple(found))


async def _number(connection: Connection, arena: str) -> int:
    return (await find_arena(connection, arena)).arena
