"""Converts stored records to records of the API."""

from __future__ import annotations

from collections.abc import Sequence

from tiltyard.arena.content.arenas import Arena
from tiltyard.wire.arenas import ArenaInfo

__all__ = ["serialize_arena"]


def serialize_arena(
    arena: Arena,
    categories: Sequence[str] | None = None,
    languages: Sequence[str] | None = None,
    *,
    budgets: bool = False,
) -> ArenaInfo:
    """An arena for the API, without its number; with ``budgets``, for its operators."""
    return ArenaInfo(
        arena=arena.name,
        title=arena.title,
        created_at=arena.created_at,
        settings=arena.settings.to_dict() if budgets else arena.settings.shown_to_voters(),
        categories=None if categories is None else tuple(categories),
        languages=None if languages is None else tuple(languages),
    )
