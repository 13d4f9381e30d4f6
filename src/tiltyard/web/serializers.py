"""Rows of the store as the API shows them."""

from __future__ import annotations

from tiltyard.arena.content.arenas import Arena
from tiltyard.web.arena_schemas import ArenaOut

__all__ = ["serialize_arena"]


def serialize_arena(arena: Arena) -> ArenaOut:
    """An arena without its number."""
    return ArenaOut(
        arena=arena.name,
        title=arena.title,
        created_at=arena.created_at,
        settings=arena.settings.to_dict(),
        categories=None,
        languages=None,
    )
