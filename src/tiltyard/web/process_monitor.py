"""What a web process tells about itself every second: its gauges and its heartbeat."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from tiltyard.instruments import (
    LOADED_ARENAS,
    POOL_IN_USE,
    POOL_LIMIT,
    POOL_WAITING,
    QUEUE_LENGTH,
)
from tiltyard.web.heartbeats import FOLDER_VARIABLE, Heartbeat

if TYPE_CHECKING:
    from tiltyard.arena.registry import ArenaRegistry

__all__ = ["record_gauges", "watch_process"]

_SAMPLE_SECONDS = 1.0


async def watch_process(registry: ArenaRegistry) -> None:
    """Record gauges and beat until cancelled."""
    heartbeat = Heartbeat(os.environ.get(FOLDER_VARIABLE))
    while True:
        record_gauges(registry)
        heartbeat.beat()
        await asyncio.sleep(_SAMPLE_SECONDS)


def record_gauges(registry: ArenaRegistry) -> None:
    """Record how full queues and pool are now."""
    queues = registry.voting_queues
    LOADED_ARENAS.record(sum(queue.ready for queue in queues))
    QUEUE_LENGTH.record(sum(queue.waiting for queue in queues))
    POOL_LIMIT.record(registry.pool.most)
    POOL_IN_USE.record(registry.pool.in_use)
    POOL_WAITING.record(registry.pool.waiting)
