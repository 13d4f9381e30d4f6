"""The throughput of each part of an arena by itself: `python bench/arena_ceilings.py --home DIR --out RESULTS.md`.

One part after another, without HTTP in between: appending to the log in batches, deciding for voters as a web
process does, folding the log into a web process's counts, rating it, checkpoints. CPU time of the process that does it, and for the log the clock too.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from arena_load import LoadSettings, next_serial, serve_ahead
from arena_seed import make_arena, seed_log
from arena_servers import database
from arena_usage import cpu_of, family
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.log.event_log import SOURCES, LogRow, OpenMatchup, append_batch, read_tail
from tiltyard.arena.log.log_columns import LogColumns, read_columns
from tiltyard.arena.voting.arena_state import ArenaState
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.arena_fold import ArenaFold
from tiltyard.postgres.connections import connect, connect_async, open_pool
from tiltyard.settings.arena_settings import ArenaSettings

BATCHES = (1, 10, 100, 1_000)
#: Voters at the same time, each of whom sends the next request when the last one is answered.
CROWD_VOTERS = (64, 256)
_WHOLE = 400
_DECIDED_SECONDS = 8.0


def measure_ceilings(home: Path, settings: LoadSettings) -> list[tuple[str, str]]:
    """Rows of a table."""
    with database(home) as house:
        arena = asyncio.run(make_arena(house.url, settings.models, settings.prompts))
        first = seed_log(house.url, arena, settings.models, settings.prompts, settings.battles)
        rows = [_folded(house.url, arena, settings, first.head - 2 * settings.battles)]
        rows += _rated(house.url, arena, settings)
        rows += [_decided(house.url, house.postmaster, arena, voters) for voters in CROWD_VOTERS]
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
                        batch.vote(_open_matchup(serial + done + k), k % 4, blind=True)
                done += size
            spent = cpu_of(family(postmaster)) - server
            return time.perf_counter() - start, time.process_time() - cpu, spent

    seconds, cpu, server = asyncio.run(append())
    told = f"{count / seconds:,.0f}/s; CPU a vote: {cpu / count * 1e6:.0f} µs ours, {server / count * 1e6:.0f} PostgreSQL"
    return f"votes appended, {size:,} to a batch", told


def _open_matchup(serial: int) -> OpenMatchup:
    """A matchup as `serve_ahead` serves it."""
    now = datetime.now(tz=UTC)
    return OpenMatchup(
        matchup=UUID(int=serial),
        source=0,
        serial=serial,
        session=1,
        a=0,
        b=1,
        prompt=0,
        response_a=1,
        response_b=2,
        nominal=0,
        lane=0,
        served_at=now,
        expires_at=now,
    )


def _decided(url: str, postmaster: int, arena: Arena, voters: int) -> tuple[str, str]:
    """Matchups and votes as a web process decides them: all but HTTP, cookies and responses' texts."""

    async def vote(queue: VotingQueue, first: int, until: float) -> int:
        cycles = 0
        while time.perf_counter() < until:
            # A session knows names after its votes: another one comes, as in the load of whole cycles.
            voter = Voter(first + cycles // LoadSettings.stay)
            offered = await queue.next_matchup(voter)
            await queue.vote(voter, offered.matchup, Kind(cycles % 4))
            cycles += 1
        return cycles

    async def decide() -> tuple[int, float, float, float]:
        async with open_pool(url, most=4) as pool:
            queue = VotingQueue(pool, arena.arena, arena.name, arena.settings)
            await queue.open()
            try:
                start, cpu, server = time.perf_counter(), time.process_time(), cpu_of(family(postmaster))
                until = start + _DECIDED_SECONDS
                crowd = [vote(queue, 10**12 * (1 + k) + voters, until) for k in range(voters)]
                cycles = sum(await asyncio.gather(*crowd))
                spent = cpu_of(family(postmaster)) - server
                return cycles, time.perf_counter() - start, time.process_time() - cpu, spent
            finally:
                await queue.close()

    cycles, seconds, cpu, server = asyncio.run(decide())
    told = (
        f"{cycles / seconds:,.0f} cycles/s; CPU a cycle: {cpu / cycles * 1e6:.0f} µs ours, "
        f"{server / cycles * 1e6:.0f} PostgreSQL"
    )
    return f"a process decides, {voters} voters at once", told


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
