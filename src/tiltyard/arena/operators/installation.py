"""What holds strangers, kept with the database: processes with other environments weaken nothing."""

from __future__ import annotations

import math

from psycopg.types.json import Jsonb

from tiltyard.arena.accounts import write_audit_entry
from tiltyard.arena.log.buckets import fetch_row, run_statement
from tiltyard.errors import BadOption
from tiltyard.postgres.connections import ConnectionPool, connect_async
from tiltyard.settings.serving_settings import ServingSettings


async def keep_defences(pool: ConnectionPool, settings: ServingSettings) -> None:
    """Keep the address and the limits of a process that starts, for all others; `BadOption` if it has less than is kept.

    Whether the address is public is kept with each arena too, from where all processes read it.
    """
    own = settings.defences()
    async with pool.connection() as connection, connection.transaction():
        base_url, kept = await fetch_row(connection, "installation_lock", {}) or (None, {})
        weaker = [name for name, most in kept.items() if own.get(name, math.inf) > most]
        if weaker:
            address = "no base URL" if base_url is None else f"--base-url {base_url}"
            raise BadOption(
                f"this installation was started with {address} and stricter defences ({', '.join(weaker)}), and every "
                "process needs them; start with these, or once with --change-defences to replace them",
                option="base_url" if "public address" in weaker else None,
            )
        public = settings.has_public_address
        values = {"base_url": settings.base_url, "public": public, "defences": Jsonb(own)}
        await run_statement(connection, "installation_put", values)
        await run_statement(connection, "installation_tell", {"public": public})


async def forget_defences(url: str) -> None:
    """Let the next process that starts say anew what holds strangers."""
    async with await connect_async(url, name="tiltyard serve") as connection, connection.transaction():
        if await run_statement(connection, "installation_forget", {}):
            await write_audit_entry(connection, "cli", "change defences", {})
