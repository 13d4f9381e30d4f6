"""Shards: the units in which work is handed out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

__all__ = ["Hook", "Shard", "Work"]


@dataclass(frozen=True, slots=True)
class Shard:
    """One unit of work: questions ``first`` up to, not including, ``last`` of a plan."""

    run: str
    generation: int
    index: int
    first: int
    last: int

    @property
    def id(self) -> str:
        """A key for ever: what was done or failed under it is not tried again under it."""
        return f"{self.run}:{self.generation}:{self.index}"


Work = Callable[[Shard], Awaitable[dict[str, int]]]
"""Does a shard and counts what it did. Runs on the engine's event loop; must bear repetition."""

Hook = Callable[[], Awaitable[None]]
"""Something to be done on the engine's event loop, before or after all work."""
