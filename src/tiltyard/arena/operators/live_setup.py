"""Sets up a live arena from the command line: makes it or follows a changed models file, and invites people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.catalog import read_arena
from tiltyard.arena.live.live_arena import (
    DEFAULT_CATEGORIES,
    EntrantChanges,
    NewEntrant,
    live_settings,
    make_live_arena,
    sync_entrants,
)
from tiltyard.arena.operators.arena_changes import change_settings
from tiltyard.arena.operators.invitations import InvitationTerms, invite
from tiltyard.errors import BadOption, NotFound
from tiltyard.postgres.connections import ConnectionPool

#: People whom the first link of an arena lets in.
_FIRST_LINK_VOTERS = 100


@dataclass(frozen=True, slots=True)
class LiveArenaRequest:
    """A live arena as it should be."""

    name: str
    entrants: Sequence[NewEntrant]
    #: For a new arena. Categories of one that exists do not change.
    categories: Sequence[str] = ()
    #: The most that calls may cost in total, in dollars; ``None`` to leave it as it is.
    budget: float | None = None


@dataclass(frozen=True, slots=True)
class LiveSetup:
    """What was done."""

    arena: str
    #: What became of the entrants; ``None`` for a new arena.
    changes: EntrantChanges | None
    #: The code of an invitation link, for a new arena; it is not shown again.
    code: str | None = None


async def set_up_live_arena(
    pool: ConnectionPool, blobs: BlobStore, asked: LiveArenaRequest, *, shard: int, actor: str = "cli"
) -> LiveSetup:
    """Make a live arena and an invitation link; or, if it exists, make its entrants and its budget those asked for."""
    try:
        found = await read_arena(pool, asked.name)
    except NotFound:
        settings = (
            live_settings() if asked.budget is None else live_settings(live_budget_dollars=asked.budget)
        )
        categories = asked.categories or DEFAULT_CATEGORIES
        await make_live_arena(
            pool, blobs, asked.name, asked.entrants, settings=settings, categories=categories, actor=actor
        )
        terms = InvitationTerms("first link", _FIRST_LINK_VOTERS)
        code, _ = await invite(pool, asked.name, terms, shard=shard, actor=actor)
        return LiveSetup(asked.name, None, code)
    if asked.categories:
        raise BadOption(f"the arena {asked.name} exists; its categories were named when it was made")
    changes = await sync_entrants(pool, blobs, asked.name, asked.entrants, actor=actor)
    if asked.budget is not None and asked.budget != found.settings.live_budget_dollars:
        await change_settings(pool, asked.name, {"live_budget_dollars": asked.budget}, actor=actor)
    return LiveSetup(asked.name, changes)
