"""Prepares the server before it starts: checks the schema, creates keys, an operator link and an arena."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tiltyard.arena.secret_keys import KEY_VARIABLE, open_keys
from tiltyard.errors import BadOption, NotFound
from tiltyard.settings.environment import Environment
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.settings.sign_in_settings import read_sign_in

if TYPE_CHECKING:
    from tiltyard.arena.content.answer_import import ImportResult
    from tiltyard.arena.operators.live_setup import LiveArenaRequest, LiveSetup

__all__ = ["StartupResult", "arena_name_from_file", "check_certificate", "prepare_server"]


def check_certificate(settings: ServingSettings) -> None:
    """Raise `BadOption` if the files of the certificate cannot be used."""
    if settings.tls_certificate is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.tls_certificate, settings.tls_key)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise BadOption(
            f"the certificate {settings.tls_certificate} and its key {settings.tls_key} cannot be used: "
            f"{reason or error}; expected two PEM files, the key without a passphrase"
        ) from None


@dataclass(frozen=True)
class StartupResult:
    """What `tiltyard serve` prints when it starts."""

    #: The token of the link that creates the operator account; ``None`` if there is one.
    link: str | None
    arenas: tuple[str, ...]
    #: The arena that answers were imported into, and the result of the import.
    arena: str | None = None
    imported: ImportResult | None = None
    #: The live arena that was made, or whose models were changed.
    live: LiveSetup | None = None


def arena_name_from_file(answers: Path) -> str:
    """The name of an arena that is created from a file of answers, derived from the file's name."""
    stem = answers.name.split(".", maxsplit=1)[0].lower()
    return re.sub(r"[^a-z0-9]+", "-", stem).strip("-")[:64].strip("-") or "arena"


async def prepare_server(
    url: str,
    environment: Environment,
    settings: ServingSettings,
    *,
    answers: Path | None = None,
    arena: str | None = None,
    live: LiveArenaRequest | None = None,
) -> StartupResult:
    """Prepare the database, import answers and set up a live arena. An existing arena gets only what is new."""
    from tiltyard.arena.accounts import Accounts
    from tiltyard.arena.content.answer_import import create_arena, import_answers
    from tiltyard.arena.content.catalog import read_arena, read_arenas
    from tiltyard.arena.operators.live_setup import set_up_live_arena
    from tiltyard.arena.registry import check_database, open_registry

    read_sign_in(environment.variables)
    check_database(url, environment.pooler_url)
    open_keys(environment.home, environment.variables.get(KEY_VARIABLE))
    async with open_registry(url, environment, settings) as registry:
        accounts = Accounts(registry.pool)
        link = None if await accounts.has_operator() else await accounts.make_operator_link()
        imported = None
        if answers is not None:
            arena = arena or arena_name_from_file(answers)
            try:
                await read_arena(registry.pool, arena)
            except NotFound:
                await create_arena(registry.pool, arena)
            imported = await import_answers(registry.pool, registry.blobs, arena, answers)
        done = None
        if live is not None:
            done = await set_up_live_arena(registry.pool, registry.blobs, live, shard=settings.shard)
        names = tuple(one.name for one in await read_arenas(registry.pool))
    return StartupResult(link, names, arena, imported, done)
