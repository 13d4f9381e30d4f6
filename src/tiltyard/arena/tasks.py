"""Ending a task for certain."""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["cancel_and_wait"]

#: Seconds after which a task that goes on is told again.
_CANCEL_RETRY_SECONDS = 1.0


async def cancel_and_wait(task: asyncio.Task[Any] | None) -> None:
    """Cancel a task and wait until it has ended; what it raised besides is raised here.

    Once is not enough: where a wait with a time limit is over at the very moment of the cancellation,
    Python before 3.12 forgets that there was one, and the task goes on.
    """
    while task is not None and not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_CANCEL_RETRY_SECONDS)
    if task is not None and not task.cancelled():
        task.result()
