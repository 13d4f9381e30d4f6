"""Ends streams that are silent for too long, with one timer for each stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiohttp

from tiltyard.judges.providers.streams import StreamTimeouts

__all__ = ["SilenceWatch", "StreamDeadline", "StreamSilent"]

#: How long to wait, after the end mark, for the end of the connection's data, so that the connection can be kept.
_LAST_BYTES_SECONDS = 0.1
#: While nobody reads the stream, its deadline is looked at so often.
_IDLE_CHECK_SECONDS = 1.0


class StreamSilent(Exception):
    """A stream has said nothing until its deadline."""


class StreamDeadline:
    """Until when a stream must say something, in the time of the event loop."""

    def __init__(self, timeouts: StreamTimeouts, now: float) -> None:
        self._timeouts = timeouts
        self._end = now + timeouts.total_seconds
        self._begun = False
        self.at = min(now + timeouts.first_token_seconds, self._end)

    def heard(self, now: float) -> None:
        """A piece has come."""
        self._begun = True
        self.at = min(now + self._timeouts.gap_seconds, self._end)

    def ended(self, now: float) -> None:
        """The end mark has come."""
        self.at = min(now + _LAST_BYTES_SECONDS, self._end)

    @property
    def problem(self) -> str:
        """What was waited for in vain."""
        if self.at >= self._end:
            return f"the answer was not complete after {self._timeouts.total_seconds:g} seconds"
        if not self._begun:
            return f"no token within {self._timeouts.first_token_seconds:g} seconds"
        return f"no further token for {self._timeouts.gap_seconds:g} seconds"


class SilenceWatch:
    """Closes a stream that is silent beyond its deadline.

    A timer for each read would cost more than the read: this one is set again only when it has run out, because
    most deadlines are moved before they come.
    """

    def __init__(self, deadline: StreamDeadline, close: Callable[[], None]) -> None:
        self._deadline = deadline
        self._close = close
        self._loop = asyncio.get_running_loop()
        self._reads = False
        self._expired = False
        self._timer = self._loop.call_at(deadline.at, self._check)

    async def read(self, content: aiohttp.StreamReader) -> bytes:
        """The bytes that arrive next, empty at the end. Raises `StreamSilent` after the deadline."""
        if self._deadline.at < self._timer.when():
            self._set(self._deadline.at)
        self._reads = True
        try:
            return await content.readany()
        except Exception:
            if self._expired:
                raise StreamSilent from None
            raise
        finally:
            self._reads = False

    def stop(self) -> None:
        """Watch no longer."""
        self._timer.cancel()

    def _check(self) -> None:
        now = self._loop.time()
        if now < self._deadline.at:
            self._set(self._deadline.at)
        elif self._reads:
            self._expired = True
            self._close()
        else:
            # Whoever reads the stream is busy: that is no fault of the server.
            self._set(now + _IDLE_CHECK_SECONDS)

    def _set(self, at: float) -> None:
        self._timer.cancel()
        self._timer = self._loop.call_at(at, self._check)
