"""Cancel a task reliably."""

from __future__ import annotations

import asyncio
from typing import Any

#: Seconds after which a task that is still running is cancelled again.
_CANCEL_RETRY_SECONDS = 1.0


async def cancel_and_wait(task: asyncio.Task[Any] | None) -> None:
    """Cancel a task and wait until it has ended; an exception that it raised is raised here.

    Cancelling once is not enough: if `asyncio.wait_for` times out at the moment of the cancellation,
    Python before 3.12 loses the cancellation, and the task continues.
    """
    while task is not None and not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_CANCEL_RETRY_SECONDS)
    if task is not None and not task.cancelled():
        task.result()
