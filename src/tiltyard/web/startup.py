"""What has to be there before the house opens: tables, keys, an operator's link, an arena."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tiltyard.arena.secret_keys import KEY_VARIABLE, open_keys
from tiltyard.errors import NotFound
from tiltyard.settings.environment import Environment
from tiltyard.settings.serving_settings import ServingSettings

if TYPE_CHECKING:
    from tiltyard.arena.content.answer_import import ImportResult

__all__ = ["StartupResult", "arena_name_from_file", "prepare_server"]


@dataclass(frozen=True)
class StartupResult:
    """What there is to tell when the house opens."""

    #: The token of the first operator's link; nothing if the house has an operator.
    link: str | None
    arenas: tuple[str, ...]
    #: The arena that was made or filled from answers, and what they brought.
    arena: str | None = None
    imported: ImportResult | None = None


def arena_name_from_file(answers: Path) -> str:
    """The name of an arena that is made from a file of answers: that of the file."""
    stem = answers.name.split(".", maxsplit=1)[0].lower()
    return re.sub(r"[^a-z0-9]+", "-", stem).strip("-")[:64].strip("-") or "arena"


async def prepare_server(
    url: str,
    environment: Environment,
    settings: ServingSettings,
    *,
    answers: Path | None = None,
    arena: str | None = None,
) -> StartupResult:
    """See that everything is there. An arena that exists takes only what is new in the answers."""
    from tiltyard.arena.accounts import Accounts
    from tiltyard.arena.content.answer_import import create_arena, import_answers
    from tiltyard.arena.content.catalog import read_arena, read_arenas
    from tiltyard.arena.registry import check_database, open_registry

    check_database(url)
    open_keys(environment.home, environment.variables.get(KEY_VARIABLE))
    async with open_registry(url, environment, settings) as house:
        accounts = Accounts(house.pool)
        link = None if await accounts.has_operator() else await accounts.make_operator_link()
        imported = None
        if answers is not None:
            arena = arena or arena_name_from_file(answers)
            try:
                await read_arena(house.pool, arena)
            except NotFound:
                await create_arena(house.pool, arena)
            imported = await import_answers(house.pool, house.contents, arena, answers)
        names = tuple(one.name for one in await read_arenas(house.pool))
    return StartupResult(link, names, arena, imported)
