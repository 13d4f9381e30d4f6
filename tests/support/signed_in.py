"""Visitors of every kind, for a served database."""

import httpx2

from support.served import Served, make_token


def clients(running: Served, arena: str = "arena") -> dict[str, httpx2.Client]:
    """One client for each kind of visitor."""
    made = {"nobody": running.client()}
    for scope in ("read", "judge", "import", "admin", "metrics"):
        made[scope] = running.client(make_token(running.database, scope, name=scope))
    made["elsewhere"] = running.client(
        make_token(running.database, "admin", "read", "import", arena=arena, name="elsewhere")
    )
    return made
