"""Voters in a closed loop with little CPU time: one process, raw HTTP/1.1, one request at a time per connection.

`python bench/arena_clients.py` reads its instructions as one line of JSON and prints the results as another.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
import uvloop

#: Timeout of the last responses.
_PATIENCE = 60.0
_END = b"\r\n\r\n"
_LENGTH = b"content-length: "
_WINNERS = (
    b'{"winner":"model_a"}',
    b'{"winner":"model_b"}',
    b'{"winner":"tie"}    ',
    b'{"winner":"both_bad"}',
)


@dataclass(frozen=True)
class ClientOrders:
    """The instructions for all connections.

    ``votes``: one line of ``jobs`` is a cookie and a matchup. ``cycle``: a cookie, whose voter asks and
    votes. ``board``: nothing but the board is read, again and again.
    """

    kind: str
    port: int
    arena: str
    jobs: str
    connections: int
    seconds: float
    #: Cycles of one voter before the next takes its place; 0: voters never leave.
    stay: int = 20
    #: Seconds of one report while it goes on; 0: only one at the end.
    every: float = 0.0


@dataclass
class Seen:
    """Requests that were answered, and how long each kind took, in milliseconds."""

    seconds: float = 0.0
    requests: dict[str, int] = field(default_factory=dict)
    p50: dict[str, float] = field(default_factory=dict)
    p99: dict[str, float] = field(default_factory=dict)
    worst: dict[str, float] = field(default_factory=dict)
    #: Unexpected responses, by status.
    refused: dict[str, int] = field(default_factory=dict)
    cpu: float = 0.0


class Tally:
    """The shared results of all connections."""

    def __init__(self) -> None:
        self.taken: dict[str, list[float]] = {}
        self.refused: dict[str, int] = {}
        self.since = time.perf_counter()

    def note(self, kind: str, status: bytes, seconds: float) -> None:
        if status[:1] == b"2":
            self.taken.setdefault(kind, []).append(seconds)
        else:
            key = f"{kind} {status.decode()}"
            self.refused[key] = self.refused.get(key, 0) + 1

    def summed(self) -> Seen:
        """Everything since the last time."""
        now = time.perf_counter()
        seen = Seen(seconds=now - self.since, refused=self.refused, cpu=time.process_time())
        for kind, taken in self.taken.items():
            middle, high, worst = np.percentile(taken, [50, 99, 100]) * 1e3
            seen.requests[kind] = len(taken)
            seen.p50[kind], seen.p99[kind], seen.worst[kind] = middle, high, worst
        self.taken, self.refused, self.since = {}, {}, now
        return seen


#: What a voter does next, given the body of the last answer: a kind and the bytes to send; nothing to stop.
Script = Callable[[bytes], tuple[str, bytes] | None]


class Voter(asyncio.Protocol):
    """One connection."""

    def __init__(self, script: Script, tally: Tally, done: asyncio.Future[None]) -> None:
        self._script = script
        self._tally = tally
        self._done = done
        self._kind = ""
        self._sent = 0.0
        self._got = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._go_on(b"")

    def data_received(self, data: bytes) -> None:
        got = self._got + data if self._got else data
        head = got.find(_END)
        if head >= 0:
            at = got.find(_LENGTH, 0, head) + len(_LENGTH)
            whole = head + 4 + int(got[at : got.find(b"\r", at)])
            if len(got) >= whole:
                self._got = b""
                self._tally.note(self._kind, got[9:12], time.perf_counter() - self._sent)
                self._go_on(got[head + 4 : whole] if got[9:10] == b"2" else b"")
                return
        self._got = got

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(exc or ConnectionError("the server hung up"))

    def _go_on(self, body: bytes) -> None:
        assert self._transport is not None
        doing = self._script(body)
        if doing is None:
            if not self._done.done():
                self._done.set_result(None)
            self._transport.close()
            return
        self._kind, request = doing
        self._sent = time.perf_counter()
        self._transport.write(request)


def vote_request(host: bytes, cookie: bytes, matchup: bytes, number: int) -> bytes:
    """A vote; every fourth is of another kind."""
    body = _WINNERS[number % 4]
    return (
        b"POST /api/v1/matchups/%b/vote HTTP/1.1\r\nHost: %b\r\nCookie: tiltyard_session=%b\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
        % (matchup, host, cookie, len(body), body)
    )


def ask_request(host: bytes, cookie: bytes, arena: bytes) -> bytes:
    """The request for the next matchup."""
    return (
        b"POST /api/v1/arenas/%b/matchups HTTP/1.1\r\nHost: %b\r\nCookie: tiltyard_session=%b\r\n"
        b"Content-Length: 0\r\n\r\n" % (arena, host, cookie)
    )


def votes(host: bytes, jobs: Iterator[bytes], ends: float) -> Script:
    """Vote on one served matchup after another."""

    def script(_: bytes) -> tuple[str, bytes] | None:
        job = next(jobs, None)
        if job is None or time.perf_counter() > ends:
            return None
        cookie, _, matchup = job.partition(b" ")
        return "vote", vote_request(host, cookie, matchup, matchup[0])

    return script


def cycle(orders: ClientOrders, host: bytes, jobs: Iterator[bytes], ends: float) -> Script:
    """Request a matchup and vote on it, repeatedly; after some cycles as another voter."""
    cookie, rounds, asked = next(jobs), 0, False
    marker = b'"matchup":"'

    def script(body: bytes) -> tuple[str, bytes] | None:
        nonlocal cookie, rounds, asked
        if asked and body:
            at = body.index(marker) + len(marker)
            asked = False
            return "vote", vote_request(host, cookie, body[at : body.index(b'"', at)], rounds)
        if time.perf_counter() > ends:
            return None
        rounds += 1
        if orders.stay and rounds % orders.stay == 0:
            cookie = next(jobs, cookie)
        asked = True
        return "matchup", ask_request(host, cookie, orders.arena.encode())

    return script


def board(orders: ClientOrders, host: bytes, ends: float) -> Script:
    """Read the board."""
    request = b"GET /api/v1/arenas/%b/board HTTP/1.1\r\nHost: %b\r\n\r\n" % (orders.arena.encode(), host)
    return lambda _: ("board", request) if time.perf_counter() < ends else None


def script_of(orders: ClientOrders, host: bytes, jobs: Iterator[bytes], ends: float) -> Script:
    """What one connection does."""
    if orders.kind == "board":
        return board(orders, host, ends)
    return votes(host, jobs, ends) if orders.kind == "votes" else cycle(orders, host, jobs, ends)


async def run(orders: ClientOrders, jobs: Iterator[bytes]) -> None:
    """Run all connections until the time is over."""
    loop = asyncio.get_running_loop()
    host = f"127.0.0.1:{orders.port}".encode()
    tally, ends = Tally(), time.perf_counter() + orders.seconds
    done = []
    for _ in range(orders.connections):
        script = script_of(orders, host, jobs, ends)
        done.append(loop.create_future())
        answered = done[-1]
        await loop.create_connection(
            lambda script=script, answered=answered: Voter(script, tally, answered),  # type: ignore[misc]
            "127.0.0.1",
            orders.port,
        )
    everybody = asyncio.gather(*done)
    while orders.every and time.perf_counter() + orders.every < ends:
        await asyncio.wait([everybody], timeout=orders.every)
        print(json.dumps(asdict(tally.summed())), flush=True)
    await asyncio.wait_for(everybody, ends - time.perf_counter() + _PATIENCE)
    print(json.dumps(asdict(tally.summed())), flush=True)


if __name__ == "__main__":
    stated = ClientOrders(**json.loads(sys.stdin.readline()))
    uvloop.run(run(stated, iter(Path(stated.jobs).read_bytes().splitlines())))
