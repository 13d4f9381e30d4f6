"""Arenas, their models, prompts and responses, and what was changed in them.

Rows that belong to an event of the log are written in the transaction of
`tiltyard.arena.log.event_log.append_batch`; the caller passes its connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from tiltyard.arena.log.buckets import create_partitions, fetch_row, fetch_rows, shared_bucket
from tiltyard.arena.log.event_log import LogKind
from tiltyard.core.policy.state.rating_fold import MethodValues
from tiltyard.errors import Conflict, NotFound
from tiltyard.postgres.connections import Connection, ConnectionPool, Database
from tiltyard.postgres.statements import statement
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.wire.arenas import PromptInfo


@dataclass(frozen=True, slots=True)
class Arena:
    arena: int
    name: str
    title: str
    settings: ArenaSettings
    created_at: datetime


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model, its current number of responses, and whether it is enabled."""

    model: int
    name: str
    added_at: datetime
    responses: int
    enabled: bool


@dataclass(frozen=True, slots=True)
class PromptKey:
    """A prompt; without its text, unless it is to be imported."""

    prompt: int
    name: str
    sha256: bytes
    category: str | None
    language: str | None
    withdrawn: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class NewResponse:
    """A response to be imported; its bytes are already stored."""

    model: int
    prompt: int
    kind: str
    media_type: str
    sha256: bytes
    size: int


async def reserve_arena_number(connection: Connection) -> int:
    ((number,),) = await _all(connection, "arenas_reserve")
    return int(number)


async def add_arena(
    connection: Connection, arena: int, name: str, title: str, settings: ArenaSettings
) -> Arena:
    """Create an arena and the partitions of its log; `Conflict` if the name is taken. Call it in a transaction."""
    bucket = shared_bucket(arena)
    values = {"arena": arena, "name": name, "title": title, "settings": Jsonb(settings.to_dict())}
    row = await fetch_row(connection, "arenas_add", values | {"bucket": bucket})
    if row is None:
        raise Conflict(f"the arena {name} exists already; choose another name")
    made = _arena(row)
    await connection.execute(statement("arenas_add_rater"), {"arena": made.arena})
    await create_partitions(connection, bucket)
    return made


async def find_arena(database: Database, name: str) -> Arena:
    """The arena with this name; `NotFound` if there is none."""
    return await _require_arena(database, "arenas_find", name)


async def lock_arena(connection: Connection, name: str) -> Arena:
    """The same, locked: nobody else changes its title and settings until this transaction ends."""
    return await _require_arena(connection, "arenas_lock", name)


async def _require_arena(database: Database, named: str, name: str) -> Arena:
    row = await _named(database, named, name)
    if row is None:
        raise NotFound.arena(name)
    return _arena(row)


async def find_arena_by_number(connection: Connection, number: int) -> Arena | None:
    """The arena with this number, or ``None``."""
    row = await _one(connection, "arenas_find_by_number", arena=number)
    return None if row is None else _arena(row)


async def find_arenas(database: Database, numbers: Sequence[int]) -> list[Arena]:
    return [_arena(row) for row in await _all(database, "arenas_find_by_numbers", arenas=list(numbers))]


async def list_arenas(database: Database) -> list[Arena]:
    """All arenas, ordered by name."""
    return [_arena(row) for row in await fetch_rows(database, "arenas_list", {})]


async def change_arena(connection: Connection, arena: int, title: str, settings: ArenaSettings) -> None:
    values = {"arena": arena, "title": title, "settings": Jsonb(settings.to_dict())}
    await connection.execute(statement("arenas_change"), values)


async def list_models(database: Database, arena: int) -> list[KnownModel]:
    """All models that were ever added, ordered by number."""
    return [KnownModel(*row) for row in await _all(database, "arenas_models", arena=arena)]


async def list_prompts(
    database: Database, arena: int, *, after: int = -1, limit: int = 1000
) -> list[PromptInfo]:
    """A page of prompts, ordered by number."""
    rows = await _all(database, "arenas_prompts", arena=arena, after=after, limit=limit)
    return [PromptInfo(*row) for row in rows]


async def prompt_text(database: Database, arena: int, prompt: int) -> str:
    """The text of a prompt; `NotFound` if it is withdrawn."""
    row = await _one(database, "arenas_prompt", arena=arena, prompt=prompt)
    if row is None:
        raise NotFound("this prompt was withdrawn; request another matchup")
    return str(row[0])


async def list_prompt_names(
    database: Database, arena: int, category: str | None, language: str | None
) -> dict[int, str]:
    """Names of the prompts with a category and a language, by number; ``None`` matches any."""
    rows = await _all(database, "arenas_filtered_prompts", arena=arena, category=category, language=language)
    return {int(number): str(name) for number, name in rows}


async def read_prompt_keys(
    connection: Connection, arena: int, names: Collection[str] | None = None
) -> list[PromptKey]:
    """All prompts that were ever added, ordered by number; or only those with these names."""
    values = {"arena": arena, "names": None if names is None else list(names)}
    return [PromptKey(*row) for row in await _all(connection, "arenas_prompt_keys", **values)]


async def read_size(connection: Connection, arena: int) -> tuple[int, int]:
    """The numbers of models and prompts that were ever added."""
    ((models, prompts),) = await _all(connection, "arenas_size", arena=arena)
    return int(models), int(prompts)


async def read_model_numbers(connection: Connection, arena: int, names: Collection[str]) -> dict[str, int]:
    """The numbers of the models with these names; unknown names are left out."""
    return dict(await _all(connection, "arenas_model_numbers", arena=arena, names=list(names)))


async def read_response_keys(
    connection: Connection, arena: int, cells: Collection[tuple[int, int]]
) -> dict[tuple[int, int], bytes]:
    """The hash of the current response in each of these cells of model and prompt that has one."""
    models, prompts = [model for model, _ in cells], [prompt for _, prompt in cells]
    rows = await _all(connection, "arenas_response_keys", arena=arena, model=models, prompt=prompts)
    return {(model, prompt): bytes(sha256) for model, prompt, sha256 in rows}


async def add_models(connection: Connection, arena: int, first: int, names: Sequence[str]) -> None:
    """Add models, numbered from ``first`` on."""
    values = {"arena": arena, "model": list(range(first, first + len(names))), "name": list(names)}
    await connection.execute(statement("arenas_add_models"), values)


async def add_prompts(connection: Connection, arena: int, prompts: Sequence[PromptKey]) -> None:
    """Add prompts, which have their numbers already."""
    columns = ("prompt", "name", "text", "sha256", "category", "language")
    await connection.execute(statement("arenas_add_prompts"), _columns(arena, columns, prompts))


async def describe_prompts(
    connection: Connection, arena: int, described: Sequence[tuple[int, str | None, str | None]]
) -> None:
    """Set the category and language of prompts that have none."""
    number, category, language = ([row[k] for row in described] for k in range(3))
    values = {"arena": arena, "prompt": number, "category": category, "language": language}
    await connection.execute(statement("arenas_describe_prompts"), values)


async def add_responses(
    connection: Connection, arena: int, responses: Sequence[NewResponse]
) -> list[tuple[int, int, int]]:
    """Add responses; return the number of each, with its model and prompt."""
    columns = ("model", "prompt", "kind", "media_type", "sha256", "size")
    found = await fetch_rows(connection, "arenas_add_responses", _columns(arena, columns, responses))
    return [(int(number), model, prompt) for number, model, prompt in found]


async def find_model(database: Database, arena: int, name: str) -> tuple[int, bool]:
    """The number of a model, and whether it is enabled; `NotFound` if there is none with this name."""
    row = await _named(database, "arenas_model", name, arena=arena)
    if row is None:
        raise NotFound(f"this arena has no model {name!r}; see the list of its models")
    return int(row[0]), row[1] == LogKind.ENABLE


async def find_prompt(database: Database, arena: int, name: str) -> tuple[int, bool]:
    """The number of a prompt, and whether it is withdrawn; `NotFound` if there is none with this name."""
    row = await _named(database, "arenas_prompt_named", name, arena=arena)
    if row is None:
        raise NotFound(f"this arena has no prompt {name!r}; see the list of its prompts")
    return int(row[0]), row[1] is not None


async def find_response(database: Database, arena: int, model: int, prompt: int) -> int | None:
    """The number of a model's live or else hidden response to a prompt, or ``None``."""
    row = await _one(database, "arenas_response", arena=arena, model=model, prompt=prompt)
    return None if row is None else int(row[0])


async def read_policy(connection: Connection, arena: int) -> MethodValues:
    """The method in the last policy event of a log."""
    row = await _one(connection, "arenas_policy", arena=arena)
    if row is None:
        raise NotFound("this arena's log has no policy; it was not made by tiltyard")
    method: MethodValues = row[0]
    return method


async def read_log_head(database: Database, arena: int) -> int:
    """The last position of a log."""
    ((head,),) = await _all(database, "log_position", arena=arena)
    return int(head)


def require_live(arena: Arena) -> None:
    """Raise `Conflict` if the arena is archived or going to be deleted: its contents and policy stay as they are."""
    if not arena.settings.accepts_votes:
        raise Conflict(f"the arena {arena.name} is {arena.settings.stage}: it cannot change; reopen it first")


def _arena(row: Sequence[Any]) -> Arena:
    number, name, title, settings, created_at = row
    return Arena(number, name, title, ArenaSettings.kept(settings), created_at)


def _columns(arena: int, names: Sequence[str], rows: Sequence[object]) -> dict[str, object]:
    return {"arena": arena} | {name: [getattr(row, name) for row in rows] for name in names}


async def _all(database: Database, named: str, /, **values: object) -> list[Any]:
    return await fetch_rows(database, named, values)


async def _one(database: Database, named: str, /, **values: object) -> Any:
    return await fetch_row(database, named, values)


async def _named(database: Database, named: str, name: str, **values: object) -> Any:
    """The row with this name; ``None`` for names that the database cannot store."""
    if "\0" in name or not name.isprintable():
        return None
    return await _one(database, named, name=name, **values)


@asynccontextmanager
async def connect_to_arena(pool: ConnectionPool, name: str) -> AsyncIterator[tuple[Connection, Arena]]:
    """A connection from the pool, and the arena with this name; `NotFound` if there is none."""
    async with pool.connection() as connection:
        yield connection, await find_arena(connection, name)


async def read_prompt_filters(database: Database, arena: Arena) -> tuple[list[str], list[str]]:
    """The categories and the languages of an arena's prompts."""
    ((categories, languages),) = await _all(database, "arenas_filters", arena=arena.arena)
    return list(categories), list(languages)


async def read_prompt_language(database: Database, arena: int, prompt: int) -> str | None:
    """The language of a prompt by number; ``None`` if unknown."""
    row = await _one(database, "arenas_prompt_language", arena=arena, prompt=prompt)
    return None if row is None else row[0]


async def find_kept_response(pool: ConnectionPool, arena: str, model: str, prompt: str) -> int:
    """The number of a model's live or else hidden response to a prompt; `NotFound` if there is none."""
    async with pool.connection() as connection:
        number = (await find_arena(connection, arena)).arena
        by, _ = await find_model(connection, number, model)
        to, _ = await find_prompt(connection, number, prompt)
        found = await find_response(connection, number, by, to)
    if found is None:
        raise NotFound("this model has no response to this prompt, or it was withdrawn")
    return found


async def read_prompt_responses(
    pool: ConnectionPool, arena: Arena, prompt: str, models: Collection[str]
) -> tuple[str | None, list[int | None]]:
    """The text of a prompt, and the numbers of these models' live or else hidden responses; ``None`` if withdrawn."""
    async with pool.connection() as connection:
        number, withdrawn = await find_prompt(connection, arena.arena, prompt)
        text = None if withdrawn else await prompt_text(connection, arena.arena, number)
        found = [
            await find_response(
                connection, arena.arena, (await find_model(connection, arena.arena, model))[0], number
            )
            for model in models
        ]
    return text, found
