"""Group commit for the ledger: combines entries of concurrent tasks into few transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from tiltyard.judges.ledger import AttemptIntent, Ledger, ReservationResult, Settlement
from tiltyard.judges.providers.provider import Body

T = TypeVar("T")


class LedgerBatcher:
    """Writes the entries of many tasks in one thread. Entries that arrive during a transaction form the next one.

    An entry is confirmed only after its transaction is committed, so no request is sent whose intent a
    crash could lose.
    """

    def __init__(self, url: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ledger")
        try:
            self._ledger = self._thread.submit(Ledger, url).result()
        except BaseException:
            self._thread.shutdown()
            raise
        self._intents: list[tuple[AttemptIntent, asyncio.Future[ReservationResult]]] = []
        self._settlements: list[tuple[Settlement, asyncio.Future[None]]] = []
        self._withdrawn: list[AttemptIntent] = []
        self._flushing: asyncio.Task[None] | None = None
        #: Held by the first of those that wait for money which calls in flight hold. The others wait in line: if each
        #: looked for itself, the last money would go to random questions and leave matches half judged.
        self.money_line = asyncio.Lock()

    async def begin(self, intent: AttemptIntent) -> ReservationResult:
        """Record an attempt and reserve its cost. If cancelled, the intent is withdrawn."""
        done: asyncio.Future[ReservationResult] = asyncio.get_running_loop().create_future()
        self._intents.append((intent, done))
        self._flush()
        try:
            return await done
        except asyncio.CancelledError:
            if not done.cancelled() and done.exception() is None and done.result() is ReservationResult.YES:
                self._withdrawn.append(intent)
                self._flush()
            raise

    async def settle(self, settlement: Settlement) -> None:
        """Record how an attempt ended, with its reply."""
        # A received reply is stored even if its task is cancelled.
        await asyncio.shield(self.note(settlement))

    def note(self, settlement: Settlement) -> asyncio.Future[None]:
        """Like `settle`, without waiting: it is written before `drained` returns."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.add_done_callback(_seen)
        self._settlements.append((settlement, done))
        self._flush()
        return done

    async def replies(self, keys: Iterable[str]) -> dict[str, list[Body]]:
        return await self.run(Ledger.replies, list(keys))

    async def run(self, call: Callable[..., T], *arguments: object) -> T:
        """Run any other method of the ledger in its thread."""
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, lambda: call(self._ledger, *arguments)
        )

    async def drained(self) -> None:
        """Wait until all entries are written."""
        while self._flushing is not None:
            await asyncio.shield(self._flushing)

    def close(self) -> None:
        self._thread.submit(self._ledger.close).result()
        self._thread.shutdown()

    def _flush(self) -> None:
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        try:
            while self._intents or self._settlements or self._withdrawn:
                intents, self._intents = self._intents, []
                settlements, self._settlements = self._settlements, []
                withdrawn, self._withdrawn = self._withdrawn, []
                intents = [entry for entry in intents if not entry[1].cancelled()]
                await self._write_together(intents, settlements, withdrawn)
        finally:
            self._flushing = None

    async def _write_together(
        self,
        intents: Sequence[tuple[AttemptIntent, asyncio.Future[ReservationResult]]],
        settlements: Sequence[tuple[Settlement, asyncio.Future[None]]],
        withdrawn: Sequence[AttemptIntent],
    ) -> None:
        begun, ended = [intent for intent, _ in intents], [settlement for settlement, _ in settlements]
        try:
            held = await self.run(Ledger.write, begun, ended, withdrawn)
        except Exception as error:  # noqa: BLE001 - it is passed to each entry
            waiting: list[asyncio.Future[Any]] = [future for _, future in intents]
            waiting += [future for _, future in settlements]
            for future in waiting:
                if not future.done():
                    future.set_exception(error)
            return
        for (intent, future), answer in zip(intents, held, strict=True):
            if not future.done():
                future.set_result(answer)
            elif answer is ReservationResult.YES:
                self._withdrawn.append(intent)
        for _, settled in settlements:
            if not settled.done():
                settled.set_result(None)


def _seen(done: asyncio.Future[None]) -> None:
    """Retrieve the exception, so that asyncio does not warn if nobody waits."""
    if not done.cancelled():
        done.exception()
