"""What an operator tells voters, as Markdown: announcement, instructions, consent, thanks, and the words for a pause.

Every version stays, by its hash. Who agreed to the consent is stored with the hash of the version that was shown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from tiltyard.arena.accounts import write_audit_entry
from tiltyard.arena.content.arenas import Arena, lock_arena
from tiltyard.arena.log.buckets import fetch_row, fetch_rows, run_statement
from tiltyard.errors import InputError
from tiltyard.postgres.connections import ConnectionPool, Database
from tiltyard.postgres.statements import statement

TextName = Literal["announcement", "instructions", "consent", "thanks", "pause"]
TEXT_NAMES: tuple[TextName, ...] = get_args(TextName)
MAX_TEXT_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True)
class ArenaText:
    """The newest version of a text; ``sha256`` is of its UTF-8 bytes, in hexadecimal."""

    name: TextName
    content: str
    sha256: str
    made_at: datetime


async def read_texts(pool: ConnectionPool, arena: Arena) -> dict[TextName, ArenaText]:
    """The texts of an arena that are not empty, by name."""
    return await _read(pool, arena.arena)


async def change_texts(
    pool: ConnectionPool, arena: str, given: Mapping[TextName, str], *, actor: str
) -> tuple[TextName, ...]:
    """Add a version of each given text that differs from its newest; return the names of these."""
    for name, content in given.items():
        if len(content) > MAX_TEXT_CHARACTERS or "\0" in content:
            raise InputError(
                f"{name} has {len(content)} characters; expected at most {MAX_TEXT_CHARACTERS}, without null characters"
            )
    async with pool.connection() as connection, connection.transaction():
        found = await lock_arena(connection, arena)
        before = await _read(connection, found.arena)
        changed: list[TextName] = []
        for name, content in given.items():
            old = before[name].content if name in before else ""
            if content != old:
                sha256 = hashlib.sha256(content.encode()).digest()
                values = {"arena": found.arena, "name": name, "content": content, "sha256": sha256}
                await connection.execute(statement("texts_add"), values | {"actor": actor})
                about = {"text": name, "content": [old, content], "sha256": sha256.hex()}
                await write_audit_entry(connection, actor, "change text", about, arena=found.arena)
                changed.append(name)
    return tuple(changed)


async def wanted_consent(pool: ConnectionPool, arena: int, session: int | None) -> str | None:
    """The hash of the consent that a session has still to give; ``None`` if there is nothing to ask.

    A voter who has no session yet has given none.
    """
    values = {"arena": arena, "session": session}
    row = await fetch_row(pool, "texts_consent_wanted", values)
    return None if row is None else bytes(row[0]).hex()


async def give_consent(pool: ConnectionPool, arena: int, session: int, sha256: str) -> None:
    """Record that a session agreed to the version of the consent with this hash."""
    values = {"arena": arena, "session": session, "sha256": bytes.fromhex(sha256)}
    await run_statement(pool, "texts_give_consent", values)


async def _read(database: Database, arena: int) -> dict[TextName, ArenaText]:
    rows = await fetch_rows(database, "texts_newest", {"arena": arena})
    return {
        name: ArenaText(name, content, bytes(sha256).hex(), made_at)
        for name, content, sha256, made_at in rows
        if content
    }
