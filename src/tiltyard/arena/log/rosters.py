"""The names of an arena's models and prompts by number, and the response in each cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from psycopg import Connection

from tiltyard.arena.log.buckets import fetch_rows
from tiltyard.foundation.arrays import Ints
from tiltyard.postgres.connections import Database, translate_errors
from tiltyard.postgres.statements import statement


@dataclass(frozen=True, slots=True)
class Roster:
    """Names in the order of their numbers."""

    models: tuple[str, ...]
    prompts: tuple[str, ...]


async def read_roster(database: Database, arena: int) -> Roster:
    """Read all models and prompts that were ever added; a number never changes its name."""
    models = await fetch_rows(database, "roster_models", {"arena": arena})
    prompts = await fetch_rows(database, "roster_prompts", {"arena": arena})
    return Roster(tuple(name for (name,) in models), tuple(name for (name,) in prompts))


def read_roster_sync(connection: Connection, arena: int) -> Roster:
    """`read_roster` on a synchronous connection."""
    with translate_errors("read an arena's models and prompts"):
        models, prompts = (
            connection.execute(statement(name), {"arena": arena}).fetchall()
            for name in ("roster_models", "roster_prompts")
        )
    return Roster(tuple(name for (name,) in models), tuple(name for (name,) in prompts))


async def read_responses(database: Database, arena: int, roster: Roster) -> Ints:
    """The number of the live response in each cell of model and prompt; 0 where there is none."""
    cells = np.zeros((len(roster.models), len(roster.prompts)), dtype=np.int64)
    found = await fetch_rows(database, "roster_responses", {"arena": arena})
    rows = np.array(found, dtype=np.int64).reshape(-1, 3)
    known = (rows[:, 0] < cells.shape[0]) & (rows[:, 1] < cells.shape[1])
    cells[rows[known, 0], rows[known, 1]] = rows[known, 2]
    return cells


async def read_answered(database: Database, arena: int, prompts: Sequence[int], at: datetime) -> Ints:
    """The cells, as rows of model and prompt, that had a live response at a time; of these prompts only."""
    values = {"arena": arena, "prompts": list(prompts), "at": at}
    found = await fetch_rows(database, "roster_answered", values)
    return np.array(found, dtype=np.int64).reshape(-1, 2)


async def read_judgeable(
    database: Database, arena: int, languages: Sequence[str], categories: Sequence[str]
) -> Ints:
    """The prompts in one of these languages and one of these categories; an empty sequence stands for all.

    A prompt without a language or without a category is in every one.
    """
    values = {"arena": arena, "languages": list(languages), "categories": list(categories)}
    found = await fetch_rows(database, "roster_judgeable", values)
    return np.array([prompt for (prompt,) in found], dtype=np.int64)


async def read_excluded(database: Database, arena: int) -> tuple[set[int], set[int]]:
    """Serials of the votes that are excluded now, by source."""
    excluded: tuple[set[int], set[int]] = (set(), set())
    found = await fetch_rows(database, "roster_excluded", {"arena": arena})
    for source, serial in found:
        excluded[source].add(serial)
    return excluded
