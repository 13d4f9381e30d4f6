"""An event loop whose clock jumps to the next timer: a test of minutes takes no time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class JumpingLoop(asyncio.SelectorEventLoop):
    """Skips the time in which nothing is ready. Only for code that waits for timers alone."""

    _skipped = 0.0

    def time(self) -> float:
        return super().time() + self._skipped

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:
            self._skipped += max(self._scheduled[0].when() - self.time(), 0.0)
        super()._run_once()  # type: ignore[misc]


def run_jumping(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine on such a loop."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(coroutine)
