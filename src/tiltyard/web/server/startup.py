"""Starts the server: opens port and database, checks the schema, creates keys, an operator link and an arena."""

from __future__ import annotations

import asyncio
import errno
import re
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tiltyard.arena.secret_keys import KEY_VARIABLE, open_keys
from tiltyard.errors import BadOption, NotFound
from tiltyard.foundation.local_files import lock_file
from tiltyard.postgres.embedded_server import open_long_lived_database
from tiltyard.settings.environment import Environment
from tiltyard.settings.serving_settings import HOST_ADVICE, ServingSettings, read_sign_in
from tiltyard.web.edge.logs import configure_logging
from tiltyard.web.server.supervisor import Supervisor

if TYPE_CHECKING:
    from tiltyard.arena.content.answer_rows import AnswerReading
    from tiltyard.arena.operators.arena_changes import LiveArenaRequest, LiveSetup
    from tiltyard.postgres.binaries import OnWait
    from tiltyard.wire.arenas import Imported


Prepared = TypeVar("Prepared")

_LISTEN_BACKLOG_COUNT = 2048


def run_server(
    environment: Environment,
    settings: ServingSettings,
    prepare: Callable[[str, ServingSettings], Awaitable[Prepared]],
    greet: Callable[[ServingSettings, Prepared], None],
    *,
    as_user: str | None = None,
    on_wait: OnWait | None = None,
) -> None:
    """Run the server until SIGTERM or Ctrl-C.

    ``prepare`` is given the database's URL before the processes start; ``greet`` is called with its result when all
    are ready. Settings given to them have the port that port 0 became.
    """
    settings.check_proxy()
    configure_logging()
    # Before the supervisor handles SIGTERM, the signal must still stop the database.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with ExitStack() as stack:
        listening = None
        if settings.role != "rater":
            listening = stack.enter_context(listening_socket(settings))
            settings = replace(settings, port=listening.getsockname()[1])
        database = stack.enter_context(
            open_long_lived_database(environment, as_user=as_user, on_wait=on_wait)
        )

        async def preparing() -> Prepared:
            return await prepare(database.url, settings)

        prepared = asyncio.run(preparing())
        if listening is not None:
            stack.enter_context(publish_address(environment.home, settings.address()))
        Supervisor(database, settings, listening).run(lambda: greet(settings, prepared))


def listening_socket(settings: ServingSettings) -> socket.socket:
    """The socket that all web processes share."""
    try:
        found = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, address = found[0]
        return socket.create_server(address[:2], family=family, backlog=_LISTEN_BACKLOG_COUNT)
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            advice = f"this is no address of this machine; {HOST_ADVICE}"
        elif error.errno == errno.EACCES:
            advice = "ports below 1024 need a right that this user does not have: choose another with --port"
        else:
            advice = "another server may be using it: choose another with --port"
        raise BadOption(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror or error}; {advice}"
        ) from None


@dataclass(frozen=True)
class StartupResult:
    """What `tiltyard serve` prints when it starts."""

    #: The token of the link that creates the operator account; ``None`` if there is one.
    link: str | None
    arenas: tuple[str, ...]
    #: The arena that answers were imported into, and the result of the import.
    arena: str | None = None
    imported: Imported | None = None
    #: The live arena that was made, or whose models were changed.
    live: LiveSetup | None = None
    #: Whether strangers reach the embedded server although it lacks security releases.
    unpatched: bool = False


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
    reading: AnswerReading | None = None,
    arena: str | None = None,
    live: LiveArenaRequest | None = None,
) -> StartupResult:
    """Prepare the database, import answers and set up a live arena. An existing arena gets only what is new."""
    from tiltyard.arena.accounts import Accounts
    from tiltyard.arena.content.answer_import import create_arena, import_answers
    from tiltyard.arena.content.answer_rows import PLAIN_READING
    from tiltyard.arena.content.arenas import find_arena, list_arenas
    from tiltyard.arena.maintenance.doctor import lacks_releases
    from tiltyard.arena.operators.arena_changes import set_up_live_arena
    from tiltyard.arena.operators.installation import keep_defences
    from tiltyard.arena.registry import check_database, open_registry

    read_sign_in(environment.variables)
    check_database(url, environment.pooler_url)
    open_keys(environment.home, environment.variables.get(KEY_VARIABLE))
    async with open_registry(url, environment, settings) as registry:
        if settings.role != "rater":
            await keep_defences(registry.pool, settings)
        unpatched = environment.database_url is None and await lacks_releases(registry.pool)
        accounts = Accounts(registry.pool)
        link = None if await accounts.has_operator() else await accounts.make_operator_link()
        imported = None
        if answers is not None:
            arena = arena or arena_name_from_file(answers)
            try:
                await find_arena(registry.pool, arena)
            except NotFound:
                await create_arena(registry.pool, arena)
            reading = reading or PLAIN_READING
            imported = await import_answers(registry.pool, registry.blobs, arena, answers, reading=reading)
        done = None
        if live is not None:
            done = await set_up_live_arena(registry.pool, registry.blobs, live, shard=settings.shard)
        names = tuple(one.name for one in await list_arenas(registry.pool))
    return StartupResult(link, names, arena, imported, done, unpatched and settings.has_public_address)


#: A file in the home folder. It is locked while the server runs: a server that was killed leaves no valid address.
SERVER_FILE = "server-address"
_ADDRESS_BYTES = 2_000


@contextmanager
def publish_address(home: Path, address: str) -> Iterator[None]:
    """Publish a server's address while it runs; the first of several servers of one folder does.

    A folder that cannot be written is no reason not to serve: commands then print the configured address.
    """
    try:
        file = (home / SERVER_FILE).open("a+b")
    except OSError:
        yield
        return
    with file:
        if lock_file(file, wait=False):
            with suppress(OSError):
                file.truncate(0)
                file.write(address.encode())
                file.flush()
        yield


def read_address(home: Path) -> str | None:
    """The address of the server that runs in this folder; ``None`` if none does."""
    with suppress(OSError), (home / SERVER_FILE).open("rb") as file:
        if not lock_file(file, wait=False):
            return file.read(_ADDRESS_BYTES).decode("utf-8", "replace") or None
    return None
