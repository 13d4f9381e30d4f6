"""A request in the voting queue: a decision to be made under the arena's lock, and a future for its reply."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, TypeVar

from tiltyard.arena.log.event_log import HUMAN, LogBatch
from tiltyard.arena.voting.arena_state import ArenaState
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.errors import StoreFault, TiltyardError

#: Covariant, so that a queue of requests with different replies is a ``list[Ask[object]]``.
Reply_co = TypeVar("Reply_co", covariant=True)

#: Reads what the decision needs, under the lock.
Look = Callable[[LogBatch], Awaitable[None]]


class Ask(Generic[Reply_co]):
    """A request that is decided within a batch and answered once the batch is committed."""

    __slots__ = ("_answer", "_decide", "_look", "_tell", "_voter")

    def __init__(
        self,
        decide: Callable[[ArenaState, LogBatch], Reply_co],
        look: Look | None = None,
        voter: Voter | None = None,
    ) -> None:
        self._decide = decide
        self._look = look
        #: Given if the decision depends on the names that were revealed to the voter.
        self._voter = voter
        self._answer: asyncio.Future[Reply_co] = asyncio.get_running_loop().create_future()
        self._tell: Callable[[], None] | None = None

    async def reply(self) -> Reply_co:
        """Wait for the reply; a rejection is raised."""
        return await self._answer

    async def settle(self, state: ArenaState, batch: LogBatch) -> None:
        """Make the decision. A rejection is a reply too; a `StoreFault` ends the batch."""
        try:
            if self._look is not None:
                await self._look(batch)
            if self._voter is not None and self._voter.session not in state.revealed:
                # From now on, what this batch reveals is folded into memory; what was revealed before is in the tables.
                names = await batch.read_revealed_names(self._voter.session, self._voter.source)
                state.revealed.remember(self._voter.session, *names)
                if state.new_voters_wait and self._voter.source == HUMAN:
                    known = await batch.is_known(self._voter.session)
                    state.revealed.of(self._voter.session).is_known = known
            self._tell = partial(self._answer.set_result, self._decide(state, batch))
        except StoreFault:
            raise
        except TiltyardError as refusal:
            self._tell = partial(self._answer.set_exception, refusal)

    def tell(self) -> None:
        """Deliver the reply, unless the request was refused meanwhile."""
        assert self._tell is not None
        if not self._answer.done():
            self._tell()

    def refuse(self, fault: Exception) -> None:
        """Fail the request, unless it has been answered."""
        if not self._answer.done():
            self._answer.set_exception(fault)
