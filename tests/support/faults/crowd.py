"""Voters in a closed loop over HTTP, who repeat themselves, lose answers, and keep what they were told."""

import asyncio
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Self

import httpx2

WINNERS = ("model_a", "model_b", "tie", "both_bad")
_PATIENCE = 8.0
#: Answers after which asking again is no use.
_FINAL = frozenset({200, 201, 400, 401, 403, 404, 409, 410, 415, 422, 500})


@dataclass(frozen=True)
class Told:
    """The service said that it has this."""

    matchup: str
    act: str
    winner: str | None
    position: int
    moment: float
    ballot: int = 0


@dataclass(frozen=True)
class Refused:
    """The service said that it does not take this."""

    matchup: str
    act: str
    winner: str | None
    status: int
    detail: str
    ballot: int = 0


@dataclass(frozen=True)
class Heard:
    """What voters were handed and told up to a moment."""

    offered: frozenset[str]
    told: tuple[Told, ...]
    refused: tuple[Refused, ...]


@dataclass
class Crowd:
    """So many voters at once. What they do is drawn; how their requests race is not."""

    addresses: list[str]
    arena: str = "arena"
    voters: int = 12
    seed: int = 0
    #: Seconds that each voter waits between its acts.
    pause: float = 0.0
    #: Whether votes are repeated, contradicted, undone and recast, and answers lost.
    unruly: bool = True
    offered: set[str] = field(default_factory=set)
    told: list[Told] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)

    def __enter__(self) -> Self:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._all()), name="crowd")
        self._failure: BaseException | None = None
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    @property
    def votes(self) -> list[Told]:
        return [one for one in self.told if one.act == "vote"]

    def so_far(self) -> Heard:
        """What is known by now; more comes while one looks."""
        return Heard(frozenset(tuple(self.offered)), tuple(self.told), tuple(self.refused))

    def next_vote(self, after: float, seconds: float) -> float:
        """The moment at which the first vote was acknowledged after a moment."""
        began = time.monotonic()
        seen = 0
        while time.monotonic() - began < seconds:
            known = self.told[seen:]
            seen += len(known)
            for one in known:
                if one.act == "vote" and one.moment > after:
                    return one.moment
            assert self._thread.is_alive(), "the voters are gone"
            time.sleep(0.01)
        raise AssertionError(f"no vote was acknowledged within {seconds} s: {self.answers}")

    async def _all(self) -> None:
        jar = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        limits = httpx2.Limits(max_connections=None)
        try:
            async with httpx2.AsyncClient(cookies=jar, timeout=_PATIENCE, limits=limits) as http:
                await asyncio.gather(*(self._voter(http, number) for number in range(self.voters)))
        except BaseException as failure:
            self._failure = failure

    async def _voter(self, http: httpx2.AsyncClient, number: int) -> None:
        rng = random.Random(f"{self.seed} {number}")
        voter = _Voter(self, http, rng)
        while not self._stopping.is_set():
            await voter.act()
            if self.pause:
                await asyncio.sleep(self.pause * rng.uniform(0.5, 1.5))


@dataclass
class _Voter:
    crowd: Crowd
    http: httpx2.AsyncClient
    rng: random.Random
    cookie: str | None = None

    async def act(self) -> None:
        """One matchup, and what becomes of it."""
        ahead = self.crowd.unruly and self.rng.random() < 0.1
        status, answer = await self._insist(f"/api/v1/arenas/{self.crowd.arena}/matchups", {"ahead": ahead})
        if status not in {200, 201}:
            await asyncio.sleep(0.05)
            return
        matchup = answer["matchup"]
        self.crowd.offered.add(matchup)
        unruly = self.crowd.unruly
        if ahead and self.rng.random() < 0.5:
            await self._insist(f"/api/v1/matchups/{matchup}/show", {})
        drawn = self.rng.random()
        if unruly and drawn < 0.03:
            self.cookie = None
        elif unruly and drawn < 0.10:
            await self._end(matchup, "skip")
        else:
            await self._vote(matchup, answer["ballot"])

    async def _vote(self, matchup: str, ballot: int) -> None:
        winner = self.rng.choice(WINNERS)
        final = self.rng.random() < 0.5
        copies = self.rng.choices((1, 2, 3), (0.7, 0.2, 0.1))[0] if self.crowd.unruly else 1
        other = self.rng.choice(WINNERS) if self.rng.random() < 0.1 else winner
        said = [winner] * (copies - 1) + [other if copies > 1 else winner]
        self.rng.shuffle(said)
        await asyncio.gather(
            *(self._end(matchup, "vote", one, final, ballot=ballot, delay=copies > 1) for one in said)
        )
        if self.crowd.unruly and not final and self.rng.random() < 0.2:
            await self._regret(matchup, ballot)

    async def _regret(self, matchup: str, ballot: int) -> None:
        """Look at the names, or undo the vote: then the same matchup is asked for next, if nothing older is sent."""
        if self.rng.random() < 0.5:
            await self._end(matchup, "reveal")
            return
        copies = self.rng.choice((1, 1, 2))
        await asyncio.gather(
            *(self._end(matchup, "undo", ballot=ballot, delay=copies > 1) for _ in range(copies))
        )
        if self.rng.random() < 0.5:
            await self._end(matchup, "vote", self.rng.choice(WINNERS), ballot=ballot)
        if self.rng.random() < 0.5:
            await self._end(matchup, "undo", ballot=ballot)

    async def _end(
        self,
        matchup: str,
        act: str,
        winner: str | None = None,
        final: bool = False,
        *,
        ballot: int = 0,
        delay: bool = False,
    ) -> None:
        if delay:
            await asyncio.sleep(self.rng.uniform(0, 0.03))
        body: dict[str, Any] | None = {"ballot": ballot} if act in {"vote", "undo"} else None
        if body is not None and winner is not None:
            body |= {"winner": winner, "reveal": final}
        status, answer = await self._insist(f"/api/v1/matchups/{matchup}/{act}", body)
        if status == 200:
            told = Told(matchup, act, winner, answer["position"], time.monotonic(), answer.get("ballot", 0))
            self.crowd.told.append(told)
        elif status:
            detail = str(answer.get("detail"))
            self.crowd.refused.append(Refused(matchup, act, winner, status, detail, ballot))

    async def _insist(self, path: str, body: dict[str, Any] | None) -> tuple[int, dict[str, Any]]:
        """Ask until there is an answer, now here, now there; 0 when the voters are sent home."""
        while not self.crowd._stopping.is_set():
            loses = self.crowd.unruly and self.rng.random() < 0.03
            try:
                sending = self._send(path, body)
                answer = await (asyncio.wait_for(sending, self.rng.uniform(0, 0.02)) if loses else sending)
            except TimeoutError:
                self.crowd.answers["lost"] += 1
                continue
            except httpx2.TransportError as error:
                self.crowd.answers[type(error).__name__] += 1
                await asyncio.sleep(0.02)
                continue
            self.crowd.answers[str(answer.status_code)] += 1
            if answer.status_code in _FINAL:
                return answer.status_code, answer.json()
            await asyncio.sleep(0.05)
        return 0, {}

    async def _send(self, path: str, body: dict[str, Any] | None) -> httpx2.Response:
        headers = {} if self.cookie is None else {"cookie": self.cookie}
        address = self.rng.choice(self.crowd.addresses)
        answer = await self.http.post(f"{address}{path}", json=body, headers=headers)
        given = answer.headers.get("set-cookie")
        if given is not None and self.cookie is None:
            self.cookie = given.partition(";")[0]
        return answer
