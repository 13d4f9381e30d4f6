"""The client for asynchronous code: what voters and judges do, and `call` for everything else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tiltyard.client import operator_calls, voter_calls
from tiltyard.client.operator_calls import Me
from tiltyard.client.transport import AsyncTransport
from tiltyard.client.voter_calls import Ended, GateAnswer, Matchup, Revealed, RevealedVote, Side

__all__ = ["AsyncClient"]


class AsyncClient(AsyncTransport):
    """One voter, judge or operator of a server; every call of `Client` can be sent by `call`.

    ``timeout`` is for one request; for ``patience`` seconds, calls that may be repeated are sent again
    when the server cannot be reached or says "not now".
    """

    def __init__(
        self, base_url: str, *, token: str | None = None, timeout: float = 30.0, patience: float = 30.0
    ) -> None:
        super().__init__(base_url, token, timeout, patience)

    async def next_matchup(self, arena: str, *, ahead: bool = False) -> Matchup:
        return await self.call(voter_calls.next_matchup(arena, ahead=ahead))

    async def gate(self, arena: str) -> GateAnswer:
        return await self.call(voter_calls.gate(arena))

    async def open_matchups(self, arena: str) -> list[Matchup]:
        return await self.call(voter_calls.open_matchups(arena))

    async def show(self, matchup: str) -> Matchup:
        return await self.call(voter_calls.show(matchup))

    async def response(self, matchup: str, side: Side, image: int | None = None) -> bytes:
        return await self.call(voter_calls.response(matchup, side, image))

    async def vote(
        self,
        matchup: str,
        winner: str,
        *,
        ballot: int = 0,
        reveal: bool = False,
        shown: Mapping[str, float] | None = None,
        recognized: bool = False,
        label: str | None = None,
        both_bad: bool | None = None,
        pref: float | None = None,
        judge_model: str | None = None,
    ) -> Ended:
        return await self.call(
            voter_calls.vote(
                matchup,
                winner,
                ballot=ballot,
                reveal=reveal,
                shown=shown,
                recognized=recognized,
                label=label,
                both_bad=both_bad,
                pref=pref,
                judge_model=judge_model,
            )
        )

    async def undo(self, matchup: str, *, ballot: int = 0) -> Ended:
        return await self.call(voter_calls.undo(matchup, ballot=ballot))

    async def skip(self, matchup: str, *, reason: str | None = None, recognized: bool = False) -> Ended:
        return await self.call(voter_calls.skip(matchup, reason=reason, recognized=recognized))

    async def reveal(self, matchup: str) -> Revealed:
        return await self.call(voter_calls.reveal(matchup))

    async def finish(self, arena: str) -> list[RevealedVote]:
        return await self.call(voter_calls.finish(arena))

    async def remark(self, matchup: str, tags: Sequence[str] = (), comment: str | None = None) -> None:
        await self.call(voter_calls.remark(matchup, tags, comment))

    async def me(self) -> Me:
        return await self.call(operator_calls.me())
