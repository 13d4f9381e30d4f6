"""Calls per second of a judging worker: `python bench/throughput.py --out RESULTS.md`.

A server on loopback answers after 50 ms; 256 calls may be under way at once, so 5,120 a second would
be ideal. In turn, on one core each: the provider's SDK alone (typed calls, nothing kept), and a worker
with ledger, budget and engine. The server has the other core.
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
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tests")]

from servers.paid_llm import paid_llm  # noqa: E402
from tournament.arranged import arrange  # noqa: E402

CONCURRENCY, LATENCY = 256, 0.05
IDEAL = CONCURRENCY / LATENCY


def on_core(core: int) -> None:
    """Stay on one core, where the machine has several."""
    if hasattr(os, "sched_setaffinity") and len(os.sched_getaffinity(0)) > 1:
        os.sched_setaffinity(0, {core})


async def bare(url: str, bodies: list[dict]) -> float:
    """The SDK alone: typed calls, as its documentation shows them; calls a second."""
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
    waiting = iter(bodies)

    async def caller() -> None:
        for body in waiting:
            await client.chat.completions.create(**body)

    await client.chat.completions.create(**bodies[0])
    start = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(CONCURRENCY)))
    taken = time.perf_counter() - start
    await client.close()
    return len(bodies) / taken


def worker(folder: Path) -> float:
    """A whole worker: from the first attempt's start to the last one's end, by its own ledger."""
    from contextlib import closing

    from tiltyard.judges.judging_run import run_judging
    from tiltyard.judges.ledger import Ledger
    from tiltyard.tournament.tournament_run import prepare_run

    os.environ["TILTYARD_HOME"] = tempfile.mkdtemp(dir=folder)
    prepared = prepare_run(folder / "tournament.yaml", "pilot")
    run = f"bench-{time.monotonic_ns()}"
    with closing(Ledger(prepared.databases.ledger)) as ledger:
        ledger.open_run(run, prepared.plan.sha256, prepared.cap)
        run_judging(prepared.plan, run, prepared.databases, shard_size=prepared.config.shard_size)
        attempts = list(ledger.attempts(run))
    assert all(one.state == "ok" for one in attempts)
    span = max(one.finished_at or 0.0 for one in attempts) - min(one.started_at for one in attempts)
    return len(attempts) / span


def bodies_of(folder: Path) -> list[dict]:
    from tiltyard.tournament.tournament_run import prepare_run

    os.environ["TILTYARD_HOME"] = str(folder / "planned")
    plan = prepare_run(folder / "tournament.yaml", "pilot").plan
    return [plan.request(question).body for question in plan.questions()]


def measured(folder: Path, which: str) -> tuple[float, float]:
    """Calls a second and CPU milliseconds a call, in a process of its own on one core."""
    command = [sys.executable, str(Path(__file__).resolve()), "--measure", which, "--folder", str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    rate, cpu = json.loads(done.stdout.splitlines()[-1])
    return rate, cpu


def measure(which: str, folder: Path) -> None:
    on_core(0)
    if which == "bare":
        bodies = bodies_of(folder)
        url = json.loads((folder / "server.json").read_text())
        before = time.process_time()
        rate = asyncio.run(bare(url, bodies))
    else:
        before = time.process_time()
        rate = worker(folder)
    cpu = (
        1000.0
        * (time.process_time() - before)
        / len(bodies_of(folder) if which == "bare" else range(count(folder)))
    )
    print(json.dumps([rate, cpu]))


def count(folder: Path) -> int:
    return int(json.loads((folder / "count.json").read_text()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--prompts", type=int, default=500, help="6 questions each")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--measure", choices=("bare", "worker"))
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure, options.folder)
        return
    with tempfile.TemporaryDirectory() as name:
        lines = compare(Path(name), options.prompts, options.repeats)
    text = "\n".join(lines) + "\n"
    print(text)
    if options.out:
        options.out.write_text(text)


def compare(folder: Path, prompts: int, repeats: int) -> list[str]:
    on_core(1)
    with paid_llm(latency=LATENCY) as server:
        on_core(0)
        judge = {"provider": "openai", "base_url": server.openai, "concurrency": CONCURRENCY}
        arrange(
            folder, models=3, prompts=prompts, dimensions=1, judge=judge, modes={"pilot": {"prompts": "all"}}
        )
        (folder / "server.json").write_text(json.dumps(server.openai))
        (folder / "count.json").write_text(str(6 * prompts))
        rates: dict[str, list[tuple[float, float]]] = {"bare": [], "worker": []}
        for _ in range(repeats):
            for which, found in rates.items():
                found.append(measured(folder, which))
    return report(rates, 6 * prompts, repeats)


def report(rates: dict[str, list[tuple[float, float]]], calls: int, repeats: int) -> list[str]:
    median = {which: statistics.median(rate for rate, _ in found) for which, found in rates.items()}
    cpu = {which: statistics.median(each for _, each in found) for which, found in rates.items()}
    ratios = [ours / bare for (ours, _), (bare, _) in zip(rates["worker"], rates["bare"], strict=True)]
    head = (
        f"{datetime.now(UTC):%Y-%m-%d}, by `python bench/throughput.py`: {calls:,} calls, {CONCURRENCY} at once, {1000 * LATENCY:g} ms each, "
        f"one core, {repeats} repeats in turn; medians."
    )
    return [
        "# Throughput, measured",
        "",
        head,
        "",
        "| | calls a second | of the ideal | CPU ms a call |",
        "|---|---:|---:|---:|",
        f"| ideal: concurrency ÷ latency | {IDEAL:,.0f} | 100 % | |",
        f"| the SDK alone, typed calls | {median['bare']:,.0f} | {median['bare'] / IDEAL:.0%} | {cpu['bare']:.2f} |",
        f"| a worker: ledger, budget, engine | {median['worker']:,.0f} | {median['worker'] / IDEAL:.0%} | {cpu['worker']:.2f} |",
        "",
        f"The worker reaches {statistics.median(ratios):.0%} of the SDK alone (range {min(ratios):.0%} to {max(ratios):.0%}).",
    ]


if __name__ == "__main__":
    main()
