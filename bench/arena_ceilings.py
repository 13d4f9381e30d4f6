"""The throughput of each part of a live arena by itself: `python bench/arena_ceilings.py --home DIR --out RESULTS.md`.

One part after another, without HTTP in between: appending to the log in batches, folding the log into a web
process's counts, rating it, checkpoints. CPU time of the process that does it, and for the log the clock too.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from arena_load import LoadSettings, next_serial, serve_ahead
from arena_seed import make_arena, seed_log
from arena_servers import database
from arena_usage import cpu_of, family
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.log.event_log import SOURCES, LogKind, LogRow, append_batch, read_tail
from tiltyard.arena.log.log_columns import LogColumns, read_columns
from tiltyard.arena.voting.arena_state import ArenaState
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.arena_fold import ArenaFold
from tiltyard.postgres.connections import connect, connect_async
from tiltyard.settings.arena_settings import ArenaSettings

__all__ = ["measure_ceilings"]

BATCHES = (1, 10, 100, 1_000)
_WHOLE = 400


def measure_ceilings(home: Path, settings: LoadSettings) -> list[tuple[str, str]]:
    """Rows of a table."""
    with database(home) as house:
        arena = asyncio.run(make_arena(house.url, settings.models, settings.prompts))
        first = seed_log(house.url, arena, settings.models, settings.prompts, settings.battles)
        rows = [_folded(house.url, arena, settings, first.head - 2 * settings.battles)]
        rows += _rated(house.url, arena, settings)
        for size in BATCHES:
            rows.append(_appended(house.url, house.postmaster, arena, settings, size))
    return rows


def _appended(url: str, postmaster: int, arena: Arena, settings: LoadSettings, size: int) -> tuple[str, str]:
    """Votes on served matchups by one process, a number of them per transaction."""
    count = min(20_000, max(400, size * 100))
    asyncio.run(serve_ahead(url, arena, [(1, "")] * (count // settings.stay), settings))

    async def append() -> tuple[float, float, float]:
        async with await connect_async(url) as connection:
            async with append_batch(connection, arena.arena) as batch:
                serial = await next_serial(batch) - count // settings.stay * settings.stay
            start, cpu, server = time.perf_counter(), time.process_time(), cpu_of(family(postmaster))
            done = 0
            while done < count // settings.stay * settings.stay:
                async with append_batch(connection, arena.arena) as batch:
                    for k in range(min(size, count // settings.stay * settings.stay - done)):
                        batch.end(
                            LogKind.VOTE, 0, serial + done + k, session=1, a=0, b=1, prompt=0, outcome=k % 4
                        )
                done += size
            spent = cpu_of(family(postmaster)) - server
            return time.perf_counter() - start, time.process_time() - cpu, spent

    seconds, cpu, server = asyncio.run(append())
    told = f"{count / seconds:,.0f}/s; CPU a vote: {cpu / count * 1e6:.0f} µs ours, {server / count * 1e6:.0f} PostgreSQL"
    return f"votes appended, {size:,} to a batch", told


def _folded(url: str, arena: Arena, settings: LoadSettings, roster: int) -> tuple[str, str]:
    """A web process folds the rows that others wrote."""

    async def read() -> list[LogRow]:
        rows: list[LogRow] = []
        async with await connect_async(url) as connection:
            while len(rows) < 20_000 and (
                more := await read_tail(connection, arena.arena, roster + len(rows))
            ):
                rows += more
        return rows

    standings = [_standing(settings) for _ in SOURCES]
    for standing in standings:
        for model in range(settings.models):
            standing.enable(model)
    live, rows = ArenaState(ArenaSettings(), standings, roster), asyncio.run(read())

    def fold() -> None:
        for row in rows:
            live.fold(row)
        live.settle(rows[-1].at, rows[-1].position)

    cpu = _cpu(fold)
    return "an event folded by each web process", f"{cpu / len(rows) * 1e6:.0f} µs"


def _standing(settings: LoadSettings) -> Standing:
    names = [f"m{k}" for k in range(settings.models)]
    return Standing(Policy(), names, [f"p{k}" for k in range(settings.prompts)])


def _rated(url: str, arena: Arena, settings: LoadSettings) -> list[tuple[str, str]]:
    """The rater on the same log, with evaluations as in the policy, and its checkpoint."""
    with connect(url) as connection:
        start = time.perf_counter()
        columns: LogColumns = read_columns(connection, arena.arena, 0)
        reading = time.perf_counter() - start
    names = [f"model-{k}" for k in range(settings.models)], [f"prompt-{k}" for k in range(settings.prompts)]
    following = ArenaFold(Policy(), None, *names, whole=_WHOLE)
    events = columns.events(0)
    cpu = _cpu(lambda: following.fold(events))
    saved: list[bytes] = []
    saving = _cpu(lambda: saved.append(following.save()))
    restoring = _cpu(lambda: ArenaFold.restore(saved[0]))
    votes = max(following.votes, 1)
    return [
        ("an event read in bulk", f"{reading / len(columns) * 1e6:.1f} µs"),
        ("a vote rated, evaluations included", f"{cpu / votes * 1e6:.0f} µs"),
        (
            "a checkpoint of one source",
            f"{len(saved[0]) / 2**20:.1f} MiB; saved in {saving:.2f} s, restored in {restoring:.2f}",
        ),
    ]


def _cpu(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--home", type=Path, required=True, help="an empty folder for the database")
    parser.add_argument("--battles", type=int, default=100_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    settings = LoadSettings(battles=options.battles)
    rows = measure_ceilings(options.home, settings)
    about = (
        f"{settings.models} models × {settings.prompts:,} prompts, {settings.battles:,} battles in the log."
    )
    lines = [f"{datetime.now(tz=UTC):%Y-%m-%d}: {about}", "", "| | |", "|---|--:|"]
    lines += [f"| {name} | {told} |" for name, told in rows]
    text = "\n".join(lines) + "\n"
    print(text)
    if options.out is not None:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
