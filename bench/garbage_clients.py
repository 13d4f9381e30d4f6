"""Clients of `garbage_load.py`: honest voters at the pace of people, or senders of garbage at a stated rate.

`python bench/garbage_clients.py` reads its instructions as one line of JSON and prints the results as another.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import uvloop

from tiltyard.wire.voting import GateChallenge, solve_challenge

#: How long a client waits for an answer before the request counts as lost.
_ANSWER_SECONDS = 30.0
#: Bytes of a header that is allowed, and of one that is not.
_LARGE_HEADER_BYTES, _HUGE_HEADER_BYTES = 50_000, 80_000
_SLOW_BODY_BYTES = 400
#: The kind of garbage whose answers are delayed, and how many of it one connection's sender waits for.
_THROTTLED_KIND = "wrong password"
_WAITING_GUESS_LIMIT = 5


@dataclass(frozen=True)
class CrowdOrders:
    """Instructions for one process of clients."""

    #: ``honest`` or ``garbage``.
    kind: str
    port: int
    arena: str
    seconds: float
    #: Connections that are open at once: as many people, or as many senders.
    connections: int
    #: Requests a second of all senders together.
    rate: float = 0.0
    #: ``many``: garbage comes from thousands of networks. ``one``: from one. ``shared``: from that of the honest voters.
    networks: str = "many"
    #: Cookies of sessions that passed the gate, for those who send garbage.
    cookies: tuple[str, ...] = ()
    #: Matchups of other sessions.
    foreign: tuple[str, ...] = ()
    #: Connections that send a body byte by byte.
    slow: int = 0
    #: Seconds for which people read before they vote: the shortest and the longest.
    reading: tuple[float, float] = (3.0, 7.0)
    #: What of `GARBAGE_KINDS` is sent; all, if none is named.
    only: tuple[str, ...] = ()


@dataclass
class CrowdReport:
    """What clients saw."""

    seconds: float = 0.0
    #: Requests by kind and status: ``vote 200``. Status 0: no answer, or the connection was closed.
    answers: dict[str, int] = field(default_factory=dict)
    #: Milliseconds of every request, by kind.
    taken: dict[str, list[float]] = field(default_factory=dict)
    #: Honest requests that were refused, with what the answer said.
    refused: list[str] = field(default_factory=list)
    cpu: float = 0.0

    def note(self, kind: str, status: int, seconds: float | None = None) -> None:
        key = f"{kind} {status}"
        self.answers[key] = self.answers.get(key, 0) + 1
        if seconds is not None:
            self.taken.setdefault(kind, []).append(round(seconds * 1e3, 2))


class Wire:
    """One connection, which is opened again when the server has closed it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, request: bytes) -> tuple[int, dict[str, list[str]], bytes]:
        """Send a request and read the answer: status, headers, body. Status 0 if there is none."""
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                if self._streams is None:
                    self._streams = await asyncio.open_connection("127.0.0.1", self._port)
                self._streams[1].write(request)
                return await self._read(self._streams[0])
        except (OSError, asyncio.IncompleteReadError, TimeoutError, ValueError):
            self.close()
            return 0, {}, b""

    async def _read(self, reader: asyncio.StreamReader) -> tuple[int, dict[str, list[str]], bytes]:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers: dict[str, list[str]] = {}
        for line in head[1:]:
            name, _, value = line.partition(":")
            headers.setdefault(name.lower(), []).append(value.strip())
        status = int(head[0].split()[1])
        length = int(headers["content-length"][0]) if "content-length" in headers else 0
        body = await reader.readexactly(length) if length else b""
        while "transfer-encoding" in headers:
            size = int(await reader.readuntil(b"\r\n"), 16)
            body += (await reader.readexactly(size + 2))[:size]
            if not size:
                break
        if headers.get("connection") == ["close"]:
            self.close()
        return status, headers, body

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def request(method: str, path: str, *, body: bytes | None = None, **headers: str) -> bytes:
    """The bytes of a request. Names of headers are written with underscores."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items() if value]
    if body is not None or method != "GET":
        lines.append(f"Content-Length: {len(body or b'')}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


def json_request(path: str, value: object, *, method: str = "POST", **headers: str) -> bytes:
    return request(method, path, body=json.dumps(value).encode(), Content_Type="application/json", **headers)


class HonestVoter:
    """A person: passes the gate, reads both responses, votes, and now and then looks at a page."""

    def __init__(self, orders: CrowdOrders, number: int, report: CrowdReport) -> None:
        self._orders = orders
        self._report = report
        self._wire = Wire(orders.port)
        self._rng = random.Random(number)
        self._api = f"/api/v1/arenas/{orders.arena}"
        self._cookie = self._proof = ""
        # Each has a network of its own, unless garbage comes from the same.
        self._address = "198.51.100.7" if orders.networks == "shared" else f"203.0.113.{number % 250}"

    async def prepare(self) -> None:
        """Solve the gate's challenge. Its proof is sent later, with the first request for a matchup."""
        answer = await self._ask("gate", request("GET", f"{self._api}/gate", **self._own()))
        challenge = None if answer is None else json.loads(answer)["challenge"]
        if challenge is not None:
            self._proof = solve_challenge(GateChallenge(**challenge)) or ""

    async def run(self, ends: float) -> None:
        await asyncio.sleep(self._rng.uniform(0, self._orders.reading[1]))
        while time.perf_counter() < ends:
            kind = "first matchup" if self._proof else "matchup"
            asked = await self._ask(kind, json_request(f"{self._api}/matchups", {}, **self._own()))
            if asked is None:
                await asyncio.sleep(1.0)
                continue
            self._proof = ""
            matchup = json.loads(asked)["matchup"]
            await self._ask("response", request("GET", f"/m/{matchup}/a", **self._own()))
            await self._ask("response", request("GET", f"/m/{matchup}/b", **self._own()))
            await asyncio.sleep(self._rng.uniform(*self._orders.reading))
            await self._decide(matchup)
        self._wire.close()

    async def _decide(self, matchup: str) -> None:
        base, drawn = f"/api/v1/matchups/{matchup}", self._rng.random()
        if drawn < 0.05:
            await self._ask("skip", json_request(f"{base}/skip", {}, **self._own()))
            return
        winner = self._rng.choice(("model_a", "model_b", "tie"))
        await self._ask("vote", json_request(f"{base}/vote", {"winner": winner}, **self._own()))
        if drawn < 0.2:
            await self._ask("finish", json_request(f"{self._api}/finish", {}, **self._own()))
        elif drawn < 0.25:
            await self._ask("page", request("GET", f"/arenas/{self._orders.arena}", **self._own()))
        elif drawn < 0.35:
            await self._ask("page", request("GET", f"/arenas/{self._orders.arena}/vote", **self._own()))

    def _own(self) -> dict[str, str]:
        return {"Cookie": self._cookie, "X_Forwarded_For": self._address, "Tiltyard_Proof": self._proof}

    async def _ask(self, kind: str, data: bytes) -> bytes | None:
        start = time.perf_counter()
        status, headers, body = await self._wire.send(data)
        self._report.note(kind, status, time.perf_counter() - start)
        for cookie in headers.get("set-cookie", ()):
            if "tiltyard_session=" in cookie:
                self._cookie = cookie.partition(";")[0]
        if 200 <= status < 400:
            return body
        self._report.refused.append(f"{kind} {status}: {body[:300].decode('utf-8', 'replace')}")
        return None


#: What makes the bytes of one kind of garbage.
Maker = Callable[["Garbage"], bytes]


class Garbage:
    """Draws requests that a service under attack sees."""

    def __init__(self, orders: CrowdOrders, seed: int) -> None:
        self.orders = orders
        self.rng = random.Random(seed)
        self.api = f"/api/v1/arenas/{orders.arena}"
        self._kinds = [(name, GARBAGE_KINDS[name]) for name in orders.only or GARBAGE_KINDS]

    def draw(self) -> tuple[str, bytes]:
        name, make = self.rng.choice(self._kinds)
        return name, make(self)

    @property
    def word(self) -> str:
        return f"{self.rng.getrandbits(64):016x}"

    @property
    def origin(self) -> str:
        """The address that a proxy saw."""
        if self.orders.networks == "many":
            return f"10.{self.rng.randrange(256)}.{self.rng.randrange(256)}.{self.rng.randrange(1, 255)}"
        return "198.51.100.7"

    @property
    def session(self) -> dict[str, str]:
        """A session that passed the gate."""
        cookie = self.rng.choice(self.orders.cookies) if self.orders.cookies else ""
        return {"Cookie": cookie, "X_Forwarded_For": self.origin}

    @property
    def matchup(self) -> str:
        """A matchup of somebody else, or of nobody."""
        if self.orders.foreign and self.rng.random() < 0.7:
            return self.rng.choice(self.orders.foreign)
        return f"0-{self.word}{self.word}"

    def forged(self) -> str:
        return f"tiltyard_session={self.word}.{self.word}; tiltyard_operator={self.word}.{self.word}"


def _act(action: str, value: Any) -> Maker:
    return lambda one: json_request(f"/api/v1/matchups/{one.matchup}/{action}", value, **one.session)


def _anonymous(method: str, path: Callable[[Garbage], str], **headers: str) -> Maker:
    return lambda one: request(method, path(one), X_Forwarded_For=one.origin, **headers)


#: Garbage by kind; each is drawn equally often.
GARBAGE_KINDS: dict[str, Maker] = {
    "forged cookie": lambda one: json_request(
        f"{one.api}/matchups", {}, Cookie=one.forged(), X_Forwarded_For=one.origin
    ),
    "forged token": lambda one: request(
        "GET", "/api/v1/me", Authorization=f"Bearer tyt_{one.word}{one.word}", X_Forwarded_For=one.origin
    ),
    "session without proof": lambda one: json_request(f"{one.api}/matchups", {}, X_Forwarded_For=one.origin),
    "wrong proof": lambda one: json_request(
        f"{one.api}/matchups", {}, Tiltyard_Proof=one.word * 8, X_Forwarded_For=one.origin
    ),
    "proof unavailable": lambda one: json_request(
        f"{one.api}/matchups", {}, Tiltyard_Proof="unavailable", X_Forwarded_For=one.origin
    ),
    "challenge": _anonymous("GET", lambda one: f"{one.api}/gate"),
    "unknown path": _anonymous("GET", lambda one: f"/{one.word}/{one.word}.php", Accept="text/html"),
    "unknown arena": lambda one: json_request(
        f"/api/v1/arenas/{one.word}/matchups", {}, X_Forwarded_For=one.origin
    ),
    "unknown arena's page": _anonymous("GET", lambda one: f"/arenas/{one.word}", Accept="text/html"),
    "board with a query": _anonymous("GET", lambda one: f"/arenas/{one.orders.arena}?q={one.word}"),
    "large headers": lambda one: request(
        "GET", f"{one.api}/board", X_Waste="x" * _LARGE_HEADER_BYTES, X_Forwarded_For=one.origin
    ),
    "huge headers": _anonymous("GET", lambda _: "/", X_Waste="x" * _HUGE_HEADER_BYTES),
    "broken JSON": lambda one: request(
        "POST",
        f"/api/v1/matchups/{one.matchup}/vote",
        body=b'{"winner": ["model_a"' + b"[" * 200,
        Content_Type="application/json",
        **one.session,
    ),
    "broken form": lambda one: request(
        "POST",
        f"/matchups/{one.matchup}/vote",
        body=b"%zz=&winner=%00&&&=" + one.word.encode() * 50,
        Content_Type="application/x-www-form-urlencoded",
        **one.session,
    ),
    "broken multipart": lambda one: request(
        "POST",
        f"/matchups/{one.matchup}/report",
        body=b"--x\r\nContent-Disposition: form-data\r\n\r\n" + one.word.encode() * 20,
        Content_Type="multipart/form-data; boundary=x",
        **one.session,
    ),
    "vote on a foreign matchup": _act("vote", {"winner": "model_a"}),
    "reveal": _act("reveal", {}),
    "skip": _act("skip", {}),
    "report": _act("report", {"reason": "other", "note": "x" * 500}),
    "remark": lambda one: json_request(
        f"/api/v1/matchups/{one.matchup}/remark", {"tags": [], "comment": "x"}, method="PUT", **one.session
    ),
    "response of a foreign matchup": lambda one: request("GET", f"/m/{one.matchup}/a", **one.session),
    "matchup after matchup": lambda one: json_request(f"{one.api}/matchups", {"ahead": True}, **one.session),
    "wrong password": lambda one: request(
        "POST",
        "/operator/sign-in",
        body=f"name=Ada&password={one.word}".encode(),
        Content_Type="application/x-www-form-urlencoded",
        X_Forwarded_For=one.origin,
    ),
    "wrong link": _anonymous("GET", lambda one: f"/claim/{one.word}"),
}


async def send_garbage(orders: CrowdOrders, number: int, report: CrowdReport, ends: float) -> None:
    """Send at this connection's share of the rate. A slow answer delays the next request and adds none."""
    wire, garbage = Wire(orders.port), Garbage(orders, number)
    guesses: set[asyncio.Task[None]] = set()
    pause = orders.connections / orders.rate
    due = time.perf_counter() + garbage.rng.uniform(0, pause)
    while (now := time.perf_counter()) < ends:
        if due > now:
            await asyncio.sleep(due - now)
        kind, data = garbage.draw()
        if kind == _THROTTLED_KIND and len(guesses) < _WAITING_GUESS_LIMIT:
            # The answer takes seconds, on purpose: nobody who guesses waits for it.
            guess = asyncio.create_task(_timed(Wire(orders.port), kind, data, report))
            guesses.add(guess)
            guess.add_done_callback(guesses.discard)
        else:
            await _timed(wire, kind, data, report)
        due = max(due + pause, time.perf_counter() - pause)
    wire.close()
    for guess in guesses:
        guess.cancel()


async def _timed(wire: Wire, kind: str, data: bytes, report: CrowdReport) -> None:
    start = time.perf_counter()
    status, _, _ = await wire.send(data)
    report.note(kind, status, time.perf_counter() - start)
    if kind == _THROTTLED_KIND:
        wire.close()


async def send_slowly(orders: CrowdOrders, report: CrowdReport, ends: float) -> None:
    """Begin a request with a body, and send a byte a second."""
    head = json_request(f"/api/v1/arenas/{orders.arena}/matchups", {"x": "y" * _SLOW_BODY_BYTES})
    while time.perf_counter() < ends:
        writer = None
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", orders.port)
            writer.write(head[:-_SLOW_BODY_BYTES])
            while time.perf_counter() < ends and not reader.at_eof() and not writer.is_closing():
                writer.write(b"y")
                await asyncio.sleep(1.0)
            report.note("slow body", 0)
        except OSError:
            report.note("slow body", 0)
        finally:
            if writer is not None:
                writer.close()


async def run(orders: CrowdOrders) -> CrowdReport:
    """Run all clients until the time is over."""
    report = CrowdReport()
    voters = [HonestVoter(orders, number, report) for number in range(orders.connections)]
    if orders.kind == "honest":
        for voter in voters:
            await voter.prepare()
        print("ready", flush=True)
    start = time.perf_counter()
    ends = start + orders.seconds
    if orders.kind == "honest":
        crowd = [voter.run(ends) for voter in voters]
    else:
        crowd = [send_garbage(orders, number, report, ends) for number in range(orders.connections)]
        crowd += [send_slowly(orders, report, ends) for _ in range(orders.slow)]
    await asyncio.gather(*crowd)
    report.seconds, report.cpu = time.perf_counter() - start, time.process_time()
    return report


if __name__ == "__main__":
    stated = json.loads(sys.stdin.readline())
    lists = {name: tuple(stated[name]) for name in ("cookies", "foreign", "reading", "only")}
    print(json.dumps(asdict(uvloop.run(run(CrowdOrders(**{**stated, **lists}))))))
