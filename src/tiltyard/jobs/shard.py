"""Shards: the units of work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shard:
    """One unit of work: questions ``first`` (included) to ``last`` (excluded) of a plan."""

    run: str
    generation: int
    index: int
    first: int
    last: int

    @property
    def id(self) -> str:
        """A permanent key: a shard that finished or failed is never run again under the same key."""
        return f"{self.run}:{self.generation}:{self.index}"


Work = Callable[[Shard], Awaitable[dict[str, int]]]
"""Processes a shard and returns counts. Runs on the engine's event loop; must be idempotent."""

Hook = Callable[[], Awaitable[None]]
"""Runs on the engine's event loop, before or after all work."""
