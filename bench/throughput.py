"""Calls per second of a judging worker: `python bench/throughput.py --out RESULTS.md`.

A server on loopback answers after 50 ms; 256 calls may be under way at once, so 5,120 a second would
be ideal. In turn, on one core each: aiohttp and httpx2 alone, our client, the providers' SDKs (typed calls, nothing kept;
where they are installed: `uv run --with openai --with anthropic python bench/throughput.py`), and a worker with
ledger, budget and engine. The server has the other core.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tests")]

from support.arranged import arrange  # noqa: E402
from support.servers.paid_llm import PaidLLM, paid_llm  # noqa: E402

Call = Callable[[dict], Awaitable[object]]
CONCURRENCY, LATENCY = 256, 0.05
IDEAL = CONCURRENCY / LATENCY


def on_core(core: int) -> None:
    """Stay on one core, where the machine has several."""
    if hasattr(os, "sched_setaffinity") and len(os.sched_getaffinity(0)) > 1:
        os.sched_setaffinity(0, {core})


@asynccontextmanager
async def aiohttp_alone(server: PaidLLM) -> AsyncIterator[Call]:
    """The HTTP library, and nothing around it but JSON."""
    import aiohttp

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def call(body: dict) -> object:
            sent = json.dumps(body).encode()
            headers = {"Content-Type": "application/json", "Authorization": "Bearer none"}
            async with session.post(
                f"{server.openai}/chat/completions", data=sent, headers=headers
            ) as response:
                return json.loads(await response.read())

        yield call


@asynccontextmanager
async def httpx2_alone(server: PaidLLM) -> AsyncIterator[Call]:
    """The HTTP library of the SDKs."""
    import httpx2

    limits = httpx2.Limits(max_connections=1000, max_keepalive_connections=1000)
    async with httpx2.AsyncClient(limits=limits, timeout=60) as client:

        async def call(body: dict) -> object:
            sent = json.dumps(body).encode()
            headers = {"Content-Type": "application/json", "Authorization": "Bearer none"}
            response = await client.post(f"{server.openai}/chat/completions", content=sent, headers=headers)
            return json.loads(response.content)

        yield call


@asynccontextmanager
async def our_client(server: PaidLLM) -> AsyncIterator[Call]:
    from tiltyard.judges.providers.local_replies import open_provider

    provider = open_provider("openai", server.openai, "none")
    yield provider.complete
    await provider.aclose()


@asynccontextmanager
async def openai_sdk(server: PaidLLM) -> AsyncIterator[Call]:
    from openai import AsyncOpenAI

    async with AsyncOpenAI(base_url=server.openai, api_key="none", max_retries=0) as client:
        yield lambda body: client.chat.completions.create(**body)


@asynccontextmanager
async def anthropic_sdk(server: PaidLLM) -> AsyncIterator[Call]:
    from anthropic import AsyncAnthropic

    async with AsyncAnthropic(base_url=server.anthropic, api_key="none", max_retries=0) as client:

        def call(body: dict) -> Awaitable[object]:
            system, user = body["messages"]
            return client.messages.create(
                model=body["model"],
                max_tokens=body["max_tokens"],
                system=system["content"],
                messages=[user],
            )

        yield call


CLIENTS: dict[str, tuple[str, Callable[[PaidLLM], AbstractAsyncContextManager[Call]]]] = {
    "aiohttp": ("aiohttp alone", aiohttp_alone),
    "httpx2": ("httpx2 alone", httpx2_alone),
    "client": ("our client", our_client),
    "openai": ("the SDK of OpenAI, typed calls", openai_sdk),
    "anthropic": ("the SDK of Anthropic, typed calls", anthropic_sdk),
}


async def calling(client: str, server: PaidLLM, bodies: list[dict]) -> tuple[float, float]:
    """Calls a second and CPU milliseconds a call, once connections are open."""
    waiting = iter(bodies)

    async with CLIENTS[client][1](server) as call:

        async def caller() -> None:
            for body in waiting:
                await call(body)

        await asyncio.gather(*(call(body) for body in bodies[:CONCURRENCY]))
        start, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(caller() for _ in range(CONCURRENCY)))
        return len(bodies) / (time.perf_counter() - start), 1000 * (time.process_time() - cpu) / len(bodies)


def worker(folder: Path) -> float:
    """A whole worker: from the first attempt's start to the last one's end, by its own ledger."""
    from contextlib import closing

    from tiltyard.judges.judging_run import run_judging
    from tiltyard.judges.ledger import Ledger
    from tiltyard.tournaments.tournament_run import RunRequest, prepare_run

    os.environ["TILTYARD_HOME"] = tempfile.mkdtemp(dir=folder)
    prepared = prepare_run(RunRequest(config_path=folder / "tournament.yaml", mode="pilot"))
    run = f"bench-{time.monotonic_ns()}"
    with closing(Ledger(prepared.databases.ledger)) as ledger:
        ledger.open_run(run, prepared.plan.sha256, prepared.cap)
        run_judging(prepared.plan, run, prepared.databases, shard_size=prepared.config.shard_size)
        attempts = list(ledger.attempts(run))
    assert all(one.state == "ok" for one in attempts)
    span = max(one.finished_at or 0.0 for one in attempts) - min(one.started_at for one in attempts)
    return len(attempts) / span


def bodies_of(folder: Path) -> list[dict]:
    from tiltyard.tournaments.tournament_run import RunRequest, prepare_run

    os.environ["TILTYARD_HOME"] = str(folder / "planned")
    plan = prepare_run(RunRequest(config_path=folder / "tournament.yaml", mode="pilot")).plan
    return [plan.request(question).body for question in plan.questions()]


def measured(folder: Path, which: str, before: Path | None) -> tuple[float, float]:
    """Calls a second and CPU milliseconds a call, in a process of its own on one core."""
    what, _, earlier = which.partition("@")
    script = Path(__file__).resolve() if not earlier or before is None else before / "bench" / "throughput.py"
    command = [sys.executable, str(script), "--measure", what, "--folder", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(script.parents[1] / "src")}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    rate, cpu = json.loads(done.stdout.splitlines()[-1])
    return rate, cpu


def measure(which: str, folder: Path) -> None:
    on_core(0)
    if which in CLIENTS:
        server = PaidLLM(json.loads((folder / "server.json").read_text()))
        print(json.dumps(asyncio.run(calling(which, server, bodies_of(folder)))))
        return
    before = time.process_time()
    rate = worker(folder)
    print(json.dumps([rate, 1000 * (time.process_time() - before) / count(folder)]))


def count(folder: Path) -> int:
    return int(json.loads((folder / "count.json").read_text()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--prompts", type=int, default=500, help="6 questions each")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--before", type=Path, help="a checkout of an earlier version, measured in turn")
    parser.add_argument("--measure", choices=(*CLIENTS, "worker"))
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure, options.folder)
        return
    with tempfile.TemporaryDirectory() as name:
        lines = compare(Path(name), options.prompts, options.repeats, options.before)
    text = "\n".join(lines) + "\n"
    print(text)
    if options.out:
        options.out.write_text(text)


def compare(folder: Path, prompts: int, repeats: int, before: Path | None) -> list[str]:
    on_core(1)
    with paid_llm(latency=LATENCY) as server:
        on_core(0)
        judge = {"provider": "openai", "base_url": server.openai, "concurrency": CONCURRENCY}
        arrange(
            folder, models=3, prompts=prompts, dimensions=1, judge=judge, modes={"pilot": {"prompts": "all"}}
        )
        (folder / "server.json").write_text(json.dumps(server.url))
        (folder / "count.json").write_text(str(6 * prompts))
        known = [which for which in CLIENTS if which == "client" or find_spec(which) is not None]
        earlier = [] if before is None else ["client@before", "worker@before"]
        rates: dict[str, list[tuple[float, float]]] = {which: [] for which in (*known, "worker", *earlier)}
        for _ in range(repeats):
            for which, found in rates.items():
                found.append(measured(folder, which, before))
    return report(rates, 6 * prompts, repeats)


def report(rates: dict[str, list[tuple[float, float]]], calls: int, repeats: int) -> list[str]:
    head = (
        f"{datetime.now(UTC):%Y-%m-%d}, by `python bench/throughput.py`: {calls:,} calls, {CONCURRENCY} at once, {1000 * LATENCY:g} ms each, "
        f"one core, {repeats} repeats in turn; medians, and for CPU the range."
    )
    return [
        "# Throughput, measured",
        "",
        head,
        "",
        "| | calls a second | of the ideal | CPU ms a call | range |",
        "|---|---:|---:|---:|---:|",
        f"| ideal: concurrency ÷ latency | {IDEAL:,.0f} | 100 % | | |",
        *(row(which, found) for which, found in rates.items()),
        "",
        f"Installed: {', '.join(f'{name} {version(name)}' for name in ('aiohttp', 'httpx2', 'openai', 'anthropic') if find_spec(name))}.",
    ]


def row(which: str, found: list[tuple[float, float]]) -> str:
    what, _, earlier = which.partition("@")
    name = CLIENTS[what][0] if what in CLIENTS else "a worker: ledger, budget, engine"
    name += " (before)" if earlier else ""
    rate = statistics.median(rate for rate, _ in found)
    cpu = [cpu for _, cpu in found]
    return f"| {name} | {rate:,.0f} | {rate / IDEAL:.0%} | {statistics.median(cpu):.2f} | {min(cpu):.2f}–{max(cpu):.2f} |"


if __name__ == "__main__":
    main()
