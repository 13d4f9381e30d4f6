"""The client for asynchronous code: what voters and judges do, and `call` for everything else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tiltyard.client import operating, voting
from tiltyard.client.operating import Me
from tiltyard.client.transport import AsyncTransport
from tiltyard.client.voting import Ended, Matchup, Revealed, Side, ToldVote

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
        return await self.call(voting.next_matchup(arena, ahead=ahead))

    async def open_matchups(self, arena: str) -> list[Matchup]:
        return await self.call(voting.open_matchups(arena))

    async def response(self, matchup: str, side: Side) -> bytes:
        return await self.call(voting.response(matchup, side))

    async def vote(
        self,
        matchup: str,
        winner: str,
        *,
        ballot: int = 0,
        reveal: bool = False,
        shown: Mapping[str, float] | None = None,
        label: str | None = None,
        both_bad: bool | None = None,
        pref: float | None = None,
        judge_model: str | None = None,
    ) -> Ended:
        return await self.call(
            voting.vote(
                matchup,
                winner,
                ballot=ballot,
                reveal=reveal,
                shown=shown,
                label=label,
                both_bad=both_bad,
                pref=pref,
                judge_model=judge_model,
            )
        )

    async def undo(self, matchup: str, *, ballot: int = 0) -> Ended:
        return await self.call(voting.undo(matchup, ballot=ballot))

    async def skip(self, matchup: str) -> Ended:
        return await self.call(voting.skip(matchup))

    async def reveal(self, matchup: str) -> Revealed:
        return await self.call(voting.reveal(matchup))

    async def finish(self, arena: str) -> list[ToldVote]:
        return await self.call(voting.finish(arena))

    async def remark(self, matchup: str, tags: Sequence[str] = (), comment: str | None = None) -> None:
        await self.call(voting.remark(matchup, tags, comment))

    async def me(self) -> Me:
        return await self.call(operating.me())
