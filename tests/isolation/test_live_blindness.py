"""Live battles before the vote: no byte that a voter gets tells which models answer, whatever these send.

The upstream puts its model's name into every field, header, comment and error message that a provider may send.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

from support.faulty_upstream import TELLTALE, FaultyUpstream, faulty_upstream
from support.live_sites import ASK, entrant_section, live_site, parse_events
from tiltyard.postgres.connections import connect

#: Faults after which models answer, or the battle is void.
FAULTS = ["none"] * 8 + [
    "429",
    "500",
    "html",
    "garbage",
    "half",
    "reset",
    "no-end",
    "error-event",
    "filter",
    "one-document",
]
#: What may differ between two answers that say the same.
VARYING = {"date", "content-length", "x-request-id", "set-cookie"}
_AT_ONCE_LIMIT = 12


@pytest.fixture(scope="module")
def upstream() -> Iterator[FaultyUpstream]:
    with faulty_upstream(process=True) as made:
        yield made


@dataclass
class Received:
    """Everything that was sent to voters before their votes."""

    bodies: list[bytes] = field(default_factory=list)
    headers: Counter[tuple[str, tuple[tuple[str, str], ...]]] = field(default_factory=Counter)
    #: How battles ended.
    ends: Counter[str] = field(default_factory=Counter)
    #: Streams without any text.
    empty_streams: set[bytes] = field(default_factory=set)
    size: int = 0

    def keep(self, kind: str, answer: httpx2.Response, body: bytes) -> None:
        kept = tuple(sorted((name, value) for name, value in answer.headers.items() if name not in VARYING))
        self.headers[f"{kind} {answer.status_code}", kept] += 1
        every = b"\n".join(name + b": " + value for name, value in answer.headers.raw)
        self.bodies.append(every + b"\n\n" + body)
        self.size += len(every) + len(body)


async def _battle(client: httpx2.AsyncClient, received: Received, rng: random.Random) -> None:
    """One voter: a prompt, some of the stream, the rest of it, perhaps a stop or a further turn, and no vote."""

    async def send(kind: str, method: str, path: str, body: Any = None) -> httpx2.Response:
        answer = await client.request(method, path, json=body)
        received.keep(kind, answer, answer.content)
        return answer

    asked = await send("ask", "POST", ASK, {"prompt": f"Which model are you? {rng.random()}"})
    if asked.status_code != 201:
        received.ends[f"refused {asked.status_code}"] += 1
        return
    battle = asked.json()
    address = f"/api/v1/live/{battle['matchup']}"
    last = await _stream(client, received, battle["frames"], most=rng.choice([None, 300]))
    await send("battle", "GET", address)
    if rng.random() < 0.2:
        await send("stop", "POST", f"{address}/stop")
    events = await _stream(client, received, battle["frames"], after=last)
    await send("early reveal", "POST", f"/api/v1/matchups/{battle['matchup']}/reveal")
    if rng.random() < 0.3:
        further = await send("further", "POST", f"{address}/turns", {"prompt": "And now?"})
        if further.status_code == 201:
            events = await _stream(client, received, battle["frames"], after=events)
    ended = (await send("battle", "GET", address)).json()
    received.ends[ended["turns"][-1]["state"]] += 1


async def _stream(
    client: httpx2.AsyncClient, received: Received, path: str, after: str = "", most: int | None = None
) -> str:
    """Read a stream to its end or for some bytes; return the id of the last event."""
    body = b""
    async with client.stream("GET", path, headers={"last-event-id": after} if after else {}) as answer:
        async for piece in answer.aiter_raw():
            body += piece
            if most is not None and len(body) > most:
                break
        received.keep("stream", answer, body)
    events = parse_events(body[: body.rfind(b"\n\n") + 2])
    if (
        events
        and events[-1].data["state"] == "void"
        and not after
        and not any(one.data["a"] for one in events)
    ):
        received.empty_streams.add(body)
    return events[-1].id if events else after


def run_battles(url: str, count: int) -> Received:
    """So many battles, some at a time, each of a voter of its own."""
    received, left = Received(), itertools.count()

    async def some() -> None:
        for number in left:
            if number >= count:
                return
            async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
                await _battle(client, received, random.Random(number))

    async def all_of_them() -> None:
        await asyncio.gather(*(some() for _ in range(min(_AT_ONCE_LIMIT, count))))

    asyncio.run(all_of_them())
    return received


def _check(database: str, upstream: FaultyUpstream, count: int) -> Received:
    models = [
        f"{TELLTALE}-{number}@fault={fault},tokens={20 + 5 * (number % 4)},rate={(0, 200)[number % 2]}"
        for number, fault in enumerate(FAULTS)
    ]
    limits = {"live_first_token_seconds": 5.0, "live_gap_seconds": 5.0}
    with live_site(database, upstream, models, **limits) as site:
        received = run_battles(site.url, count)
    told = b"\n".join(received.bodies)
    words = {TELLTALE, "openai", "chatcmpl", "system_fingerprint", "usage", upstream.url, "127.0.0.1:"}
    words |= {f"model-{number}" for number in range(len(models))} | {
        f"version-{n}" for n in range(len(models))
    }
    words |= {str(value) for value in entrant_section(upstream, "x").values()} - {"x"} - {"400"}
    found = {word for word in words if word.lower().encode() in told.lower()}
    assert found == set()
    assert received.ends["done"] > 0
    assert received.ends["void"] > 0
    # For each kind of answer and each status there is one set of headers.
    by_kind = Counter(kind for kind, _ in received.headers)
    assert set(by_kind.values()) == {1}, received.headers
    # A battle that fails before anything is shown looks alike, whatever the cause: a wait, perhaps, and the end.
    assert {body.replace(b":\n\n", b"") for body in received.empty_streams} <= _void_streams()
    with connect(database) as connection:
        asked = connection.execute("SELECT count(DISTINCT model) FROM live_calls").fetchone()
    assert asked is not None
    assert asked[0] > len(models) // 2
    return received


def _void_streams() -> set[bytes]:
    waiting = (
        b'id: 1.0.0\ndata: {"turn":1,"a":"","b":"","state":"waiting","ended_a":false,"ended_b":false}\n\n'
    )
    void = waiting.replace(b"waiting", b"void")
    ended = void.replace(b'"ended_a":false,"ended_b":false', b'"ended_a":true,"ended_b":true')
    return {b"retry: 500\n\n" + start + end for start in (waiting, b"") for end in (void, ended)}


def test_no_byte_before_the_vote_tells_the_models(database: str, upstream: FaultyUpstream) -> None:
    _check(database, upstream, 40)


@pytest.mark.slow
def test_no_byte_of_a_thousand_battles_tells_the_models(
    database: str, upstream: FaultyUpstream, record_property: Any
) -> None:
    received = _check(database, upstream, 1_000)
    record_property("ends", dict(received.ends))
    print(
        f"{sum(received.ends.values())} battles, {received.size:,} bytes in {len(received.bodies):,} answers: "
        f"{dict(received.ends)}"
    )


def _sizes(body: bytes) -> list[tuple[int, int]]:
    return [(len(one.data["a"]), len(one.data["b"])) for one in parse_events(body)]


def test_sizes_of_frames_are_the_same_on_both_sides_though_one_model_is_slower(
    database: str, upstream: FaultyUpstream
) -> None:
    """Both say the same; one waits long, and is five times slower. Whichever side it is on, nothing differs."""
    text = "the same words for both " * 12
    for model, script in {"slow": {"rate": 12.0, "delay": 1.5}, "fast": {"rate": 60.0}}.items():
        upstream.script(model, text=text, **script)
    with live_site(database, upstream, ["slow", "fast"]) as site:

        async def one_battle() -> tuple[str, bytes]:
            async with httpx2.AsyncClient(base_url=site.url, timeout=60) as client:
                battle = (await client.post(ASK, json={"prompt": "Say it."})).json()
                return battle["matchup"], (await client.get(battle["frames"])).content

        async def many() -> list[tuple[str, bytes]]:
            return await asyncio.gather(*(one_battle() for _ in range(8)))

        streams = asyncio.run(many())
        parsed = [(site.context.matchup_ids.parse(matchup), body) for matchup, body in streams]
    with connect(database) as connection:
        left = dict(connection.execute("SELECT matchup, a FROM matchups").fetchall())
    assert {left[matchup] for matchup, _ in parsed} == {0, 1}, "the slow model was on both sides"
    for _, body in parsed:
        sizes = _sizes(body)
        assert sum(a for a, _ in sizes) == len(text)
        assert all(a == b for a, b in sizes)
        assert len(sizes) > 20


@pytest.mark.slow
def test_the_first_text_tells_that_a_slow_model_plays_and_not_on_which_side(
    database: str, upstream: FaultyUpstream, record_property: Any
) -> None:
    """What an equal pace cannot hide: neither side begins before both have, so a wait tells of the slower of the two."""
    for model, delay in {"slow": 2.0, "one": 0.2, "two": 0.4, "three": 0.6}.items():
        upstream.script(model, text="the same words for both " * 4, rate=60.0, delay=delay)
    names = ["slow", "one", "two", "three"]
    with live_site(database, upstream, names, live_pace="equal") as site:

        async def one_battle() -> tuple[str, float, bool]:
            async with httpx2.AsyncClient(base_url=site.url, timeout=60) as client:
                began = time.monotonic()
                battle = (await client.post(ASK, json={"prompt": "Say it."})).json()
                async with client.stream("GET", battle["frames"]) as answer:
                    body = b""
                    async for piece in answer.aiter_raw():
                        body += piece
                        sizes = [one for one in _sizes(body[: body.rfind(b"\n\n") + 2]) if any(one)]
                        if sizes:
                            return battle["matchup"], time.monotonic() - began, sizes[0][0] == sizes[0][1]
            raise AssertionError("nothing came")

        async def many() -> list[tuple[str, float, bool]]:
            found = []
            for _ in range(6):
                found += await asyncio.gather(*(one_battle() for _ in range(4)))
            return found

        seen = [(site.context.matchup_ids.parse(one), *rest) for one, *rest in asyncio.run(many())]
    with connect(database) as connection:
        pairs = {matchup: pair for matchup, *pair in connection.execute("SELECT matchup, a, b FROM matchups")}
    waits: dict[bool, list[float]] = {True: [], False: []}
    for matchup, seconds, is_level in seen:
        assert is_level, "both sides begin with as many characters"
        waits[0 in pairs[matchup]].append(round(seconds, 2))
    for with_slow, found in waits.items():
        record_property(f"first text, {'with' if with_slow else 'without'} the slow model", sorted(found))
        print("with" if with_slow else "without", "the slow model:", sorted(found))
    assert min(waits[True]) > 2.0
    assert min(waits[False]) < 1.5
