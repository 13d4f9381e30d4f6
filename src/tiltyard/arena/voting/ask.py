"""One request to a desk: what is to be decided under the arena's lock, and who waits for the reply."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, TypeVar

from tiltyard.arena.log.event_log import LogBatch
from tiltyard.arena.voting.arena_state import ArenaState
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.errors import StoreFault, TiltyardError

__all__ = ["Ask", "Look"]

#: Covariant, so that a line of asks with different replies is a ``list[Ask[object]]``.
Reply_co = TypeVar("Reply_co", covariant=True)

#: What must be read under the lock before it is decided.
Look = Callable[[LogBatch], Awaitable[None]]


class Ask(Generic[Reply_co]):
    """Decided within a batch; the reply is told once the batch has been committed."""

    __slots__ = ("_answer", "_decide", "_look", "_tell", "_voter")

    def __init__(
        self,
        decide: Callable[[ArenaState, LogBatch], Reply_co],
        look: Look | None = None,
        voter: Voter | None = None,
    ) -> None:
        self._decide = decide
        self._look = look
        #: Who asks, where it matters what they were told.
        self._voter = voter
        self._answer: asyncio.Future[Reply_co] = asyncio.get_running_loop().create_future()
        self._tell: Callable[[], None] | None = None

    async def reply(self) -> Reply_co:
        """Wait for the reply; a refusal is raised."""
        return await self._answer

    async def settle(self, live: ArenaState, batch: LogBatch) -> None:
        """Decide. A refusal is a reply too; a fault of the store ends the batch."""
        try:
            if self._look is not None:
                await self._look(batch)
            if self._voter is not None and self._voter.session not in live.told:
                # Whatever this batch tells, it tells to voters who are remembered: the tables have all the rest.
                told = await batch.read_revealed_names(self._voter.session, self._voter.source)
                live.told.remember(self._voter.session, *told)
            self._tell = partial(self._answer.set_result, self._decide(live, batch))
        except StoreFault:
            raise
        except TiltyardError as refusal:
            self._tell = partial(self._answer.set_exception, refusal)

    def tell(self) -> None:
        """Hand out what was settled, unless the asker has been told something else meanwhile."""
        assert self._tell is not None
        if not self._answer.done():
            self._tell()

    def refuse(self, fault: Exception) -> None:
        """Tell the asker of a fault, unless there is a reply."""
        if not self._answer.done():
            self._answer.set_exception(fault)
