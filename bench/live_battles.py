"""Load of live battles on one machine: `PYTHONPATH=tests python bench/live_battles.py --battles 60 200`.

So many battles at the same time, each with two streams of 30 tokens a second from a scripted upstream, through real web
processes, PostgreSQL and HTTP on loopback. Every token is the time at which the upstream wrote it, so that a reader knows
how late it is. With two processes each stream is a new connection, so that half of them are read from the process that
does not run them. Beside it, in the same run: a bare relay of aiohttp, which passes the bytes of both streams on and does
nothing else. Clients, upstream, server and PostgreSQL share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from psycopg.types.json import Jsonb

from arena_servers import database, serving
from arena_usage import Usage, family, memory_of
from support.faulty_upstream import faulty_upstream
from support.live_arenas import make_arena
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings

#: Characters of a token: the time in microseconds, and a space.
_TOKEN_CHARACTERS = 17
_MODELS = 4


@dataclass
class LiveLoad:
    """What was measured with so many battles at once."""

    kind: str
    battles: int
    tokens: int
    seconds: float
    #: Milliseconds from the upstream's write to the arrival of the frame, of what was written since its reader came.
    delay_p50: float
    delay_p99: float
    #: CPU of the server and of PostgreSQL for 1,000 tokens, in milliseconds.
    cpu_ms: float
    database_cpu_ms: float
    #: What PostgreSQL wrote ahead for one battle of two streams.
    wal_kib: float
    memory_mib: float
    frames_per_battle_second: float
    failed: int
    load_average: float


def measure(counts: list[int], tokens: int, rate: float) -> None:
    """All measurements, one after the other."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        # PostgreSQL runs as another user than root.
        Path(folder).chmod(0o755)
        _measure_all(Path(folder) / "home", counts, tokens, rate)


def _measure_all(home: Path, counts: list[int], tokens: int, rate: float) -> None:
    with faulty_upstream(process=True) as upstream, database(home) as house:
        names = [f"m{number}@tokens={tokens},rate={rate},stamped=True" for number in range(_MODELS)]
        for name in names:
            upstream.script(name, tokens=tokens, rate=rate, stamped=True)
        asyncio.run(_make_live_arena(house.url, upstream.base_url, names))
        for web in (1, 2):
            with serving(house, web=web, rater=False):
                asyncio.run(_ours(house.port, 4))
                for count in counts:
                    kind = f"{web} web process{'es' * (web > 1)}"
                    _measure(kind, count, house, house.web, _ours(house.port, count))
        with _relay(upstream.base_url) as (relay, port):
            asyncio.run(_bare(port, names, 4))
            for count in counts:
                _measure("bare relay", count, house, [relay], _bare(port, names, count))


async def _make_live_arena(url: str, base_url: str, names: list[str]) -> None:
    settings = ArenaSettings(
        kind="live", live_pace="as-it-comes", live_answer_tokens=4_096, live_identity="flag"
    )
    arena = await make_arena(url, len(names), 1, settings=settings)
    with connect(url) as connection:
        for model, name in enumerate(names):
            section = {
                "name": name,
                "provider": "openai",
                "model": name,
                "base_url": base_url,
                "max_tokens": 4_096,
                "price": {"input": 0, "output": 0},
            }
            connection.execute(
                "INSERT INTO live_entrants (arena, model, name, version, config) VALUES (%s, %s, %s, %s, %s)",
                (arena.arena, model, f"model-{model}", str(model), Jsonb(section)),
            )


def _measure(kind, count, house, pids, run) -> None:
    groups = {"server": pids, "database": family(house.postmaster)}
    before, written, began = Usage.of(groups), _written(house), time.monotonic()
    delays, frames, tokens, failed = asyncio.run(run)
    seconds = time.monotonic() - began
    spent = (Usage.of(groups) - before).cpu
    late = np.array(delays) / 1_000
    found = LiveLoad(
        kind=kind,
        battles=count,
        tokens=tokens,
        seconds=round(seconds, 1),
        delay_p50=round(float(np.percentile(late, 50)), 1),
        delay_p99=round(float(np.percentile(late, 99)), 1),
        cpu_ms=round(1_000 * 1_000 * spent["server"] / tokens, 1),
        database_cpu_ms=round(1_000 * 1_000 * spent["database"] / tokens, 1),
        wal_kib=round((_written(house) - written) / 1024 / count, 1),
        memory_mib=round(memory_of(pids), 1),
        frames_per_battle_second=round(frames / count / seconds, 1),
        failed=failed,
        load_average=round(os.getloadavg()[0], 1),
    )
    print(json.dumps(asdict(found)), flush=True)


def _written(house) -> int:
    """Bytes that PostgreSQL has written ahead so far."""
    with connect(house.url) as connection:
        return int(connection.execute("SELECT pg_current_wal_lsn() - '0/0'").fetchone()[0])


async def _ours(port: int, count: int):
    """So many voters, each with a battle that is read to its end."""
    results = await asyncio.gather(
        *(_battle(port, number) for number in range(count)), return_exceptions=True
    )
    return _sum(results)


def _sum(results):
    good = [one for one in results if not isinstance(one, BaseException)]
    for one in results:
        if isinstance(one, BaseException):
            print(f"failed: {one!r}", file=sys.stderr)
    late = [late for one in good for late in one[0]]
    return late, sum(one[1] for one in good), sum(one[2] for one in good), len(results) - len(good)


async def _battle(port: int, number: int):
    await asyncio.sleep(number * 0.02)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    body = json.dumps({"prompt": f"Count, please, from {number}."}).encode()
    head, answer = await _request(reader, writer, "POST", "/api/v1/arenas/arena/live", port, body)
    cookie = next(
        line.split(b": ", 1)[1].split(b";")[0] for line in head if line.lower().startswith(b"set-cookie")
    )
    path = json.loads(answer)["frames"]
    writer.close()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    writer.write(
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie.decode()}\r\n\r\n".encode()
    )
    lines = await _head(reader)
    assert b"200" in lines[0], lines[0]
    delays, frames, tokens, left, opened = [], 0, 0, ["", ""], time.monotonic_ns() // 1_000
    while True:
        line = await reader.readline()
        if not line:
            raise ConnectionError("the stream broke off")
        if not line.startswith(b"data: "):
            continue
        now, frame = time.monotonic_ns() // 1_000, json.loads(line[6:])
        frames += 1
        for side, key in enumerate("ab"):
            text = left[side] + frame[key]
            whole = len(text) - len(text) % _TOKEN_CHARACTERS
            written = [int(text[at : at + 16]) for at in range(0, whole, _TOKEN_CHARACTERS)]
            tokens += len(written)
            delays += [now - at for at in written if at >= opened]
            left[side] = text[whole:]
        if frame["state"] not in {"waiting", "streaming"}:
            break
    writer.close()
    assert frame["state"] == "done", frame["state"]
    return delays, frames, tokens


async def _request(reader, writer, method, path, port, body):
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    lines = await _head(reader)
    length = next(int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length"))
    answer = await reader.readexactly(length)
    assert b"201" in lines[0], answer
    return lines, answer


async def _head(reader):
    return (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")


async def _bare(port: int, names: list[str], count: int):
    results = await asyncio.gather(*(_relayed(port, names, n) for n in range(count)), return_exceptions=True)
    return _sum(results)


async def _relayed(port: int, names: list[str], number: int):
    await asyncio.sleep(number * 0.02)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    pair = f"{names[number % _MODELS]}&{names[(number + 1) % _MODELS]}"
    writer.write(f"GET /?{pair} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
    await _head(reader)
    delays, frames = [], 0
    while line := await reader.readline():
        if line.startswith(b"data: {"):
            choices = json.loads(line[6:])["choices"]
            text = choices[0]["delta"].get("content") if choices else None
            if text:
                delays.append(time.monotonic_ns() // 1_000 - int(text))
                frames += 1
    writer.close()
    return delays, frames, frames


@contextmanager
def _relay(base_url: str):
    """The bare relay, in a process of its own."""
    with subprocess.Popen(
        [sys.executable, __file__, "--relay", base_url], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        try:
            yield process.pid, int(process.stdout.readline())
        finally:
            process.kill()


async def _serve_relay(base_url: str) -> None:
    import aiohttp
    from aiohttp import web

    async def relay(request):
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)

        async def one(model):
            body = {"model": model, "messages": [{"role": "user", "content": "Count."}], "stream": True}
            async with session.post(f"{base_url}/chat/completions", json=body) as upstream:
                async for chunk in upstream.content.iter_any():
                    await answer.write(chunk)

        await asyncio.gather(*(one(model) for model in request.query_string.split("&")))
        await answer.write_eof()
        return answer

    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    app = web.Application()
    app.router.add_get("/", relay)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    print(site._server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--battles", type=int, nargs="+", default=[60])
    options.add_argument("--tokens", type=int, default=600)
    options.add_argument("--rate", type=float, default=30.0)
    options.add_argument("--relay")
    given = options.parse_args()
    if given.relay:
        asyncio.run(_serve_relay(given.relay))
        return
    measure(given.battles, given.tokens, given.rate)


if __name__ == "__main__":
    main()
