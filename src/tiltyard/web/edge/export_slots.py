"""Slots for exports: each reads the database as long as its client takes to read, so few run in one process.

A client may read slowly while nobody else waits. If all slots are taken, the export of a slow client gives way to the next.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Self

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.types import Message, Send

from tiltyard.web.access.context import context_of

_LOG = logging.getLogger(__name__)

#: Exports that run concurrently in one process.
_CONCURRENT_EXPORT_LIMIT = 2
#: Seconds without progress after which an export is aborted.
_STALLED_READER_SECONDS = 60.0
#: A client is slow that we have waited for at least so long, and that has read less than this of it.
_SLOW_SECONDS = 15.0
_SLOW_BYTES_PER_SECOND = 256 * 1024


def export_slots_of(request: Request) -> ExportSlots:
    """The slots of this process."""
    return context_of(request).shared(ExportSlots, ExportSlots)


class StalledReader(Exception):
    """The client does not read, or too slowly while others wait."""


class ExportSlot:
    """The slot of a running export; it measures how long its client lets us wait."""

    def __init__(self, slots: ExportSlots) -> None:
        self._slots = slots
        self._waited = 0.0
        self._since: float | None = None
        self._bytes = 0
        self._timeout: asyncio.Timeout | None = None
        self._cut = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.release()

    async def send(self, send: Send, message: Message) -> None:
        """Send a part; raise `StalledReader` if the client does not read it in time, or gives way to another."""
        if self._cut:
            raise StalledReader
        self._since = time.monotonic()
        try:
            async with asyncio.timeout(_STALLED_READER_SECONDS) as self._timeout:
                await send(message)
        except TimeoutError:
            reason = "gave way to another" if self._cut else "was aborted"
            _LOG.info("an export %s: the client read nothing, or too slowly", reason)
            raise StalledReader from None
        finally:
            self._waited += time.monotonic() - self._since
            self._since = self._timeout = None
        self._bytes += len(message.get("body", b""))

    def is_slow(self) -> bool:
        """Whether most of the time goes by waiting for the client."""
        waited = self._waited + (0.0 if self._since is None else time.monotonic() - self._since)
        return waited >= _SLOW_SECONDS and self._bytes < waited * _SLOW_BYTES_PER_SECOND

    def cut(self) -> None:
        """End the export, now or with its next part."""
        self._cut = True
        if self._timeout is not None:
            self._timeout.reschedule(asyncio.get_running_loop().time())

    def release(self) -> None:
        """Give the slot back. Giving it back again has no effect."""
        self._slots.discard(self)


class ExportSlots:
    """The slots of one process."""

    def __init__(self, at_once: int = _CONCURRENT_EXPORT_LIMIT) -> None:
        self._at_once = at_once
        self._running: set[ExportSlot] = set()

    def __len__(self) -> int:
        return len(self._running)

    def take(self) -> ExportSlot:
        """A slot, if need be that of a slow client; an error 503 if there is none."""
        if len(self._running) >= self._at_once:
            slow = next((slot for slot in self._running if slot.is_slow()), None)
            if slow is None:
                raise HTTPException(503, "Other exports are running; try again soon.", {"Retry-After": "10"})
            self.discard(slow)
            slow.cut()
        slot = ExportSlot(self)
        self._running.add(slot)
        return slot

    def discard(self, slot: ExportSlot) -> None:
        """Free a slot."""
        self._running.discard(slot)
